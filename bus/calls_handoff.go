package bus

import (
	"cmp"
	"slices"
)

// States returns the calls that this member has in flight or of whose end no
// leader knows, sorted by request, and a channel that is closed when one ends.
func (c *Calls) States() ([]CallState, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []CallState
	for request, own := range c.own {
		switch {
		case !own.isDone():
			out = append(out, CallState{Request: request})
		case !own.told:
			result := own.result
			out = append(out, CallState{Request: request, Result: &result})
		}
	}
	for request := range c.notMade {
		out = append(out, CallState{Request: request, NotBegun: true})
	}
	slices.SortFunc(out, func(a, b CallState) int { return cmp.Compare(a.Request, b.Request) })
	return out, c.changed
}

// Told marks the end of calls as known to a leader that leads.
func (c *Calls) Told(states []CallState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range states {
		if own := c.own[s.Request]; own != nil && s.Result != nil {
			own.told = true
		}
		if s.NotBegun {
			delete(c.notMade, s.Request)
		}
	}
}

// Joined settles what a member that joined says of the calls it made as leader:
// those it does not name were never begun. Complete is false for later news,
// which name only what has ended. With an error, the log's, not all is recorded,
// and the member has to tell it again.
func (c *Calls) Joined(instance string, states []CallState, complete bool) error {
	log, news := c.settleForeign(instance, states, complete)
	for _, s := range news {
		if err := log.Conclude(s.Request, *s.Result); err != nil {
			return err
		}
	}
	return nil
}

// settleForeign ends the waits for calls that a member told of, and returns the
// results that the log lacks.
func (c *Calls) settleForeign(instance string, states []CallState, complete bool) (log CallLog, news []CallState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil, nil
	}
	named := make(map[string]bool, len(states))
	for _, s := range states {
		named[s.Request] = true
		if !s.ended() {
			continue
		}
		f, own := c.foreign[s.Request], c.own[s.Request]
		switch {
		case f != nil && f.by == instance && s.NotBegun:
			f.end(notBegun, CallResult{})
		case s.NotBegun:
		case f != nil && f.by == instance:
			f.end(ended, *s.Result)
			news = append(news, s)
		case own != nil && instance == c.instance && own.isDone() && !own.told:
			news = append(news, s) // concluded when its own term had ended
		}
	}
	if complete {
		for request, f := range c.foreign {
			if f.by == instance && !named[request] {
				f.end(notBegun, CallResult{})
			}
		}
	}
	return c.log, news
}

// Lost says that a member is dead or hung: what it had in flight is unknown.
func (c *Calls) Lost(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.foreign {
		if f.by == instance {
			f.end(lost, CallResult{})
		}
	}
}

// Makers returns the members whose calls are waited for, sorted.
func (c *Calls) Makers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]bool{}
	for _, f := range c.foreign {
		if f.fate == inFlight {
			seen[f.by] = true
		}
	}
	out := make([]string, 0, len(seen))
	for by := range seen {
		out = append(out, by)
	}
	slices.Sort(out)
	return out
}
