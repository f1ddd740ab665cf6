package bot

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"tgbridge/bus"
	"tgbridge/lock"
)

// Status is what a member says of the bridge; field names are those of
// `status --json`.
type Status struct {
	BotID        int64          `json:"bot_id"`
	Role         string         `json:"role"` // of the answering member; "none" when read from files
	Term         uint64         `json:"term"`
	Leader       *LeaderStatus  `json:"leader"` // null: nobody leads
	Members      []MemberStatus `json:"members"`
	Counted      bool           `json:"-"`                       // Pending and DeadLetters are known: by a leader that has read the journal
	Pending      int            `json:"pending"`                 // null unless Counted
	DeadLetters  int            `json:"dead_letters"`            // null unless Counted
	JournalError string         `json:"journal_error,omitempty"` // why records or reads wait for the disk
	Poll         PollStatus     `json:"poll"`
	Denied       []DeniedSender `json:"denied,omitempty"` // the last ten, as the leader saw them
}

// plainStatus is Status without methods.
type plainStatus Status

// countedStatus is how a Status is encoded: what is not known is null.
type countedStatus struct {
	plainStatus
	Pending     *int `json:"pending"`
	DeadLetters *int `json:"dead_letters"`
}

// MarshalJSON encodes a Status.
func (s Status) MarshalJSON() ([]byte, error) {
	c := countedStatus{plainStatus: plainStatus(s)}
	if s.Counted {
		c.Pending, c.DeadLetters = &s.Pending, &s.DeadLetters
	}
	return json.Marshal(c)
}

// UnmarshalJSON decodes a Status.
func (s *Status) UnmarshalJSON(text []byte) error {
	var c countedStatus
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	*s = Status(c.plainStatus)
	if s.Counted = c.Pending != nil && c.DeadLetters != nil; s.Counted {
		s.Pending, s.DeadLetters = *c.Pending, *c.DeadLetters
	}
	return nil
}

// LeaderStatus is who leads.
type LeaderStatus struct {
	Instance string     `json:"instance"`
	Name     string     `json:"name"`
	PID      int        `json:"pid"`
	Host     string     `json:"host"`
	Since    time.Time  `json:"since"`
	LastPoll *time.Time `json:"last_poll"` // when Telegram last answered a poll; null when read from files
}

// MemberStatus is one member. Lanes and InFlight are known to the leader alone.
type MemberStatus struct {
	Instance string    `json:"instance"`
	Name     string    `json:"name"`
	PID      int       `json:"pid"`
	Host     string    `json:"host"`
	Role     string    `json:"role"` // leader, follower, starting or leaving
	Lanes    int       `json:"lanes"`
	InFlight int       `json:"in_flight"`
	LastSeen time.Time `json:"last_seen"`
	Hung     bool      `json:"hung,omitempty"`
}

// PollStatus is how polling goes.
type PollStatus struct {
	State     string `json:"state"`
	LastError string `json:"last_error"`
	Conflicts int    `json:"conflicts"`
}

// statusAnswer answers GET /v1/status.
func (b *Bridge) statusAnswer(context.Context) any {
	s, err := ReadStatus(b.dir, b.botID, b.observer, b.o.StaleAfter)
	if err != nil {
		return bus.ErrorAnswer{Error: err.Error(), Code: bus.CodeBusy}
	}
	s.Role = string(lock.RoleFollower)
	t := b.term.Load()
	if t == nil {
		return s
	}
	s.Role = string(lock.RoleLeader)
	p := b.poller.State()
	s.Poll = PollStatus{State: p.State, LastError: p.LastError, Conflicts: p.Conflicts}
	if s.Leader != nil && !p.LastPoll.IsZero() {
		at := p.LastPoll
		s.Leader.LastPoll = &at
	}
	counts, pending := t.hub.Counts()
	for i := range s.Members {
		c := counts[s.Members[i].Instance]
		s.Members[i].Lanes, s.Members[i].InFlight = c.Lanes, c.InFlight
	}
	if t.isReady() {
		s.Counted, s.Pending, s.DeadLetters = true, pending, len(t.journal.DeadLetters())
	}
	s.JournalError = t.trouble.text()
	s.Denied = b.denied.recent()
	return s
}

// ReadStatus reads from the files of a bot's directory alone who leads and who
// is there. It never contends for the lock.
func ReadStatus(dir string, botID int64, o *lock.Observer, staleAfter time.Duration) (Status, error) {
	s := Status{BotID: botID, Role: "none", Members: []MemberStatus{}}
	e, err := lock.ReadLease(dir, LeaseKey(botID))
	if err != nil {
		return s, err
	}
	s.Term = e.Epoch
	readings, err := o.Members()
	if err != nil {
		return s, err
	}
	now := time.Now()
	for _, r := range readings {
		if r.Dead() || r.Torn || r.Info.Role == lock.RoleCommand {
			continue
		}
		s.Members = append(s.Members, MemberStatus{
			Instance: r.Info.Instance, Name: r.Info.Name, PID: r.Info.PID, Host: r.Info.Host,
			Role: string(roleOf(r.Info, e)), LastSeen: now.Add(-r.Unmoved), Hung: r.Hung(staleAfter),
		})
		if e.Held() && r.Info.Instance == e.InstanceID {
			s.Leader = &LeaderStatus{
				Instance: e.InstanceID, Name: r.Info.Name, PID: e.PID, Host: e.Host, Since: time.UnixMilli(e.AcquiredMs),
			}
		}
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	return s, nil
}

// roleOf is a member's role by the lease. What the member's own file says is late:
// of one that hangs, for as long as it does.
func roleOf(m lock.MemberInfo, lease lock.Entry) lock.Role {
	switch {
	case lease.Held() && m.Instance == lease.InstanceID:
		return lock.RoleLeader
	case m.Role == lock.RoleLeader:
		return lock.RoleFollower
	}
	return m.Role
}
