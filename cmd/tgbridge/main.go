// Command tgbridge shares one Telegram bot among many processes.
//
// Each command has a file of its own: a method of cli that returns the
// *cobra.Command, listed in commands. What commands return as errors becomes
// the exit code and the message in one place (exit.go); nothing below main
// ends the process.
package main

import (
	"log"
	"os"

	"tgbridge/internal/logwriter"
)

func main() {
	stderr := logwriter.New(os.Stderr)
	exit := func(code int) {
		stderr.Close()
		os.Exit(code)
	}
	c := newCLI(os.Stdin, os.Stdout, stderr, os.Environ(), exit)
	c.stderrTerminal = isTerminal(os.Stderr)
	log.SetOutput(c.stderr) // what libraries log, such as net/http
	exit(run(c, os.Args[1:]))
}
