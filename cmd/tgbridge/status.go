package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/polling"
)

// statusCmd tells who leads and how it goes.
func (c *cli) statusCmd() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell who leads, the members, their work and the last faults",
		Long: "Tell who leads, since when and under which term, the members, their lanes and work, what is\n" +
			"pending, the last poll and its faults, and who was denied. It asks the leader; if none answers it\n" +
			"reads the files. It never contends for the lock. Exit code 0: healthy; 1: not.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.find(cmd)
			if err != nil {
				return err
			}
			if watch {
				ctx, stop := c.untilSignal(cmd.Context())
				defer stop()
				return c.watchStatus(ctx, p, asJSON)
			}
			s, err := p.status(cmd.Context())
			if err != nil {
				return err
			}
			if err := printStatus(c.stdout, s, asJSON); err != nil {
				return err
			}
			return healthOf(s)
		},
	}
	addBot(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&watch, "watch", false, "print anew each second, until interrupted")
	return cmd
}

// watchStatus prints the status each second until ctx ends: in place on a
// terminal, else one after the other. What cannot be read may be readable again
// a second later.
func (c *cli) watchStatus(ctx context.Context, p place, asJSON bool) error {
	for {
		s, err := p.status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !asJSON && c.stdoutEscapes {
			if _, err := fmt.Fprint(c.stdout, "\x1b[H\x1b[2J"); err != nil {
				return err
			}
		}
		if err != nil {
			fmt.Fprintf(c.stderr, "tgbridge: %v\n", err)
		} else if err := printStatus(c.stdout, s, asJSON); err != nil {
			return err
		}
		if !wait(ctx, time.Second) {
			return nil
		}
	}
}

// status asks the leader, and reads the files if it does not answer.
func (p place) status(ctx context.Context) (bot.Status, error) {
	// Whose beat stands meanwhile is seen by the second look.
	if _, err := p.observer.Members(); err != nil {
		return bot.Status{}, fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	var s bot.Status
	if c, _, err := p.leader(); err == nil {
		defer c.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := c.Status(ctx, &s); err == nil && s.BotID == p.botID {
			return s, nil
		}
	} else if !errors.Is(err, errNobodyLeads) {
		return s, err
	}
	s, err := bot.ReadStatus(p.dir, p.botID, p.observer, p.cfg.StaleAfter)
	if err != nil {
		return s, fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	return s, nil
}

// errUnhealthy has been told by the printed status.
type errUnhealthy struct{ why string }

func (e *errUnhealthy) Error() string { return e.why }

// healthOf returns why a status is not healthy.
func healthOf(s bot.Status) error {
	switch {
	case s.Leader == nil:
		return &errUnhealthy{"nobody leads"}
	case s.Role != "leader":
		return &errUnhealthy{fmt.Sprintf("the leader %s (pid %d) does not answer", s.Leader.Name, s.Leader.PID)}
	case s.JournalError != "":
		return &errUnhealthy{"the journal is in trouble: " + s.JournalError}
	case s.Poll.State != polling.StatePolling && s.Poll.State != polling.StateFull && s.Poll.State != polling.StateStarting:
		return &errUnhealthy{"polling does not succeed: " + cmp.Or(s.Poll.LastError, s.Poll.State)}
	}
	return nil
}

// lastPoll tells when Telegram last answered.
func lastPoll(s bot.Status) string {
	switch {
	case s.Leader != nil && s.Leader.LastPoll != nil:
		return "last answer " + time.Since(*s.Leader.LastPoll).Round(time.Second).String() + " ago"
	case s.Poll.LastError == "":
		return "first poll under way"
	}
	return "no answer yet"
}

func printStatus(w io.Writer, s bot.Status, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(s)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) } // Flush tells of errors
	line("bot\t%d", s.BotID)
	if s.Leader == nil {
		line("leader\tnobody (last term %d)", s.Term)
	} else {
		line("leader\t%s (pid %d on %s), term %d, since %s", s.Leader.Name, s.Leader.PID, s.Leader.Host, s.Term,
			s.Leader.Since.Local().Format(time.DateTime))
	}
	if s.Role != "leader" {
		line("source\tthe files: no leader answered")
	} else {
		line("telegram\t%s, %s, conflicts %d", s.Poll.State, lastPoll(s), s.Poll.Conflicts)
		if s.Poll.LastError != "" {
			line("last error\t%s", s.Poll.LastError)
		}
		if s.JournalError != "" {
			line("journal\t%s", s.JournalError)
		}
	}
	if s.Counted {
		line("pending\t%d, dead letters %d", s.Pending, s.DeadLetters)
	} else {
		line("pending\tnot known: only a leader that has read the journal tells")
	}
	line("\nMEMBER\tPID\tHOST\tROLE\tLANES\tIN FLIGHT\tLAST SEEN")
	for _, m := range s.Members {
		seen := time.Since(m.LastSeen).Round(time.Second).String() + " ago"
		if m.Hung {
			seen += " (hangs)"
		}
		line("%s\t%d\t%s\t%s\t%d\t%d\t%s", m.Name, m.PID, m.Host, m.Role, m.Lanes, m.InFlight, seen)
	}
	for i, d := range s.Denied {
		if i == 0 {
			line("\nDENIED\tKIND\tAT")
		}
		line("%d\t%s\t%s", d.UserID, d.Kind, d.At.Local().Format(time.DateTime))
	}
	return out.Flush()
}
