package journal

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// Options is what may be set about a journal. Zero values mean the defaults.
type Options struct {
	RotateAt   int64         // bytes of log after which a new file is begun, or the size of its snapshot if that is more; 16 MiB
	MaxPending int           // live entries at which the journal is full; 100,000
	MaxBytes   int64         // bytes of bodies and replies of live entries at which it is full; 256 MiB
	MaxDead    int           // dead letters kept; of more, the oldest is dropped; 1,000
	SyncWithin time.Duration // after which a write that asked for no fsync is on disk nevertheless; 100 ms
	RetryAfter time.Duration // after which writes that wait for space are tried again; 1 s
	Logger     zerolog.Logger

	fault func(op, path string) error // see disk
}

// withDefaults returns the options to be used, or an error if they make no
// sense.
func (o Options) withDefaults() (Options, error) {
	if o.RotateAt < 0 || o.MaxPending < 0 || o.MaxBytes < 0 || o.MaxDead < 0 || o.SyncWithin < 0 || o.RetryAfter < 0 {
		return o, fmt.Errorf("journal options must not be negative: RotateAt %d, MaxPending %d, MaxBytes %d, MaxDead %d, SyncWithin %v, RetryAfter %v",
			o.RotateAt, o.MaxPending, o.MaxBytes, o.MaxDead, o.SyncWithin, o.RetryAfter)
	}
	if o.RotateAt == 0 {
		o.RotateAt = 16 << 20
	}
	if o.MaxPending == 0 {
		o.MaxPending = 100_000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	if o.MaxDead == 0 {
		o.MaxDead = 1000
	}
	if o.SyncWithin == 0 {
		o.SyncWithin = 100 * time.Millisecond
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = time.Second
	}
	return o, nil
}
