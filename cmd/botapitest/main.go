// Command botapitest serves the Bot API for development, without Telegram: a
// bot started with TELEGRAM_API_URL set to the address that it prints talks to
// the person at this terminal.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"tgbridge/internal/botapitest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

// flags are the command line's.
type flags struct {
	addr     string
	tokens   []string
	noLimits bool
	control  bool
	user     int64
}

func command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "botapitest",
		Short: "A Bot API server for development, without Telegram",
		Long: "A Bot API server for development, without Telegram.\n\n" +
			"Each line typed is sent to the bot as a message of a user; what the bot sends is printed.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), f, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&f.addr, "addr", "127.0.0.1:8081", "address to listen on")
	cmd.Flags().StringArrayVar(&f.tokens, "token", []string{botapitest.DefaultToken}, "token of a bot; may be given several times")
	cmd.Flags().BoolVar(&f.noLimits, "no-limits", false, "do not limit how fast bots may send")
	cmd.Flags().BoolVar(&f.control, "control", false, "print how to control the server over HTTP")
	cmd.Flags().Int64Var(&f.user, "user", 5018594437, "id of the user that typed lines come from")
	return cmd
}

// run serves until ctx ends.
func run(ctx context.Context, f flags, in io.Reader, out io.Writer) error {
	options := botapitest.Options{NoLimits: f.noLimits}
	for _, token := range f.tokens {
		options.Bots = append(options.Bots, botapitest.BotOptions{Token: token})
	}
	server, err := botapitest.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	running, err := server.Start(f.addr)
	if err != nil {
		return err
	}
	printUsage(out, running.URL, f)

	typed := make(chan string)
	go readLines(ctx, in, typed)
	return converse(ctx, server, f.user, typed, out)
}

func printUsage(out io.Writer, url string, f flags) {
	fmt.Fprintf(out, "Bot API at %s\n\n", url)
	fmt.Fprintf(out, "  export TELEGRAM_API_URL=%s\n", url)
	for _, token := range f.tokens {
		fmt.Fprintf(out, "  export TELEGRAM_BOT_TOKEN=%s\n", token)
	}
	fmt.Fprintf(out, "  export TGBRIDGE_ALLOWED_USERS=%d\n", f.user)
	if f.control {
		fmt.Fprintf(out, `
  curl -d '{"user":%d,"text":"hello"}' %[2]s/control/message
  curl --data-binary @update.json %[2]s/control/update
  curl -d '{"method":"sendMessage","act":"cut","effect":true,"times":1}' %[2]s/control/fault
  curl -X DELETE %[2]s/control/fault
  curl '%[2]s/control/ledger?since=0'
`, f.user, url)
	}
	fmt.Fprintf(out, "\nType a message and press Enter. /as ID writes as another user. Ctrl-C stops.\n")
}

// readLines sends what is typed to typed and closes it at the end of input.
// It ends with the process: a read from a terminal cannot be interrupted.
func readLines(ctx context.Context, in io.Reader, typed chan<- string) {
	defer close(typed)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		select {
		case typed <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
}

// converse sends typed lines to the first bot as messages of user, or of whom
// "/as ID" named last, and prints what any bot sends.
func converse(ctx context.Context, server *botapitest.Server, user int64, typed <-chan string, out io.Writer) error {
	sent := make(chan botapitest.Event)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- follow(ctx, server, sent) }()
	defer func() {
		cancel()
		<-done
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-done:
			done <- nil
			return err
		case line, ok := <-typed:
			if !ok {
				typed = nil // the input ended; go on for the bots
				continue
			}
			if strings.TrimSpace(line) == "" {
				continue
			}
			if name, ok := strings.CutPrefix(line, "/as "); ok {
				if id, err := strconv.ParseInt(strings.TrimSpace(name), 10, 64); err == nil && id > 0 {
					user = id
				} else {
					fmt.Fprintf(out, "%s: not the id of a user\n", line)
				}
				continue
			}
			if _, err := server.Say(botapitest.Message{User: user, Text: line}); err != nil {
				fmt.Fprintln(out, "not sent:", err)
			}
		case e := <-sent:
			printEvent(out, e)
		}
	}
}

// keptEvents is how much of the ledger stays readable behind the conversation.
const keptEvents = 100_000

// follow passes on what bots send, and forgets the ledger far behind it.
func follow(ctx context.Context, server *botapitest.Server, sent chan<- botapitest.Event) error {
	var seq, forgotten uint64
	for {
		if seq > forgotten+2*keptEvents {
			forgotten = seq - keptEvents
			server.ForgetLedger(forgotten)
		}
		e, err := server.WaitEvent(ctx, seq, isVisible)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("follow the bots: %w", err)
		}
		seq = e.Seq
		select {
		case sent <- e:
		case <-ctx.Done():
			return nil
		}
	}
}

func isVisible(e botapitest.Event) bool {
	return e.Kind == botapitest.EventSent || e.Kind == botapitest.EventEdited || e.Kind == botapitest.EventDeleted
}

func printEvent(out io.Writer, e botapitest.Event) {
	where := fmt.Sprintf("chat %d", e.Chat)
	if e.Thread != 0 {
		where += fmt.Sprintf(", topic %d", e.Thread)
	}
	switch e.Kind {
	case botapitest.EventDeleted:
		fmt.Fprintf(out, "[%s] message %d deleted\n", where, e.MessageID)
	case botapitest.EventEdited:
		fmt.Fprintf(out, "[%s] message %d is now: %s\n", where, e.MessageID, e.Text)
	case botapitest.EventSent:
		if e.File != "" {
			fmt.Fprintf(out, "[%s] file %s, %d bytes\n", where, e.File, e.Size)
		}
		if e.Text != "" {
			fmt.Fprintf(out, "[%s] %s\n", where, e.Text)
		}
	}
}
