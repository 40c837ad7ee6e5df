//go:build linux

package beadlock

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const whole = `{"holder":"vc","pid":12345,"hostname":"remote-host","started_at":"2025-10-25T12:00:00Z"}`

// TestMain is also a daemon in the middle of a cycle: see inCycle.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BEADLOCK_TEST_CYCLE"); dir != "" {
		cycle, decision := Enter(dir)
		if cycle == nil {
			fmt.Println("skipped:", decision)
			return
		}
		fmt.Println("entered")
		if os.Getenv("BEADLOCK_TEST_WORK") != "" {
			work := exec.Command("sleep", "300")
			work.Dir = "/"
			cycle.PassOn(work)
			if err := work.Start(); err != nil {
				panic(err)
			}
			fmt.Println(work.Process.Pid)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// program puts the directory of the program beadlock, in BEADLOCK_BIN, in front of PATH.
func program(t *testing.T) {
	t.Helper()
	bin := os.Getenv("BEADLOCK_BIN")
	if bin == "" {
		t.Skip("needs BEADLOCK_BIN, the directory with the program beadlock")
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func database(t *testing.T) (dir, lock string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), ".beads")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, filepath.Join(dir, lockName)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func deadPID(t *testing.T) int {
	t.Helper()
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	return child.Process.Pid
}

func lockOf(t *testing.T, holder string, pid int, more string) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"holder":%q,"pid":%d,"hostname":%q,"started_at":"2025-10-25T12:00:00Z"%s}`, holder, pid, host, more)
}

func lineIs(t *testing.T, decision Decision, line string) {
	t.Helper()
	if decision.String() != line {
		t.Errorf("the line is\n\t%s\nand should be\n\t%s", decision, line)
	}
}

func TestParse(t *testing.T) {
	with := func(from, to string) string { return strings.Replace(whole, from, to, 1) }
	for _, row := range []struct {
		text string
		want error
	}{
		{whole, nil},
		{" " + whole + "\r\n", nil},
		{with("{", `{"holder":1,`), ErrMalformed},
		{with("{", `{"unknown":[{"pid":"x"}],`), nil},
		{with("{", `{"holder":null,`), nil},
		{with(`"vc"`, `"vc","HOLDER":"second"`), nil},
		{with(`"vc"`, `""`), ErrInvalid},
		{with("12345", "0"), ErrInvalid},
		{with("12345", "-1"), ErrInvalid},
		{with("12345", "1.0"), ErrMalformed},
		{with("12345", "9223372036854775808"), ErrMalformed},
		{with(`"12345"`, `"5"`), nil},
		{with(`"remote-host"`, `""`), ErrInvalid},
		{with("2025-10-25T12:00:00Z", "0001-01-01T05:30:00+05:30"), ErrInvalid},
		{with("2025-10-25T12:00:00Z", "2025-10-25T1:00:00Z"), nil},
		{with("2025-10-25T12:00:00Z", "2025-10-25T12:00:00,5-24:60"), nil},
		{with("2025-10-25T12:00:00Z", "2025-10-25T12:00:00"), ErrMalformed},
		{with("2025-10-25T12:00:00Z", "2025-02-29T12:00:00Z"), ErrMalformed},
		{with("2025-10-25T12:00:00Z", `2025-10-25T12:00:00\u005a`), ErrMalformed},
		{with("{", `{"x":`+strings.Repeat("[", 127)+strings.Repeat("]", 127)+","), nil},
		{with("{", `{"x":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)+","), ErrMalformed},
		{whole + whole, ErrMalformed},
		{"\ufeff" + whole, ErrMalformed},
		{"null", ErrInvalid},
		{"[]", ErrMalformed},
		{"", ErrMalformed},
	} {
		record, err := Parse([]byte(row.text))
		if !errors.Is(err, row.want) || (err == nil) != (record != nil) {
			t.Errorf("%s: %v, and should be %v", row.text, err, row.want)
		}
	}
	if _, err := Parse([]byte("{")); err == nil || err.Error() != "malformed lock file: unexpected EOF" {
		t.Errorf("a cut record: %v", err)
	}
}

// What the checker in Rust has answered: tests/protocol/go writes the cases, each with a database of its own.
func TestAnswersAsTheChecker(t *testing.T) {
	cases := os.Getenv("BEADLOCK_CASES")
	if cases == "" {
		t.Skip("needs BEADLOCK_CASES, which tests/protocol/go writes")
	}
	program(t)
	index, err := os.Open(filepath.Join(cases, "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	count := 0
	for lines := bufio.NewScanner(index); lines.Scan(); count++ {
		var row struct{ Name, Dir, Class, Holder, Line, After string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		decision := Check(row.Dir)
		class, holder := string(decision.Reason), ""
		switch {
		case decision.Proceed:
			class = "proceed"
		case strings.HasPrefix(decision.String(), "Skipping database (locked by "):
			class = "locked"
		}
		if decision.Record != nil {
			holder = decision.Record.Holder
		}
		after := "kept"
		if _, err := os.Lstat(filepath.Join(row.Dir, lockName)); os.IsNotExist(err) {
			after = "gone"
		}
		if class != row.Class || holder != row.Holder || after != row.After {
			t.Errorf("%s: %s %q %s, and the checker says %s %q %s", row.Name, class, holder, after, row.Class, row.Holder, row.After)
		}
		if class == "locked" || class == "invalid" || class == "proceed" {
			lineIs(t, decision, row.Line)
		}
	}
	t.Logf("%d cases", count)
	if count == 0 {
		t.Error("no case")
	}
}

func TestCheckOfFiles(t *testing.T) {
	const failed = "Skipping database (lock check failed: failed to read lock file: "
	for name, row := range map[string]struct {
		make func(dir, lock string) error
		line string
	}{
		"link": {func(_, lock string) error { return os.Symlink("nowhere", lock) }, failed + "it is a symbolic link)"},
		"fifo": {func(_, lock string) error { return syscall.Mkfifo(lock, 0o644) }, failed + "it is not a regular file (prw-r--r--))"},
		"dir":  {func(_, lock string) error { return os.Mkdir(lock, 0o755) }, failed + "it is not a regular file (drwxr-xr-x))"},
		"socket": {func(_, lock string) error {
			listener, err := net.Listen("unix", lock)
			if err == nil {
				listener.(*net.UnixListener).SetUnlinkOnClose(false)
				err = listener.Close()
			}
			return err
		}, failed + "it is a socket)"},
		"large": {func(_, lock string) error {
			return os.WriteFile(lock, []byte(whole+strings.Repeat(" ", largest)), 0o644)
		}, failed + "it is larger than 64 KiB)"},
		"no database": {func(dir, _ string) error { return os.Remove(dir) }, ""},
		"file": {func(dir, _ string) error {
			_ = os.Remove(dir)
			return os.WriteFile(dir, nil, 0o644)
		}, failed + "not a directory)"},
		"fleet": {func(dir, _ string) error { return os.WriteFile(filepath.Join(dir, fleetName), nil, 0o644) },
			"Skipping database (lock check failed: a check cannot keep a fleet claim away; run the work under `beadlock cycle`)"},
		"aside": {func(dir, _ string) error { return os.WriteFile(filepath.Join(dir, sideName), []byte(whole), 0o644) },
			"Skipping database (lock check failed: failed to recover .exclusive-lock.aside: " + noProgram + ")"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", "/nowhere")
			dir, lock := database(t)
			if err := row.make(dir, lock); err != nil {
				t.Fatal(err)
			}
			decision := Check(dir)
			lineIs(t, decision, row.line)
			if decision.Proceed != (row.line == "") {
				t.Errorf("%+v", decision)
			}
			if cycle, _ := Enter(dir); cycle != nil {
				t.Error("a cycle")
			}
		})
	}
}

const noProgram = `exec: "beadlock": executable file not found in $PATH`

func TestJudge(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	dead, me := 0, os.Getpid()
	func() { t.Setenv("PATH", "/bin:/usr/bin"); dead = deadPID(t) }()
	t.Setenv("PATH", "/nowhere")
	boot := fmt.Sprintf(`"boot_id":%q`, bootID())
	for name, row := range map[string]struct {
		text string
		want Reason
	}{
		"alive":              {lockOf(t, "vc", me, ""), PIDAlive},
		"gone":               {lockOf(t, "vc", dead, ""), RemovalFailed},
		"too large a PID":    {lockOf(t, "vc", 1<<31, ""), PIDUnknown},
		"other host":         {whole, OtherHost},
		"other machine":      {lockOf(t, "vc", dead, `,"beadlock":{"id":"a","machine_id":"x"}`), otherMachineIfKnown()},
		"container":          {lockOf(t, "vc", dead, `,"beadlock":{"id":"a","pid_ns":"pid:[1]",`+boot+`}`), OtherPIDNamespace},
		"of an unknown boot": {lockOf(t, "vc", dead, `,"beadlock":{"id":"a","pid_ns":"pid:[1]"}`), OtherPIDNamespace},
		"odd mark":           {lockOf(t, "vc", dead, `,"beadlock":{"id":7,"pid_ns":"pid:[1]"}`), OtherPIDNamespace},
		"no mark":            {lockOf(t, "vc", dead, `,"beadlock":7`), RemovalFailed},
		"before the boot":    {lockOf(t, "vc", dead, `,"beadlock":{"id":"a","pid_ns":"pid:[1]","boot_id":"x"}`), ifKnown(bootID(), RemovalFailed, OtherPIDNamespace)},
	} {
		t.Run(name, func(t *testing.T) {
			dir, lock := database(t)
			write(t, lock, row.text)
			decision := Check(dir)
			if decision.Reason != row.want || decision.Proceed || decision.String() == "" {
				t.Errorf("%+v, and should be %s", decision, row.want)
			}
		})
	}
}

func ifKnown(value string, known, unknown Reason) Reason {
	if value == "" {
		return unknown
	}
	return known
}

func otherMachineIfKnown() Reason { return ifKnown(machineID(), OtherMachine, RemovalFailed) }

func TestStaleLocks(t *testing.T) {
	dir, lock := database(t)
	dead := lockOf(t, "a\nb", deadPID(t), "")
	write(t, lock, dead)
	path := os.Getenv("PATH")
	t.Setenv("PATH", "/nowhere")
	cycle, decision := Enter(dir)
	if cycle != nil {
		t.Fatal("a cycle beside a lock that nobody has removed")
	}
	lineIs(t, decision, "Skipping database (lock check failed: failed to remove stale lock: "+noProgram+")")

	t.Setenv("PATH", path)
	program(t)
	cycle, decision = Enter(dir)
	lineIs(t, decision, `Removed stale lock (a\nb), proceeding with sync`)
	if cycle == nil || decision.Reason != PIDGone || decision.Record.Holder != "a\nb" {
		t.Fatalf("%+v", decision)
	}
	cycle.Close()

	// A crash has left it, dead or alive.
	write(t, filepath.Join(dir, sideName), dead)
	if cycle, decision = Enter(dir); cycle == nil {
		t.Fatal(decision)
	}
	cycle.Close()
	write(t, filepath.Join(dir, sideName), lockOf(t, "vc", os.Getpid(), ""))
	cycle, decision = Enter(dir)
	lineIs(t, decision, "Skipping database (locked by vc)")
	if _, err := os.Stat(lock); cycle != nil || err != nil {
		t.Errorf("the lock that lay aside is not back: %v", err)
	}

	// The program says why, in its own words.
	write(t, lock, dead)
	write(t, filepath.Join(dir, sideName), "{")
	_, decision = Enter(dir)
	if decision.Proceed || decision.String() == "" {
		t.Errorf("%+v", decision)
	}
}

func TestGate(t *testing.T) {
	dir, lock := database(t)
	cycle, decision := Enter(dir)
	if cycle == nil {
		t.Fatal(decision)
	}
	lineIs(t, decision, "")
	const busy = "Skipping database (a sync cycle or a claim is in progress)"
	second, decision := Enter(dir)
	if second != nil || decision.Reason != GateBusy {
		t.Errorf("a second cycle: %+v", decision)
	}
	lineIs(t, decision, busy)
	if err := cycle.Close(); err != nil {
		t.Error(err)
	}
	if err := cycle.Close(); err != nil {
		t.Error("again:", err)
	}
	write(t, lock, whole)
	if cycle, decision = Enter(dir); cycle != nil {
		t.Fatal("a cycle on a claimed database")
	}
	lineIs(t, decision, "Skipping database (locked by vc)")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if cycle, decision = Enter(dir); cycle == nil {
		t.Fatal("the skip has kept the gate: ", decision)
	}
	cycle.Close()
}

func TestLost(t *testing.T) {
	dir, _ := database(t)
	cycle, _ := Enter(dir)
	defer cycle.Close()
	if cycle.Lost() {
		t.Error("lost from the beginning")
	}
	if err := os.Rename(dir, dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if !cycle.Lost() {
		t.Error("nothing is at the path")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if !cycle.Lost() {
		t.Error("another directory is at the path")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"-old", dir); err != nil {
		t.Fatal(err)
	}
	if cycle.Lost() {
		t.Error("it is back")
	}
}

// daemon is this test as another process, in a cycle on dir.
type daemon struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func inCycle(t *testing.T, dir string, more ...string) daemon {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(append(os.Environ(), "BEADLOCK_TEST_CYCLE="+dir), more...)
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = command.Process.Kill(); _ = command.Wait() })
	started := daemon{command, bufio.NewScanner(stdout)}
	if line := started.line(); line != "entered" {
		t.Fatal(line)
	}
	return started
}

func (d daemon) line() string {
	d.lines.Scan()
	return d.lines.Text()
}

// hold starts `beadlock hold`, which waits for the gate; its command says that the claim stands.
func hold(t *testing.T, dir string) (said <-chan string) {
	t.Helper()
	command := exec.Command("beadlock", "hold", "beads:"+dir, "--", "echo", "held")
	lines := make(chan string, 1)
	go func() {
		output, err := command.Output()
		lines <- fmt.Sprint(string(output), err)
	}()
	return lines
}

// waits is true once somebody is blocked in flock(2) for the gate.
func waits(t *testing.T, dir string) bool {
	t.Helper()
	var found syscall.Stat_t
	if err := syscall.Stat(dir, &found); err != nil {
		t.Fatal(err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(locks), "\n") {
		if strings.Contains(line, "->") && strings.Contains(line, fmt.Sprintf(":%d ", found.Ino)) {
			return true
		}
	}
	return false
}

func until(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !seen(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: ", what)
		}
	}
}

func isHeld(t *testing.T, said <-chan string) {
	t.Helper()
	select {
	case words := <-said:
		if !strings.HasPrefix(words, "held\n") {
			t.Error(words)
		}
	case <-time.After(time.Minute):
		t.Fatal("the claim still waits")
	}
}

func TestClaimWaitsForTheCycle(t *testing.T) {
	program(t)
	dir, _ := database(t)
	cycle, decision := Enter(dir)
	if cycle == nil {
		t.Fatal(decision)
	}
	said := hold(t, dir)
	until(t, "a claim that waits", func() bool { return waits(t, dir) })
	select {
	case words := <-said:
		t.Fatal("a claim beside a cycle: ", words)
	default:
	}
	cycle.Close()
	isHeld(t, said)
}

func TestKilledDaemonLeavesTheGateFree(t *testing.T) {
	program(t)
	dir, _ := database(t)
	killed := inCycle(t, dir)
	said := hold(t, dir)
	until(t, "a claim that waits", func() bool { return waits(t, dir) })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	isHeld(t, said)
}

func TestWorkKeepsTheGateOfKilledDaemon(t *testing.T) {
	program(t)
	dir, _ := database(t)
	killed := inCycle(t, dir, "BEADLOCK_TEST_WORK=1")
	var work int
	if _, err := fmt.Sscan(killed.line(), &work); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(work, syscall.SIGKILL) })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if cycle, decision := Enter(dir); cycle != nil || decision.Reason != GateBusy {
		t.Fatalf("the work has not kept the gate: %+v", decision)
	}
	said := hold(t, dir)
	until(t, "a claim that waits", func() bool { return waits(t, dir) })
	if err := syscall.Kill(work, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	isHeld(t, said)
}

func TestCloseFreesTheGateOfWhatIsLeft(t *testing.T) {
	dir, _ := database(t)
	cycle, _ := Enter(dir)
	left := exec.Command("sleep", "300")
	cycle.PassOn(left)
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = left.Process.Kill(); _ = left.Wait() }()
	cycle.Close()
	cycle, decision := Enter(dir)
	if cycle == nil {
		t.Fatal(decision)
	}
	cycle.Close()
}

func TestForgottenCycleKeepsTheGate(t *testing.T) {
	dir, _ := database(t)
	func() { _, _ = Enter(dir) }()
	runtime.GC()
	runtime.GC()
	if cycle, _ := Enter(dir); cycle != nil {
		t.Error("the collector has opened the gate")
	}
	// So that this process is done with it.
	entered.Range(func(cycle, _ any) bool { cycle.(*Cycle).Close(); return true })
}
