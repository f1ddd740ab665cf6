// Command chaos runs members against a test server under load, and for a given
// time kills, freezes, stops and hands over, at random from a seed. Then it
// checks, from the server's ledger and from what the handlers wrote down, that
// nothing was lost or out of order, that nobody polled who should not, that no
// work was run twice whose member lived, and prints how long nobody polled after
// each kind of incident.
//
//	go run ./cmd/chaos --duration 10m --seed 7
//
// The members are tgbridge processes (built for the run, or --tgbridge PATH)
// that run a shell command for each message. Exit code 0: no fault. 1: faults,
// printed, and the directory with state and logs is kept. 2: wrong usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	duration time.Duration
	seed     uint64
	members  int
	chats    int
	rate     float64
	work     time.Duration
	asJSON   bool
	record   string
	tgbridge string
	keep     bool
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long incidents happen")
	flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "the same seed chooses the same incidents, but not their effects")
	flags.IntVar(&o.members, "members", 3, "members, at least 2")
	flags.IntVar(&o.chats, "chats", 20, "chats that write to the bot")
	flags.Float64Var(&o.rate, "rate", 40, "messages a second in all chats together")
	flags.DurationVar(&o.work, "work", 20*time.Millisecond, "how long a handler works on a message")
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON object instead of text")
	flags.StringVar(&o.record, "record", "", "file to which a line with the result is appended")
	flags.StringVar(&o.tgbridge, "tgbridge", "", "the program to run; default: built from this module")
	flags.BoolVar(&o.keep, "keep", false, "keep the directory with state and logs also without faults")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if o.members < 2 || o.chats < 1 || o.rate <= 0 || o.duration <= 0 || flags.NArg() > 0 {
		_, _ = fmt.Fprintln(stderr, "chaos: at least 2 members, 1 chat, a rate and a duration above 0, no arguments")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	faults, err := perform(ctx, o, stdout, stderr)
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "chaos:", err)
		return 1
	case faults:
		return 1
	}
	return 0
}

// perform runs the whole of it, and reports whether there were faults.
func perform(ctx context.Context, o options, stdout, stderr io.Writer) (faults bool, err error) {
	dir, err := os.MkdirTemp("", "tgbridge-chaos-")
	if err != nil {
		return false, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if faults || err != nil || o.keep {
			_, _ = fmt.Fprintln(stderr, "chaos: state and logs are kept in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	}()
	if o.tgbridge == "" {
		o.tgbridge = filepath.Join(dir, "tgbridge")
		if err := build(ctx, o.tgbridge); err != nil {
			return false, err
		}
	}
	result, err := storm(ctx, o, dir, stderr)
	if err != nil {
		return false, err
	}
	if o.asJSON {
		err = json.NewEncoder(stdout).Encode(result)
	} else {
		err = result.print(stdout)
	}
	if o.record != "" {
		err = errors.Join(err, appendRecord(o.record, result))
	}
	return len(result.Faults) > 0, err
}

// build builds the members' program from the module in the working directory.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "tgbridge/cmd/tgbridge")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tgbridge (run chaos in its module, or name the program with --tgbridge): %w\n%s", err, out)
	}
	return nil
}

// appendRecord adds a line to the record.
func appendRecord(path string, r result) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("append to record: %w", err)
	}
	return errors.Join(json.NewEncoder(f).Encode(r), f.Close())
}
