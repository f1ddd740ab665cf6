package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/lock"
)

// handoverCmd asks the leader to hand over.
func (c *cli) handoverCmd() *cobra.Command {
	var (
		to    string
		force bool
	)
	cmd := &cobra.Command{
		Use:   "handover",
		Short: "Let the leader hand over to another member, gracefully",
		Long: "Let the leader hand over to another member, gracefully: it ends its poll, releases the lease and\n" +
			"follows. With --force the lease is taken from exactly the leader that status shows, without\n" +
			"asking it, and released at once, so that the members elect: for a leader that does not answer.",
		Args: noHeir,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.find(cmd)
			if err != nil {
				return err
			}
			if force && to != "" {
				return usage("--force and --to exclude one another: by force nobody is named, the members elect")
			}
			before, err := p.lease()
			if err != nil {
				return err
			}
			switch {
			case !before.Held():
				return errNobodyLeads
			case before.Name == to:
				return fmt.Errorf("%s leads already, term %d", to, before.Epoch)
			case force:
				err = p.takeByForce(cmd.Context(), before, c.logger(p.cfg))
			default:
				err = p.askHandover(cmd.Context(), before, to)
			}
			if err != nil {
				return err
			}
			after, err := p.waitSuccessor(cmd.Context(), before)
			if err != nil {
				return err
			}
			if to != "" && after.Name != to {
				return fmt.Errorf("%s leads, term %d: %s did not take over in time", after.Name, after.Epoch, to)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s leads since %s, term %d (before: %s, term %d)\n",
				after.Name, time.UnixMilli(after.AcquiredMs).Format(time.TimeOnly), after.Epoch, before.Name, before.Epoch)
			return err
		},
	}
	addBot(cmd)
	cmd.Flags().StringVar(&to, "to", "", "name of the member that shall lead; default any")
	_ = cmd.RegisterFlagCompletionFunc("to", c.completeHeir) // fails only without the flag
	cmd.Flags().BoolVar(&force, "force", false, "take the lease from a leader that does not answer")
	return cmd
}

// noHeir explains where the heir's name belongs.
func noHeir(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("which member is to lead is said by --to: tgbridge handover --to %s", args[0])
	}
	return nil
}

// completeHeir offers the names of the members that may be told to lead.
func (c *cli) completeHeir(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if p, err := c.find(cmd); err == nil {
		s, _ := bot.ReadStatus(p.dir, p.botID, p.observer, p.cfg.StaleAfter) // of what cannot be read there is nothing to offer
		for _, m := range s.Members {
			if m.Role == string(lock.RoleFollower) {
				names = append(names, m.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// askHandover asks the leader to hand over, but not one that leads since: what
// was asked for has happened then, unless it was a certain heir.
func (p place) askHandover(ctx context.Context, before lock.Entry, to string) error {
	return p.askLeader(ctx, func(ctx context.Context, b *bus.Client) error {
		if e, err := p.lease(); err == nil && e.Held() && e.Epoch > before.Epoch && (to == "" || e.Name == to) {
			return nil
		}
		return b.Handover(ctx, to)
	})
}

// waitSuccessor waits until another lease stands.
func (p place) waitSuccessor(ctx context.Context, before lock.Entry) (lock.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*p.cfg.StaleAfter)
	defer cancel()
	for {
		if e, err := p.lease(); err == nil && e.Held() && e.Epoch > before.Epoch {
			return e, nil
		}
		select {
		case <-ctx.Done():
			return lock.Entry{}, fmt.Errorf("%s gave the lease up, but nobody took over within %v; see tgbridge status", before.Name, 2*p.cfg.StaleAfter)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// takeByForce takes the lease from exactly that owner and releases it at once.
func (p place) takeByForce(ctx context.Context, owner lock.Entry, log zerolog.Logger) error {
	m, err := lock.OpenMember(lock.MemberOptions{
		Dir: p.dir, Instance: uuid.NewString(), Name: "handover", Version: buildVersion(), Role: lock.RoleCommand, Logger: log,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	defer func() { _ = m.Close() }()
	cwd, _ := os.Getwd() // for people only
	return lock.TakeFrom(ctx, lock.Options{
		Dir: p.dir, Key: bot.LeaseKey(p.botID), Member: m, Observer: p.observer, Cwd: cwd,
		Heartbeat: p.cfg.Heartbeat, StaleAfter: p.cfg.StaleAfter, OwnershipCheck: p.cfg.OwnershipCheck, Logger: log,
	}, owner)
}
