// A sync daemon that stays out of the way of claims: it runs a command again and again, each time as a cycle of package
// beadlock.
//
//	daemon [-interval 5s] [-target .beads] -- CMD [ARG...]
//
// Nothing but the standard library and that package. Lines go to stderr, times are in UTC.
//
// SIGTERM and SIGINT end it after the cycle that is running, with exit code 0; the second one is passed on to that cycle's
// process group.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"beadlock.invalid/beadlock"
)

func main() {
	interval := flag.Duration("interval", 5*time.Second, "the pause between two cycles")
	target := flag.String("target", ".beads", "the database's directory")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: %s [-interval 5s] [-target .beads] -- CMD [ARG...]\n", os.Args[0])
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	for {
		if cycle(*target, flag.Args(), signals) {
			return
		}
		select {
		case <-signals:
			logLine("Stopping")
			return
		case <-time.After(*interval):
		}
	}
}

// cycle runs one sync cycle, unless the database is to be left alone, and logs its end. It tells whether a signal has come
// meanwhile.
func cycle(target string, args []string, signals <-chan os.Signal) (stopping bool) {
	cycle, decision := beadlock.Enter(target)
	if line := decision.String(); line != "" {
		logLine("%s", line)
	}
	if cycle == nil {
		return false
	}
	defer cycle.Close()

	output, input, err := os.Pipe()
	if err != nil {
		logLine("Sync cycle failed: %v", err)
		return false
	}
	command := exec.Command(args[0], args[1:]...)
	// A file, not any io.Writer: Wait would wait for the pipe's end, which what the command leaves behind may keep open.
	command.Stdout, command.Stderr = input, input
	// In a session of its own: a Ctrl-C is for the daemon, which lets the cycle finish.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The gate stays shut when this process is killed and the command works on.
	cycle.PassOn(command)
	err = command.Start()
	input.Close()
	if err != nil {
		output.Close()
		logLine("Sync cycle failed: %v", err)
		return false
	}
	copied, ended := make(chan struct{}), make(chan error, 1)
	go func() { copyToLog(output); close(copied) }()
	go func() { ended <- command.Wait() }()
	look := time.NewTicker(300 * time.Millisecond)
	defer look.Stop()
	lost := false
	for {
		select {
		case <-signals:
			if !stopping {
				logLine("Stopping after the cycle that is running")
			} else {
				endGroup(command)
			}
			stopping = true
		case <-look.C:
			if !lost && cycle.Lost() {
				lost = true
				logLine("%q was replaced: ending the cycle", target)
				endGroup(command)
			}
		case err := <-ended:
			select {
			case <-copied:
			case <-time.After(time.Second):
			}
			logEnd(err)
			return stopping
		}
	}
}

// endGroup asks the command and what it has started to end. One that has left the group, or goes on, is not waited for by
// this daemon; `beadlock cycle` does that, and kills what does not end.
func endGroup(command *exec.Cmd) {
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
}

func logEnd(err error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		logLine("Sync cycle complete")
	case !errors.As(err, &exit):
		logLine("Sync cycle failed: its end is unknown: %v", err)
	default:
		code := exit.ExitCode()
		if status, known := exit.Sys().(syscall.WaitStatus); known && status.Signaled() {
			code = 128 + int(status.Signal())
		}
		logLine("Sync cycle failed: exit code %d", code)
	}
}

// copyToLog reads to the end of the stream whatever comes: a line of any length, a last one without its newline.
func copyToLog(stream io.ReadCloser) {
	defer stream.Close()
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			logLine("%s", strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return
		}
	}
}

func logLine(format string, args ...any) {
	// One write a line, so that lines of two goroutines do not mix.
	stamp := time.Now().UTC().Format("[2006-01-02 15:04:05] ")
	_, _ = io.WriteString(os.Stderr, stamp+fmt.Sprintf(format, args...)+"\n")
}
