package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/config"
	"tgbridge/internal/command"
)

// inputs are what a command may get on stdin.
const (
	inputText = "text"
	inputJSON = "json"
)

// overflowNotice follows the first part of an output that is too long.
const overflowNotice = "[this is the beginning of the output, which was too long to be sent whole]"

// Waits of a command that could not be started: the first one, doubled each
// time, and the longest.
const (
	startDelay    = 250 * time.Millisecond
	startDelayMax = 10 * time.Second
)

// execCmd is a member whose handler runs a command for each message.
func (c *cli) execCmd() *cobra.Command {
	var input string
	cmd := &cobra.Command{
		Use:   "exec [flags] -- COMMAND [ARG...]",
		Short: "Run a member that runs COMMAND for each message and replies with what it prints",
		Long: `Run a member that runs COMMAND for each message: the text is its standard input, what it prints is
the reply. Nothing printed and exit code 0: no reply. Any other end is a failure and tried again, up to
TGBRIDGE_ATTEMPTS; then the message becomes a dead letter and its sender gets one line. A COMMAND that
cannot be started for a while is waited for, up to TGBRIDGE_HANDLER_TIMEOUT for each attempt.

The command's environment has TELEGRAM_CHAT_ID, _THREAD_ID, _USER_ID, _USERNAME, _MESSAGE_ID and
_UPDATE_ID (unset where absent), TGBRIDGE_DELIVERY (the same for every attempt) and TGBRIDGE_ATTEMPT;
never the token.`,
		Example: "  tgbridge exec -- cat\n  tgbridge exec --input json -- jq -r .message.text",
		Args:    needCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			if input != inputText && input != inputJSON {
				return usage("--input: %q is neither text nor json", input)
			}
			path, err := exec.LookPath(args[0])
			if err != nil {
				return usage("COMMAND: %v", err)
			}
			h := &commandHandler{path: path, args: args[1:], json: input == inputJSON}
			c.beforeExit = h.runner.KillAll
			var reaping sync.WaitGroup
			defer reaping.Wait()
			return c.runMember(cmd, func(ctx context.Context, cfg config.Config, _ *bot.Bridge, log zerolog.Logger) bot.Handler {
				for _, l := range command.Limits() {
					log.Debug().Msg(l)
				}
				h.env, h.log = withoutUpdate(cfg.ChildEnv(c.environ)), log
				reaping.Go(func() {
					if err := h.runner.ReapOrphans(ctx); err != nil {
						log.Warn().Err(err).Msg("orphans are not collected")
					}
				})
				return h
			})
		},
	}
	const flag = "input"
	cmd.Flags().StringVar(&input, flag, inputText,
		"what COMMAND reads: text (messages and channel posts) or json (every kind of update, raw)")
	complete := cobra.FixedCompletions([]string{inputText, inputJSON}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails only without the flag
	return cmd
}

func needCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("a command is needed: tgbridge exec -- COMMAND [ARG...]")
	}
	return nil
}

// commandHandler runs the command for each update.
type commandHandler struct {
	runner command.Runner
	path   string
	args   []string
	env    []string
	json   bool
	log    zerolog.Logger
}

var _ bot.Handler = (*commandHandler)(nil)

// Handle runs the command once. An error is a failed attempt.
func (h *commandHandler) Handle(ctx context.Context, u *bot.Update) (bot.Reply, error) {
	stdin, ok := h.stdin(u)
	if !ok {
		return bot.Reply{}, nil
	}
	result, err := h.run(ctx, u.Delivery(), command.Spec{Path: h.path, Args: h.args, Env: h.environ(u), Stdin: stdin})
	switch {
	case err != nil:
	case result.Signal != "":
		err = fmt.Errorf("the command was ended by %s", result.Signal)
	case result.ExitCode != 0:
		err = fmt.Errorf("the command exited with code %d", result.ExitCode)
	}
	if result.Stderr != "" {
		line := h.log.Debug()
		if err != nil {
			line = h.log.Warn()
		}
		line.Str("delivery", u.Delivery()).Str("stderr", lastOf(result.Stderr)).Msg("the command wrote to stderr")
	}
	if err != nil {
		return bot.Reply{}, err
	}
	return bot.Reply{Text: replyText(result)}, nil
}

