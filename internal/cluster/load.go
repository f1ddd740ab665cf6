package cluster

import (
	"context"
	"fmt"
	"time"

	"tgbridge/internal/botapitest"
)

// A Load is a stream of messages of users, each a token of its own.
type Load struct {
	// Chats is the number of private chats, written to in turn; 0 means 1.
	Chats int
	// PerSecond is how many messages come in a second over all chats.
	PerSecond float64
	// Total is how many come; 0 means until the context ends.
	Total int
}

// Run sends the messages of a load until ctx ends or all were sent. It returns
// nil then, else what the server said.
func (c *Cluster) Run(ctx context.Context, l Load) error {
	if l.PerSecond <= 0 || l.Chats < 0 || l.Total < 0 {
		return fmt.Errorf("a load of %d messages, %v a second over %d chats makes no sense", l.Total, l.PerSecond, l.Chats)
	}
	chats := max(l.Chats, 1)
	ticker := time.NewTicker(tick(l.PerSecond))
	defer ticker.Stop()
	begin, said := time.Now(), 0
	for {
		due := int(time.Since(begin).Seconds()*l.PerSecond) + 1
		if l.Total > 0 {
			due = min(due, l.Total)
		}
		if due > said {
			if err := c.say(said, due, chats); err != nil {
				return err
			}
			said = due
		}
		if l.Total > 0 && said == l.Total {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// tick is how often a load looks whether messages are due.
func tick(perSecond float64) time.Duration {
	return max(time.Millisecond, min(20*time.Millisecond, time.Duration(float64(time.Second)/perSecond)))
}

// say sends the messages numbered from up to, not including, to.
func (c *Cluster) say(from, to, chats int) error {
	c.sayMu.Lock()
	defer c.sayMu.Unlock()
	messages := c.makeMessages(from, to, chats)
	if _, err := c.server.SayAll(messages); err != nil {
		return fmt.Errorf("send %d messages to the bot: %w", len(messages), err)
	}
	return nil
}

// makeMessages makes messages of new tokens and lets the judge know them.
func (c *Cluster) makeMessages(from, to, chats int) []botapitest.Message {
	at := c.now()
	messages := make([]botapitest.Message, 0, to-from)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.next) < chats {
		c.next = append(c.next, 0)
	}
	for i := from; i < to; i++ {
		chat := i % chats
		token, id := makeToken(chat, c.next[chat]), int64(firstChat+chat)
		c.next[chat]++
		c.judge.said(id, token, at)
		messages = append(messages, botapitest.Message{User: id, Text: token})
	}
	return messages
}
