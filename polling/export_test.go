package polling

import (
	"encoding/json"
	"time"
)

// What external tests may look at of the plain functions.

var (
	BackOff   = backOff
	Printable = printable
)

const (
	FailureCap  = failureCap
	ConflictCap = conflictCap
)

// Split takes an answer apart.
func Split(elements []json.RawMessage) ([]Update, []json.RawMessage) {
	b := split(elements)
	return b.updates, b.unreadable
}

// Before is a course and its circumstances before a decision.
type Before struct {
	Offset        int64
	HasOffset     bool
	Failures      int
	Proven        bool
	DeleteWebhook bool
	Jitter        float64
}

// Decision is an action and the course after it.
type Decision struct {
	Verb      string
	Wait      time.Duration
	Err       error
	Offset    int64
	HasOffset bool
	Failures  int
}

func (b Before) parts() (course, circumstances) {
	return course{offset: b.Offset, hasOffset: b.HasOffset, failures: b.Failures},
		circumstances{proven: b.Proven, deleteWebhook: b.DeleteWebhook, jitter: b.Jitter}
}

func decision(c course, a action) Decision {
	verbs := map[verb]string{doPoll: "poll", doCommit: "commit", doDeleteWebhook: "delete webhook", doEnd: "end"}
	return Decision{verbs[a.verb], a.wait, a.err, c.offset, c.hasOffset, c.failures}
}

// AfterPoll decides after a poll.
func (b Before) AfterPoll(elements []json.RawMessage, err error, took time.Duration) Decision {
	c, s := b.parts()
	if err != nil {
		return decision(c.failedPoll(err, s))
	}
	return decision(c.answered(c.request(Options{}), split(elements), took, s))
}

// AfterDeletion decides after deleteWebhook.
func (b Before) AfterDeletion(err error) Decision {
	c, s := b.parts()
	return decision(c.deletedWebhook(err, s))
}

// AfterCommit decides after a commit that failed.
func (b Before) AfterCommit(err error) Decision {
	c, s := b.parts()
	return decision(c.failedCommit(err, s))
}

// Overdue is Progress.overdue.
func Overdue(p Progress, now time.Time) error { return p.overdue(now) }

// Unseen returns the ids that unseen leaves of an answer that comes after before.
func Unseen(updates []Update, asked Request, before []Update) (ids []int64) {
	_, brought := unseen(before, Request{}, nil)
	fresh, _ := unseen(updates, asked, brought)
	for _, u := range fresh {
		ids = append(ids, u.ID)
	}
	return ids
}
