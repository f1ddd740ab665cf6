// Command tgbridge shares one Telegram bot among many processes.
//
// Each command has a file of its own: a method of cli that returns the
// *cobra.Command, listed in commands. What commands return as errors becomes
// the exit code and the message in one place (exit.go); nothing below main
// ends the process.
package main

import "os"

func main() {
	os.Exit(run(newCLI(os.Stdin, os.Stdout, os.Stderr, os.Environ(), os.Exit), os.Args[1:]))
}
