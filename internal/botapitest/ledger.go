package botapitest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// EventKind says what an Event tells.
type EventKind string

// Kinds of events. A request has one EventBegin and one EventEnd; between them
// come the effects that it had.
const (
	EventBegin     EventKind = "begin"     // a request was read; At is when its headers had come
	EventConfirmed EventKind = "confirmed" // a poll's offset dropped Updates for ever
	EventHanded    EventKind = "handed"    // a poll is answered with Updates
	EventSent      EventKind = "sent"      // a message was stored: Chat, Thread, MessageID, Text
	EventEdited    EventKind = "edited"    // a message's text was changed
	EventDeleted   EventKind = "deleted"   // a message was removed
	EventEnd       EventKind = "end"       // the request is over: Status, Error, Fault, Gone
	EventInjected  EventKind = "injected"  // Updates were put into the queue
	EventFiltered  EventKind = "filtered"  // an update of a kind that was not asked for was dropped
	EventExpired   EventKind = "expired"   // Updates were dropped because their life had ended
	EventDropped   EventKind = "dropped"   // Updates were dropped by drop_pending_updates
	EventFull      EventKind = "full"      // the ledger reached its limit; nothing more is recorded
)

// An Event is one line of the ledger.
type Event struct {
	// Seq numbers events from 1 without gaps.
	Seq uint64 `json:"seq"`
	// At is the time since the server was made, on the monotonic clock. It
	// does not always rise with Seq: a request is recorded when its body was
	// read, and tells when it came.
	At   time.Duration `json:"at_ns"`
	Kind EventKind     `json:"kind"`
	// Bot is the bot's id, 0 where a token named none.
	Bot int64 `json:"bot,omitempty"`
	// Request is the Seq of the EventBegin that this event belongs to.
	Request uint64 `json:"request,omitempty"`
	// Method is the method in lower case.
	Method string `json:"method,omitempty"`
	// Conn names the connection: the client's address, '#', and a number that
	// is never used again.
	Conn string `json:"conn,omitempty"`
	// Local is the server's address that the connection came to: a client that
	// was given a Running of its own is known by that.
	Local string `json:"local,omitempty"`
	// Client is the header X-Botapitest-Client, else User-Agent.
	Client string `json:"client,omitempty"`
	// Offset, Limit and Timeout are a poll's arguments, the latter two after
	// clamping; HasOffset tells an absent offset from 0.
	Offset    int64 `json:"offset,omitempty"`
	HasOffset bool  `json:"has_offset,omitempty"`
	Limit     int   `json:"limit,omitempty"`
	Timeout   int   `json:"timeout,omitempty"`
	// Chat, Thread and MessageID are those asked for in an EventBegin, those
	// of the stored message in its effects.
	Chat      int64  `json:"chat,omitempty"`
	Thread    int64  `json:"thread,omitempty"`
	MessageID int64  `json:"message_id,omitempty"`
	Text      string `json:"text,omitempty"`
	// File and Size are the name and the bytes of a document that was stored.
	File string `json:"file,omitempty"`
	Size int64  `json:"size,omitempty"`
	// Updates are the ids that the event is about, in order.
	Updates []int64 `json:"updates,omitempty"`
	// Status is the HTTP status that was sent, 0 if the connection was cut
	// before one was.
	Status int `json:"status,omitempty"`
	// Error is the description of an error answer.
	Error string `json:"error,omitempty"`
	// Fault is the id of the fault that decided the answer.
	Fault string `json:"fault,omitempty"`
	// Gone tells that the client had closed the connection before it could
	// be answered.
	Gone bool `json:"gone,omitempty"`
}

// ErrLedgerFull means that the ledger reached Options.LedgerLimit. Its last
// event is an EventFull; what happened since is lost. ForgetLedger makes room.
var ErrLedgerFull = errors.New("ledger is full")

// ErrClosed means that the server was closed.
var ErrClosed = errors.New("server is closed")

