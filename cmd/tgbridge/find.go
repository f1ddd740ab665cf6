package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"tgbridge/bot"
	"tgbridge/bus"
	"tgbridge/config"
	"tgbridge/lock"
)

// place is a bot's directory, as commands that are no members find it.
type place struct {
	cfg      config.Config
	botID    int64
	dir      string
	observer *lock.Observer // looks at members without being one
}

const botFlag = "bot"

// addBot adds the flag that find looks at to a command that asks members.
func addBot(cmd *cobra.Command) {
	hideMemberSettings(cmd)
	cmd.Flags().Int64(botFlag, 0, "the bot's id, where neither the token nor the state directory tells")
}

// find finds the bot that a command is about: by --bot, by the token, or as the
// only one in the state directory.
func (c *cli) find(cmd *cobra.Command) (place, error) {
	cfg, err := c.loadConfig(cmd)
	if err != nil {
		return place{}, err
	}
	id, err := cmd.Flags().GetInt64(botFlag)
	switch {
	case err != nil:
		return place{}, err
	case cmd.Flags().Changed(botFlag):
		if id <= 0 {
			return place{}, usage("--bot: %d is no id of a bot, which is the number before the colon in its token", id)
		}
	case cfg.BotID != 0:
		id = cfg.BotID
	default:
		if id, err = onlyBot(cfg.StateDir); err != nil {
			return place{}, err
		}
	}
	p := place{cfg: cfg, botID: id, dir: bot.BotDir(cfg.StateDir, id)}
	if _, err := os.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return place{}, fmt.Errorf("no state of bot %d in %s: no member ever ran here, or another state directory is meant (--state-dir)", id, cfg.StateDir)
	} else if err != nil {
		return place{}, fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	believed, err := lock.LocksExclude(p.dir)
	p.observer = lock.NewObserver(lock.ObserverOptions{
		Dir: p.dir, Host: lock.ThisHost(), LocksBelieved: err == nil && believed, MaxGap: p.cfg.StaleAfter,
	})
	return p, nil
}

func onlyBot(stateDir string) (int64, error) {
	entries, err := os.ReadDir(stateDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %w", bot.ErrState, err)
	}
	var ids []int64
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && id > 0 && e.IsDir() {
			ids = append(ids, id)
		}
	}
	switch len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return 0, fmt.Errorf("no bot's state in %s: start a member first, or name the directory with --state-dir", stateDir)
	}
	return 0, usage("%s holds %d bots %v: say which with --bot ID", stateDir, len(ids), ids)
}

// errNobodyLeads: there is no leader to ask.
var errNobodyLeads = errors.New("nobody leads this bot now: start a member (tgbridge echo), or try again in a moment")

// lease reads who leads. A damaged registry is an error that passes while
// members run.
func (p place) lease() (lock.Entry, error) {
	e, err := lock.ReadLease(p.dir, bot.LeaseKey(p.botID))
	switch {
	case errors.Is(err, lock.ErrDamaged):
		return lock.Entry{}, fmt.Errorf("%w: read registry: %w; the members make it anew within seconds, or the next one that starts does", bot.ErrState, err)
	case err != nil:
		return lock.Entry{}, fmt.Errorf("%w: read registry: %w", bot.ErrState, err)
	}
	return e, nil
}

// leader returns a client of the running leader.
func (p place) leader() (*bus.Client, lock.Entry, error) {
	e, err := p.lease()
	if err != nil {
		return nil, e, err
	}
	if !e.Held() {
		return nil, e, errNobodyLeads
	}
	return bus.NewClient(bot.Target(p.dir, e), "command"), e, nil
}
