package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the programs that scripts and tests run.
func TestMain(m *testing.M) {
	// Most of these tests wait most of the time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"tgbridge":     main,
		"closed-pipes": writeIntoClosedPipes,
	})
}

// TestScripts runs the scripts in testdata/script against the real program.
// Beside testscript's own commands there is
//
//	exits CODE PROGRAM [ARG...]
//
// which runs the program and checks its exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// writeIntoClosedPipes is a program that, like a member, outlives the readers
// of its output.
func writeIntoClosedPipes() {
	c := newCLI(os.Stdin, os.Stdout, os.Stderr, nil, os.Exit)
	_, stop := c.untilSignal(context.Background())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test has closed the readers
	for range 10 {
		_, _ = fmt.Fprintln(c.stderr, "a line of the log")
		_, _ = fmt.Fprintln(c.stdout, "an answer")
	}
	stop()
	c.exit(7)
}
