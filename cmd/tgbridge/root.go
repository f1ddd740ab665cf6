package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tgbridge/internal/secret"
	"tgbridge/lock"
)

// cli is what the commands have in common.
type cli struct {
	stdin          io.Reader
	stdout, stderr *redactor
	stdoutEscapes  bool       // stdout is a terminal that understands escapes
	columns        func() int // how wide it is now; 0: not known
	stderrTerminal bool
	environ        []string
	exit           func(code int) // ends the process at once, for the second signal alone
	beforeExit     func()         // called before exit; may be nil, must not block
	ran            bool           // a command began its work: cobra has nothing more to refuse
}

// newCLI returns a cli that writes the token of the environment nowhere. For
// members stderr must not block (package logwriter).
func newCLI(stdin io.Reader, stdout, stderr io.Writer, environ []string, exit func(int)) *cli {
	c := &cli{
		stdin:          stdin,
		stdout:         newRedactor(stdout),
		stderr:         newRedactor(stderr),
		stdoutEscapes:  isTerminal(stdout) && !isDumb(environ),
		columns:        func() int { return columns(stdout) },
		stderrTerminal: isTerminal(stderr),
		environ:        environ,
		exit:           exit,
	}
	for _, entry := range environ {
		if token, ok := strings.CutPrefix(entry, "TELEGRAM_BOT_TOKEN="); ok {
			c.hide(secret.New(token))
		}
	}
	return c
}

// hide keeps a token out of everything that is written from now on.
func (c *cli) hide(token secret.Secret) {
	c.stdout.hide(token)
	c.stderr.hide(token)
}

// commands lists the commands, in the order of the help.
func (c *cli) commands() []*cobra.Command {
	return []*cobra.Command{
		c.echoCmd(),
		c.execCmd(),
		c.statusCmd(),
		c.sendCmd(),
		c.handoverCmd(),
		c.healthCmd(),
		c.demoCmd(),
		c.versionCmd(),
	}
}

// run runs the command that args name, and returns the exit code.
func run(c *cli, args []string) int {
	return c.execute(c.rootCmd(c.commands()...), args)
}

// rootCmd returns the command that the others hang on. The settings are flags
// of all of them.
func (c *cli) rootCmd(commands ...*cobra.Command) *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:   "tgbridge",
		Short: "One Telegram bot, many processes",
		Long: `tgbridge shares one Telegram bot among many processes: one of them polls
Telegram, all get their share of the updates, and when that one dies, hangs or
is stopped, another takes over.

Settings are environment variables, such as TELEGRAM_BOT_TOKEN, or flags.`,
		Version:       buildVersion(),
		SilenceErrors: true, // execute prints them, with the exit code
		SilenceUsage:  true,
	}
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(flagError)
	addSettings(root)
	for _, cmd := range commands {
		c.noteRun(cmd)
		root.AddCommand(cmd)
	}
	addCompletion(root)
	return root
}

// addCompletion adds cobra's completion command, which takes any argument that
// is no shell for a wish to see the help.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = nil
			cmd.RunE = func(*cobra.Command, []string) error {
				return usage("for which shell: bash, zsh, fish or powershell?")
			}
		}
	}
}

// noteRun makes cmd say that it began its work: what cobra refused before was
// wrong usage.
func (c *cli) noteRun(cmd *cobra.Command) {
	work := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.ran = true
		return work(cmd, args)
	}
}

// flagError explains why there is no flag for the token, and says what a value
// must be without the words of the parser.
func flagError(_ *cobra.Command, err error) error {
	var value *strconv.NumError
	if errors.As(err, &value) {
		text, _, _ := strings.Cut(err.Error(), ": strconv.")
		if value.Func == "ParseBool" {
			return usage("%s: it must be true or false", text)
		}
		return usage("%s: it must be a number", text)
	}
	if strings.HasPrefix(err.Error(), "unknown flag: --bot-token") || strings.HasPrefix(err.Error(), "unknown flag: --token") {
		return usage("%v: every process could read it there; use TELEGRAM_BOT_TOKEN or --bot-token-file", err)
	}
	return err
}

// execute runs root with args, prints the error if there is one, and returns
// the exit code.
func (c *cli) execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	if !c.ran {
		err = usage("%v", err)
	}
	code := exitCode(err)
	if errors.Is(err, syscall.EPIPE) { // whoever read stdout has seen enough
		return code
	}
	fmt.Fprintf(c.stderr, "tgbridge: %v\n", err)
	var wrongUsage *usageError
	switch {
	case errors.As(err, &wrongUsage):
		fmt.Fprintf(c.stderr, "See '%s --help'.\n", cmd.CommandPath())
	case code == exitState && !errors.Is(err, lock.ErrDamaged):
		fmt.Fprintln(c.stderr, "Another state directory is set by TGBRIDGE_STATE_DIR or --state-dir; all members must share it.")
	}
	return code
}