// stderrShown is how much of the end of a command's stderr the log shows, in
// bytes: enough to see why it failed.
const stderrShown = 500

// lastOf returns the end of a command's stderr.
func lastOf(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= stderrShown {
		return text
	}
	return "... " + strings.ToValidUTF8(text[len(text)-stderrShown:], "")
}

// run runs the command once. If it cannot be started, because its file is being
// replaced or the system is short of something, it waits: nothing of it has run,
// so that is no attempt, until the attempt's time is over.
func (h *commandHandler) run(ctx context.Context, delivery string, spec command.Spec) (command.Result, error) {
	for delay := startDelay; ; delay = min(2*delay, startDelayMax) {
		result, err := h.runner.Run(ctx, spec)
		if !errors.Is(err, command.ErrNotStarted) {
			return result, err
		}
		h.log.Warn().Err(err).Str("delivery", delivery).Dur("delay", delay).Msg("the command was not started; trying again")
		if !wait(ctx, delay) {
			return result, err // says more than that ctx has ended
		}
	}
}

// stdin returns what the command reads, and whether it runs at all.
func (h *commandHandler) stdin(u *bot.Update) ([]byte, bool) {
	if h.json {
		return u.Raw(), true
	}
	if (u.Kind() != "message" && u.Kind() != "channel_post") || u.Text() == "" {
		return nil, false
	}
	return []byte(u.Text()), true
}

// The variables that tell a command of its update.
const (
	varChat     = "TELEGRAM_CHAT_ID"
	varThread   = "TELEGRAM_THREAD_ID"
	varUser     = "TELEGRAM_USER_ID"
	varUsername = "TELEGRAM_USERNAME"
	varMessage  = "TELEGRAM_MESSAGE_ID"
	varUpdate   = "TELEGRAM_UPDATE_ID"
	varDelivery = "TGBRIDGE_DELIVERY"
	varAttempt  = "TGBRIDGE_ATTEMPT"
)

// withoutUpdate leaves out what this member itself was told of an update, if it
// is the command of another (F66): a variable that is absent has to be unset.
func withoutUpdate(env []string) []string {
	told := []string{varChat, varThread, varUser, varUsername, varMessage, varUpdate, varDelivery, varAttempt}
	return slices.DeleteFunc(env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(told, name)
	})
}

// environ is the command's environment: the own one without the token, and what
// is known of the update.
func (h *commandHandler) environ(u *bot.Update) []string {
	env := slices.Clone(h.env)
	set := func(name string, value int64) {
		if value != 0 {
			env = append(env, name+"="+strconv.FormatInt(value, 10))
		}
	}
	chat, _ := u.ChatID()
	set(varChat, chat)
	set(varThread, u.ThreadID())
	set(varUser, u.UserID())
	set(varMessage, u.MessageID())
	if u.Username() != "" {
		env = append(env, varUsername+"="+u.Username())
	}
	return append(env,
		varUpdate+"="+strconv.FormatInt(u.ID(), 10),
		varDelivery+"="+u.Delivery(),
		varAttempt+"="+strconv.Itoa(u.Attempt()))
}

// replyText makes text of what a command printed: valid UTF-8, without the line
// ends at its end. Of output that was too long it keeps the beginning, as much
// as fits into one message, and says so.
func replyText(r command.Result) string {
	text := string(r.Stdout)
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = strings.TrimRight(text, "\r\n")
	if !r.Overflow && bot.Fits(text) {
		return text
	}
	return bot.FirstPart(text, len(overflowNotice)+1) + "\n" + overflowNotice
}