// ledger is an append-only list of events with an explicit limit.
type ledger struct {
	start   time.Time
	limit   int
	closing <-chan struct{} // ends waits

	mu      sync.Mutex // guards what follows; taken last of all locks
	events  []Event    // those after forgotten, in order
	last    uint64     // Seq of the last event recorded
	full    bool
	changed chan struct{} // closed at the next event; nil if nobody waits
}

func newLedger(limit int, closing <-chan struct{}) *ledger {
	return &ledger{start: time.Now(), limit: limit, closing: closing}
}

func (l *ledger) now() time.Duration { return time.Since(l.start) }

// add records e under the next number, with the present time unless it has
// one, and returns the number.
func (l *ledger) add(e Event) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return 0
	}
	if len(l.events) >= l.limit {
		l.full = true
		e = Event{Kind: EventFull, Error: fmt.Sprintf("ledger holds %d events; nothing more is recorded", l.limit)}
	}
	if e.At == 0 {
		e.At = l.now()
	}
	l.last++
	e.Seq = l.last
	l.events = append(l.events, e)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return e.Seq
}

// since returns a copy of the events after seq.
func (l *ledger) since(seq uint64) ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Event(nil), l.after(seq)...), l.err()
}

func (l *ledger) err() error {
	if l.full {
		return fmt.Errorf("read ledger after event %d: %w", l.last, ErrLedgerFull)
	}
	return nil
}

// after is the part of events after seq; l.mu is held.
func (l *ledger) after(seq uint64) []Event {
	first := l.last - uint64(len(l.events)) // Seq of the last one forgotten
	if seq <= first {
		return l.events
	}
	return l.events[min(seq-first, uint64(len(l.events))):]
}

// forget drops the events up to and including seq.
func (l *ledger) forget(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append([]Event(nil), l.after(seq)...)
	if len(l.events) < l.limit {
		l.full = false
	}
}

// wait returns the first event after seq that match accepts, waiting for it.
func (l *ledger) wait(ctx context.Context, seq uint64, match func(Event) bool) (Event, error) {
	for {
		l.mu.Lock()
		events, err := append([]Event(nil), l.after(seq)...), l.err()
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		for _, e := range events {
			if match(e) {
				return e, nil
			}
			seq = e.Seq
		}
		if err != nil {
			return Event{}, err
		}
		select {
		case <-ctx.Done():
			return Event{}, fmt.Errorf("wait for an event after %d: %w", seq, context.Cause(ctx))
		case <-l.closing:
			return Event{}, fmt.Errorf("wait for an event after %d: %w", seq, ErrClosed)
		case <-changed:
		}
	}
}

// A Request is a request as its events tell it.
type Request struct {
	Begin Event
	// Effects are the events between Begin and End, in order.
	Effects []Event
	// End is the zero Event while the request is under way.
	End Event
}

// Handed are the ids of the updates that a poll was answered with.
func (r Request) Handed() []int64 { return r.updates(EventHanded) }

// Confirmed are the ids that a poll's offset dropped.
func (r Request) Confirmed() []int64 { return r.updates(EventConfirmed) }

func (r Request) updates(kind EventKind) (ids []int64) {
	for _, e := range r.Effects {
		if e.Kind == kind {
			ids = append(ids, e.Updates...)
		}
	}
	return ids
}

// Requests puts the events of each request together, in the order of their
// beginning. Events of requests whose EventBegin is not among them are left
// out.
func Requests(events []Event) []Request {
	var requests []Request
	index := make(map[uint64]int)
	for _, e := range events {
		if e.Kind == EventBegin {
			index[e.Seq] = len(requests)
			requests = append(requests, Request{Begin: e})
			continue
		}
		i, ok := index[e.Request]
		if !ok || e.Request == 0 {
			continue
		}
		if e.Kind == EventEnd {
			requests[i].End = e
		} else {
			requests[i].Effects = append(requests[i].Effects, e)
		}
	}
	return requests
}
