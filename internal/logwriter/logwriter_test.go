package logwriter_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgbridge/internal/logwriter"
)

// reader is the writer's other end: it reads one line for each value on steps,
// and all when that is closed.
type reader struct {
	steps chan struct{}
	mu    sync.Mutex
	lines []string
}

func newReader() *reader { return &reader{steps: make(chan struct{})} }

func (r *reader) Write(p []byte) (int, error) {
	<-r.steps
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, string(p))
	return len(p), nil
}

func (r *reader) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "")
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}

func TestCloseWritesWhatIsQueued(t *testing.T) {
	var out bytes.Buffer
	w := logwriter.New(&out)
	line := []byte("line 0\n")
	for i := range 10 {
		line[5] = byte('0' + i) // the caller's again after each Write
		write(t, w, string(line))
	}
	w.Close()
	want := ""
	for i := range 10 {
		want += fmt.Sprintf("line %d\n", i)
	}
	if out.String() != want {
		t.Errorf("written %q, want %q", &out, want)
	}
	write(t, w, "too late\n")
	w.Close()
	if out.String() != want {
		t.Errorf("written %q, want %q", &out, want)
	}
}

// TestS12NobodyReads fills the queue. What finds no room is counted, and told in
// its place once the reader goes on.
func TestS12NobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		w := logwriter.New(r)
		big := strings.Repeat("x", 1<<18-1) + "\n"
		for range 7 {
			write(t, w, big)
		}
		write(t, w, "small\n") // no room for this one either
		synctest.Wait()
		if got := r.read(); got != "" {
			t.Fatalf("%d bytes written", len(got))
		}
		r.steps <- struct{}{}
		synctest.Wait()
		write(t, w, "room again\n")
		close(r.steps)
		synctest.Wait()
		if want := strings.Repeat(big, 4) + dropped(4) + "room again\n"; r.read() != want {
			t.Errorf("written %d bytes, end %q", len(r.read()), r.read()[max(0, len(r.read())-100):])
		}
		w.Close()
	})
}

// TestDroppedIsTold although nothing is written after it.
func TestDroppedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		w := logwriter.New(r)
		whole := strings.Repeat("x", 1<<20)
		write(t, w, whole)
		write(t, w, "dropped\n")
		close(r.steps)
		synctest.Wait()
		if want := whole + dropped(1); r.read() != want {
			t.Errorf("end %q", r.read()[max(0, len(r.read())-100):])
		}
		w.Close()
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader()
		w := logwriter.New(r)
		write(t, w, "a line\n")
		began := time.Now()
		w.Close()
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		close(r.steps)
	})
}

type broken struct{ count int }

func (b *broken) Write([]byte) (int, error) {
	b.count++
	return 0, errors.New("broken pipe")
}

// TestErrorsAreDropped: each line is tried once.
func TestErrorsAreDropped(t *testing.T) {
	var b broken
	w := logwriter.New(&b)
	for range 5 {
		write(t, w, "a line\n")
	}
	w.Close()
	if b.count != 5 {
		t.Errorf("%d lines were tried, want 5", b.count)
	}
}

func dropped(lines int) string {
	return fmt.Sprintf("{\"level\":\"warn\",\"lines\":%d,\"message\":\"log lines dropped: nobody read them\"}\n", lines)
}
