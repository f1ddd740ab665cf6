package bus

import (
	"fmt"
	"slices"
	"strings"
)

// compare refuses other times and names what else differs.
func (s Settings) compare(member Settings) (notices []string, err error) {
	var times []string
	for _, t := range []struct {
		name           string
		leader, member int64
	}{
		{"heartbeat", s.HeartbeatMS, member.HeartbeatMS},
		{"stale-after", s.StaleAfterMS, member.StaleAfterMS},
		{"ownership-check", s.OwnershipCheckMS, member.OwnershipCheckMS},
		{"poll-timeout", s.PollTimeoutMS, member.PollTimeoutMS},
		{"redeliver-after", s.RedeliverAfterMS, member.RedeliverAfterMS},
	} {
		if t.leader != t.member {
			times = append(times, fmt.Sprintf("%s is %d ms at the leader, %d ms here", t.name, t.leader, t.member))
		}
	}
	if times != nil {
		return nil, fmt.Errorf("%s; start all members with the same times", strings.Join(times, "; "))
	}
	if s.Route != member.Route {
		notices = append(notices, fmt.Sprintf("route differs: the leader's is %s, the member's %s; the leader's counts", s.Route, member.Route))
	}
	if s.Access != member.Access {
		notices = append(notices, "allowed users differ: both the leader and the member must allow a sender")
	}
	if !slices.Equal(s.Kinds, member.Kinds) {
		notices = append(notices, fmt.Sprintf("allowed updates differ: the leader's are asked of Telegram (only the leader has %s; only the member %s)",
			without(s.Kinds, member.Kinds), without(member.Kinds, s.Kinds)))
	}
	return notices, nil
}

// without lists the kinds that are not among others.
func without(kinds, others []string) string {
	rest := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return slices.Contains(others, kind) })
	if len(rest) == 0 {
		return "none"
	}
	return strings.Join(rest, ", ")
}
