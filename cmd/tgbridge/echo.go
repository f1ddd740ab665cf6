package main

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/config"
)

// echoCmd is a member that answers each message with its text, its own name and
// the term.
func (c *cli) echoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "echo",
		Short: "Run a member that answers each message with its text, its name and the term",
		Long: "Run a member that answers each message with its text, its name and the term: the first try of\n" +
			"a bot. Start it several times, talk to the bot, and kill the one that leads.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.runMember(cmd, func(_ context.Context, _ config.Config, b *bot.Bridge, _ zerolog.Logger) bot.Handler {
				return bot.HandlerFunc(func(_ context.Context, u *bot.Update) (bot.Reply, error) {
					if u.Text() == "" {
						return bot.Reply{}, nil
					}
					return bot.Reply{Text: fmt.Sprintf("%s\n[%s, term %d]", u.Text(), b.Name(), b.Term())}, nil
				})
			})
		},
	}
}
