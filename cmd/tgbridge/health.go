package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/lock"
	"tgbridge/polling"
)

// healthCmd is the health check of containers.
func (c *cli) healthCmd() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Exit 0 if the members in this container (PID namespace) are well",
		Long: "Exit 0 if the members in this PID namespace are well, read from their files: a leader that makes\n" +
			"progress, also while Telegram refuses; a follower that has joined; an election under way.\n" +
			"With --ready polls must succeed, too.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.find(cmd)
			if err != nil {
				return err
			}
			return p.health(cmd.Context(), ready)
		},
	}
	addBot(cmd)
	cmd.Flags().BoolVar(&ready, "ready", false, "polls must succeed, too")
	return cmd
}

// health looks at the members of this PID namespace, twice, to see their beats
// move.
func (p place) health(ctx context.Context, ready bool) error {
	beats := map[string]uint64{}
	deadline := time.Now().Add(3 * p.cfg.Heartbeat)
	for {
		problem, err := p.look(beats)
		if err != nil {
			return err
		}
		if problem == "" {
			break
		}
		if time.Now().After(deadline) {
			return &errUnhealthy{problem}
		}
		if !wait(ctx, p.cfg.Heartbeat/20) {
			return context.Cause(ctx)
		}
	}
	if !ready {
		return nil
	}
	s, err := p.status(ctx)
	if err != nil {
		return err
	}
	if s.Role != "leader" || s.Poll.State != polling.StatePolling && s.Poll.State != polling.StateFull {
		return &errUnhealthy{"polls do not succeed: " + s.Poll.State + " " + s.Poll.LastError}
	}
	return nil
}

// look returns what is wrong with the members of this PID namespace, as far as
// it was watched, or "". Beats has each one's beat as it was seen first.
func (p place) look(beats map[string]uint64) (string, error) {
	lease, err := p.lease()
	problem := ""
	switch {
	case errors.Is(err, lock.ErrDamaged):
		problem = err.Error()
	case err != nil:
		return "", err
	}
	readings, err := p.observer.Members()
	if err != nil {
		return "", fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	own := lock.ThisHost()
	found := false
	for _, r := range readings {
		i := r.Info
		if r.Dead() || r.Torn || i.Role == lock.RoleCommand || i.BootID != own.BootID || i.PIDNamespace != own.PIDNamespace {
			continue
		}
		found = true
		first, seen := beats[i.Instance]
		if !seen {
			first, beats[i.Instance] = r.Beat, r.Beat
		}
		switch {
		case r.Beat == first:
			problem = fmt.Sprintf("member %s (pid %d) makes no progress", i.Name, i.PID)
		case i.Role != lock.RoleStarting && i.Role != lock.RoleFollower: // leads, or leaves
		case lease.Held() && i.Joined != lease.Epoch:
			problem = fmt.Sprintf("member %s (pid %d) has not joined the leader %s", i.Name, i.PID, lease.Name)
		}
	}
	if !found {
		return "no member runs in this PID namespace", nil
	}
	return problem, nil
}
