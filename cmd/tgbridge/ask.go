package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"tgbridge/bus"
	"tgbridge/lock"
)

// askPause is the time between two attempts at asking.
const askPause = 50 * time.Millisecond

// noAnswer says that no leader gave an answer.
type noAnswer struct {
	why   error
	asked bool // some leader may have got the request, and have acted on it
}

func (e *noAnswer) Error() string { return e.why.Error() }
func (e *noAnswer) Unwrap() error { return e.why }

// askLeader asks the leader, whoever that is, and again when another takes over
// from it. A leader that makes progress may take its time. When for as long as
// an election may take nobody leads, or the one that does makes no progress or
// sends the asker away, the error is a *noAnswer; any other is the answer.
func (p place) askLeader(ctx context.Context, ask func(ctx context.Context, c *bus.Client) error) error {
	var asked bool
	var last lock.Entry
	patience := p.cfg.StaleAfter + time.Second
	until := time.Now().Add(patience)
	for {
		c, e, err := p.leader()
		if err == nil {
			if last.Held() && !e.SameOwner(last) {
				until = time.Now().Add(patience)
			}
			last = e
			err = p.askOnce(ctx, c, e, ask)
			c.Close()
			asked = asked || mayHaveReached(err)
			if err == nil || !isPassing(err) {
				return err
			}
		} else if !errors.Is(err, errNobodyLeads) && !errors.Is(err, lock.ErrDamaged) {
			return err
		}
		select {
		case <-ctx.Done():
			return &noAnswer{context.Cause(ctx), asked}
		case <-time.After(askPause):
		}
		if time.Now().After(until) {
			return &noAnswer{p.whyNoAnswer(last, err), asked}
		}
	}
}

// whyNoAnswer explains to a person what the last failure comes from.
func (p place) whyNoAnswer(last lock.Entry, err error) error {
	if r, lookErr := p.observer.Look(last.InstanceID); last.Held() && lookErr == nil && r.Dead() {
		return fmt.Errorf("%w (%s, pid %d on %s, led last and is gone)", errNobodyLeads, last.Name, last.PID, last.Host)
	}
	return err
}

// Why askOnce ends before there is an answer.
var errOtherLeads = errors.New("the lease has passed on")

// leaderStuck: the leader's process is there and makes no progress.
type leaderStuck struct{ leader lock.Entry }

func (e *leaderStuck) Error() string {
	return fmt.Sprintf("the leader %s (pid %d on %s) makes no progress, and nobody has taken over from it: look at that process, or run 'tgbridge handover --force'",
		e.leader.Name, e.leader.PID, e.leader.Host)
}

// askOnce asks one leader, until it answers, or does not lead any more, or has
// made no progress for as long as an election may take.
func (p place) askOnce(ctx context.Context, c *bus.Client, leader lock.Entry, ask func(ctx context.Context, c *bus.Client) error) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.watch(ctx, giveUp, leader)
	}()
	err := ask(ctx, c)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	giveUp(nil)
	<-watched
	return err
}

// watch gives an attempt up when it cannot come to anything.
func (p place) watch(ctx context.Context, giveUp context.CancelCauseFunc, leader lock.Entry) {
	tick := time.NewTicker(p.cfg.Heartbeat / 4)
	defer tick.Stop()
	for {
		r, err := p.observer.Look(leader.InstanceID)
		if err == nil && r.Hung(p.cfg.StaleAfter+p.cfg.Heartbeat+time.Second) {
			giveUp(&leaderStuck{leader})
			return
		}
		if e, err := p.lease(); err == nil && !e.SameOwner(leader) {
			giveUp(errOtherLeads)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// isPassing reports whether a failure is one that a change of leader explains:
// nobody answered, or one that does not lead (any more).
func isPassing(err error) bool {
	var refused *bus.Refused
	var stuck *leaderStuck
	switch {
	case errors.As(err, &refused):
		return bus.IsRefused(err, bus.CodeNotLeader, bus.CodeTerm, bus.CodeBusy, bus.CodeSecret)
	case errors.As(err, &stuck):
		return true
	}
	return !errors.Is(err, context.Canceled)
}

// mayHaveReached reports whether a leader may have got a request and acted on
// it, although there is no answer.
func mayHaveReached(err error) bool {
	var refused *bus.Refused
	switch {
	case err == nil, errors.As(err, &refused):
		return false
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // there is no socket, or nobody at it
		return false
	}
	return true
}
