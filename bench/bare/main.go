//go:build linux

// Bare is the floor that bench measures against: what a bot with a standby does
// at the very least. It waits for a lock on a file, polls, and does nothing with
// what it gets, or answers it. It keeps nothing, tells nobody, and whoever kills
// it loses what it had in hand.
//
//	bare [-lock FILE] [-reply N] URL
//
// URL is that of the Bot API with the token: http://host:port/bot<token>. With
// -reply each message is answered with its text, up to N at a time.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	lock := flag.String("lock", "", "file to lock before the first poll")
	reply := flag.Int("reply", 0, "answers under way at a time; 0: none at all")
	flag.Parse()
	b := &bot{url: flag.Arg(0), slots: make(chan struct{}, *reply), client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: max(*reply, 1)},
	}}
	if *lock != "" {
		if err := acquire(*lock); err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			os.Exit(1)
		}
	}
	b.run()
}

type bot struct {
	url    string
	client *http.Client
	slots  chan struct{} // has a value for each answer under way
	sends  sync.WaitGroup
}

// update is what the loop needs to know of an update.
type update struct {
	ID      int64 `json:"update_id"`
	Message struct {
		Chat struct {
			ID int64 `json:"id"`
		} `json:"chat"`
		Text string `json:"text"`
	} `json:"message"`
}

// run polls for ever.
func (b *bot) run() {
	offset := ""
	for {
		updates, err := b.poll(offset)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for _, u := range updates {
			offset = strconv.FormatInt(u.ID+1, 10)
			b.answer(u)
		}
		b.sends.Wait()
	}
}

// acquire locks the file; the system unlocks it when the process ends. It says
// "ready" before it waits.
func acquire(path string) error {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return err
	}
	for {
		if err = syscall.Flock(fd, syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return nil
}

func (b *bot) poll(offset string) ([]update, error) {
	form := url.Values{"timeout": {"50"}}
	if offset != "" {
		form.Set("offset", offset)
	}
	resp, err := b.client.PostForm(b.url+"/getUpdates", form)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		OK     bool     `json:"ok"`
		Result []update `json:"result"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if !answer.OK {
		return nil, fmt.Errorf("getUpdates: %s", resp.Status)
	}
	return answer.Result, nil
}

// answer sends an update's text back, if answers are asked for.
func (b *bot) answer(u update) {
	if cap(b.slots) == 0 {
		return
	}
	b.slots <- struct{}{}
	b.sends.Go(func() {
		defer func() { <-b.slots }()
		form := url.Values{"chat_id": {strconv.FormatInt(u.Message.Chat.ID, 10)}, "text": {u.Message.Text}}
		resp, err := b.client.PostForm(b.url+"/sendMessage", form)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
}
