package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/config"
)

// runMember runs a member until it is told to stop. Make returns its handler,
// and may start, with ctx, what ends with the member.
func (c *cli) runMember(cmd *cobra.Command, make func(ctx context.Context, cfg config.Config, b *bot.Bridge, log zerolog.Logger) bot.Handler) error {
	surviveClosedPipes() // from the first line of the log to the last, which is written when this has returned
	cfg, err := c.loadMemberConfig(cmd)
	if err != nil {
		return err
	}
	log := c.logger(cfg)
	b, err := bot.New(memberOptions(cfg, log))
	if err != nil {
		return err
	}
	logStart(log, cfg)
	ctx, stop := c.untilSignal(cmd.Context())
	defer stop()
	err = b.Run(ctx, make(ctx, cfg, b, log))
	switch {
	case errors.Is(err, bot.ErrWebhookSet):
		return fmt.Errorf("%w: TGBRIDGE_WEBHOOK=delete does so when a member starts to lead, and keeps pending updates", err)
	case err != nil:
		return err
	}
	log.Info().AnErr("cause", context.Cause(ctx)).Msg("stopped")
	return nil
}

// memberOptions maps the configuration to the bridge's options.
func memberOptions(cfg config.Config, log zerolog.Logger) bot.Options {
	return bot.Options{
		Token: cfg.Token, APIURL: cfg.APIURL, StateDir: cfg.StateDir, Name: cfg.Name, Version: buildVersion(),
		AllowedUsers: cfg.AllowedUsers, AllowAll: cfg.AllowAll, AllowedUpdates: cfg.AllowedUpdates,
		WebhookDelete: cfg.Webhook == config.WebhookDelete,
		Route:         bot.Route(cfg.Route), Concurrency: cfg.Concurrency, HandlerTimeout: cfg.HandlerTimeout,
		Attempts: cfg.Attempts, Unpaced: cfg.Pace == config.PaceOff,
		Heartbeat: cfg.Heartbeat, StaleAfter: cfg.StaleAfter, OwnershipCheck: cfg.OwnershipCheck,
		PollTimeout: cfg.PollTimeout, RedeliverAfter: cfg.RedeliverAfter,
		Logger: log,
	}
}
