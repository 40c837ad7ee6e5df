// A sync daemon that stays out of the way of claims: every cycle runs under `beadlock cycle`.
//
//	beadlock-daemon [-interval 5s] [-target DIR] -- CMD [ARG...]
//
// Nothing but the standard library. Lines go to stderr, times are in UTC.
//
// SIGTERM and SIGINT end it after the cycle that is running, with exit code 0; the second one is passed on to that
// cycle.
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
)

// beadlock's own exit codes for "leave the database alone this time". Why is in the line that it prints. A command of
// yours that ends with one of these is better wrapped: `sh -c 'cmd || exit 1'`.
const (
	heldOrBusy = 4
	notChecked = 5
)

func main() {
	interval := flag.Duration("interval", 5*time.Second, "the pause between two cycles")
	target := flag.String("target", "", "the database's directory (default: the nearest .beads, as beadlock finds it)")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: %s [-interval 5s] [-target DIR] -- CMD [ARG...]\n", os.Args[0])
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	args := []string{"cycle"}
	if *target != "" {
		args = append(args, *target)
	}
	args = append(append(args, "--"), flag.Args()...)

	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	missing := false
	for {
		stopping, err := cycle(args, signals)
		// Without beadlock nobody knows whether the database is claimed: no cycle. It may come back, as after an upgrade.
		if err != nil && !missing {
			logLine("No sync cycles: cannot run beadlock: %v", err)
		}
		missing = err != nil
		if stopping {
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

// cycle runs one sync cycle and logs its end. It tells whether a signal has come meanwhile; an error means that there
// was no cycle, because beadlock could not be started.
func cycle(args []string, signals <-chan os.Signal) (stopping bool, err error) {
	output, input, err := os.Pipe()
	if err != nil {
		return false, err
	}
	command := exec.Command("beadlock", args...)
	// A file, not any io.Writer: Wait would wait for the pipe's end, which what the command leaves behind may keep open.
	command.Stdout, command.Stderr = input, input
	// In a session of its own: a Ctrl-C is for the daemon, which lets the cycle finish.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = command.Start()
	input.Close()
	if err != nil {
		output.Close()
		return false, err
	}
	copied, ended := make(chan struct{}), make(chan error, 1)
	go func() { copyToLog(output); close(copied) }()
	go func() { ended <- command.Wait() }()
	for {
		select {
		case <-signals:
			if !stopping {
				logLine("Stopping after the cycle that is running")
			} else {
				// `beadlock cycle` passes it on to the command, and waits for all that it has started.
				_ = command.Process.Signal(syscall.SIGTERM)
			}
			stopping = true
		case err := <-ended:
			select {
			case <-copied:
			case <-time.After(time.Second):
			}
			logEnd(err)
			return stopping, nil
		}
	}
}

func logEnd(err error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		logLine("Sync cycle complete")
	case !errors.As(err, &exit):
		logLine("Sync cycle failed: its end is unknown: %v", err)
	case exit.ExitCode() == heldOrBusy, exit.ExitCode() == notChecked:
		// Skipped; beadlock has said why.
	case exit.ExitCode() < 0:
		logLine("Sync cycle failed: beadlock was ended by a signal: %v", exit)
	default:
		logLine("Sync cycle failed: exit code %d", exit.ExitCode())
	}
}

// copyToLog reads to the end of the stream whatever comes: a line of any length, a last one without its newline.
func copyToLog(stream io.ReadCloser) {
	defer stream.Close()
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			logLine("%s", strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "beadlock: "))
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
