// Package logwriter keeps those who log from waiting for those who read the
// log: a terminal in which Ctrl-S was pressed, or a pipe whose reader stopped,
// takes no more lines and blocks whoever writes one, which here would be a
// leader in the middle of its work (S12).
//
// Not promised: that a line is written. A process that is killed or panics
// loses what is queued; one that ends in order calls Close.
package logwriter

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// limit is how many bytes may wait.
const limit = 1 << 20

// closeWithin is how long Close waits for what is queued.
const closeWithin = 200 * time.Millisecond

// Writer is an io.Writer that never blocks. What it is given waits in a queue of
// at most 1 MiB; what finds no room is dropped, and how much that was is told in
// a line of its own, a JSON object, as soon as there is room. Each Write of its
// users becomes one Write of the other writer, in the same order; that one's
// errors are dropped. It is safe for concurrent use.
//
// It has one goroutine, which ends with Close, or after it when the other writer
// returns.
type Writer struct {
	out  io.Writer
	done chan struct{} // closed when the goroutine has returned

	mu      sync.Mutex // guards what follows; held for no I/O
	grown   *sync.Cond // queue or closed have changed
	queue   [][]byte
	size    int // bytes in queue, and in what is being written
	dropped int // Writes of which nothing was told yet
	closed  bool
}

// New returns a Writer that writes to out.
func New(out io.Writer) *Writer {
	w := &Writer{out: out, done: make(chan struct{})}
	w.grown = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write queues a copy of p, or drops it. It returns len(p) and nil in any case:
// whoever logs has nothing else to do about it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.size+len(p) > limit {
		w.dropped++
		return len(p), nil
	}
	w.tellDropped()
	w.add(bytes.Clone(p))
	return len(p), nil
}

// Close ends the queue, and waits 200 ms at most until it is written. What is
// written to w later is dropped. The other writer is not closed.
func (w *Writer) Close() {
	w.mu.Lock()
	w.closed = true
	w.grown.Signal()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(closeWithin):
	}
}

func (w *Writer) run() {
	defer close(w.done)
	for {
		line, ok := w.next()
		if !ok {
			return
		}
		_, _ = w.out.Write(line)
		w.mu.Lock()
		w.size -= len(line)
		w.mu.Unlock()
	}
}

// next waits for something to write; false: there is nothing more.
func (w *Writer) next() ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 {
		switch {
		case w.dropped > 0:
			w.tellDropped()
		case w.closed:
			return nil, false
		default:
			w.grown.Wait()
		}
	}
	line := w.queue[0]
	w.queue = w.queue[1:]
	return line, true
}

// add appends to the queue. The caller holds mu.
func (w *Writer) add(line []byte) {
	w.queue = append(w.queue, line)
	w.size += len(line)
	w.grown.Signal()
}

// tellDropped queues what was dropped since it was called last, if anything was.
// The caller holds mu.
func (w *Writer) tellDropped() {
	if w.dropped > 0 {
		w.add(fmt.Appendf(nil, "{\"level\":\"warn\",\"lines\":%d,\"message\":\"log lines dropped: nobody read them\"}\n", w.dropped))
		w.dropped = 0
	}
}
