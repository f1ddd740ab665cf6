package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"tgbridge/internal/rawjson"
)

// stream is the leader's end of a member's connection: a queue that the hub
// fills and the handler of the join request writes out. The queue is bounded by
// the member's slots and a handful of control lines.
type stream struct {
	instance, name string
	term           uint64
	registration   string
	leaving        bool
	joinedAt       Now

	mu     sync.Mutex // guards what follows; held for no I/O
	queue  []outgoing
	closed bool
	more   chan struct{} // has a token when queue or closed changed
}

// outgoing is a line to be written; the body of an update is read from the
// store when its turn comes.
type outgoing struct {
	msg   Message
	seq   uint64 // of the update whose body is added; 0: none
	again bool   // it could not be read before
}

func newStream(j JoinRequest, term uint64, registration, name string, now Now) *stream {
	return &stream{
		instance: j.Instance, name: name, term: term, registration: registration,
		leaving: j.Leaving, joinedAt: now,
		more: make(chan struct{}, 1),
	}
}

// push queues a line; a new roster replaces one that was not written yet.
func (s *stream) push(o outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	o.msg.Term = s.term
	if o.msg.Type == MsgRoster {
		for i := range s.queue {
			if s.queue[i].msg.Type == MsgRoster {
				s.queue[i] = o
				return
			}
		}
	}
	s.queue = append(s.queue, o)
	s.signal()
}

// close ends the stream after what is queued.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

// drop ends the stream, and what is queued is not sent.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue = true, nil
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take returns what is queued and whether the stream ends after it.
func (s *stream) take() ([]outgoing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	s.queue = nil
	return queue, s.closed
}

// encode returns the line of o with its line feed; body is that of an update.
func (o outgoing) encode(body []byte) ([]byte, error) {
	line, err := encodeJSON(o.msg)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.msg.Type, err)
	}
	if o.seq != 0 {
		if line, err = rawjson.Append(line, memberUpdates, body); err != nil {
			return nil, err
		}
	}
	if len(line)+1 > MaxLine {
		return nil, fmt.Errorf("line of %s has %d bytes, a stream takes %d", o.msg.Delivery, len(line)+1, MaxLine)
	}
	return append(line, '\n'), nil
}

// encodeJSON is json.Marshal without escapes for HTML, which would make raw
// messages longer than the limits that their senders kept.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
