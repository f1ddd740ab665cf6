package bus

import (
	"errors"
	"fmt"
	"strings"
)

// maxID is how long the id of a delivery or a request may be, in bytes.
const maxID = 200

// maxSeen is the highest term that a leader rises above because a member says
// that it saw it: the highest that there can be is 2^52, and terms must be left.
const maxSeen = 1 << 51

// validate checks what a member says of itself.
func (j *JoinRequest) validate(instance string) error {
	switch {
	case j.Instance == "" || len(j.Instance) > 64:
		return errors.New("instance must have 1 to 64 bytes")
	case j.Instance != instance:
		return errors.New("instance differs from the header " + HeaderInstance)
	case j.Name == "" || len(j.Name) > 300 || strings.ContainsFunc(j.Name, isControl):
		return errors.New("name must have 1 to 300 bytes and no control characters")
	case j.Concurrency < 1 || j.Concurrency > 10_000:
		return errors.New("concurrency must be 1 to 10000")
	}
	for _, a := range j.Finished {
		if err := a.validate(); err != nil {
			return err
		}
	}
	return nil
}

// validate checks every acknowledgement: all are taken, or none.
func (a *AckRequest) validate() error {
	for _, ack := range a.Acks {
		if err := ack.validate(); err != nil {
			return err
		}
	}
	return nil
}

// validate checks that an acknowledgement can be recorded as it is.
func (a *Ack) validate() error {
	switch {
	case a.Delivery == "" || len(a.Delivery) > maxID:
		return fmt.Errorf("delivery must have 1 to %d bytes", maxID)
	case a.Attempt < 1:
		return fmt.Errorf("attempt of %s must be 1 or more", a.Delivery)
	case len(a.Outcome.Reply) > MaxReply:
		return fmt.Errorf("reply of %s has %d bytes, at most %d are taken", a.Delivery, len(a.Outcome.Reply), MaxReply)
	case len(a.Outcome.Error) > MaxError:
		return fmt.Errorf("error of %s has %d bytes, at most %d are taken", a.Delivery, len(a.Outcome.Error), MaxError)
	case !a.Outcome.Status.known():
		return fmt.Errorf("status of %s is %q; it must be one of done, failed, timed out, returned, denied", a.Delivery, a.Outcome.Status)
	}
	return nil
}

func (s Status) known() bool {
	switch s {
	case Done, Failed, TimedOut, Returned, Denied:
		return true
	}
	return false
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func isNotPrintable(r rune) bool { return r < ' ' || r > '~' }
