// Package bot is what Go programs import to run a Telegram bot in any number of
// processes with one token: one of them polls, all of them handle updates, and
// when the one that polls dies another takes over at once.
//
//	bridge, err := bot.New(bot.Options{
//		Token:        bot.NewSecret(os.Getenv("TELEGRAM_BOT_TOKEN")),
//		AllowedUsers: []int64{123456789},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	err = bridge.Run(ctx, bot.HandlerFunc(func(ctx context.Context, u *bot.Update) (bot.Reply, error) {
//		return bot.Reply{Text: u.Text()}, nil
//	}))
//
// # What is promised
//
// An update is on disk before it is confirmed to Telegram, and reaches a handler
// at least once, in the order of its chat or topic. If no process is killed,
// hung or stopped with unfinished work, exactly once. What a handler returns is
// sent by the leader after it was recorded: from then on the handler is never
// run again for that update.
//
// # What is not promised
//
// A handler that was killed between an effect of its own and its return is run
// again, with a higher Update.Attempt; so is one that had not returned when the
// time of its member's stop was over, with the same. A reply that was being sent when its sender died
// may arrive twice, never not at all. A call whose outcome Telegram did not tell
// is not repeated: ErrOutcomeUnknown.
//
// # How it is made
//
// A Bridge is a member: it has a file, a socket, a Worker that follows whoever
// leads, and, while it holds the lease, a term: journal, hub and poller. The
// adapters between those packages are here, one file each:
//
//   - bridge.go: the member's life, start to stop
//   - role.go, elect.go, leave.go: lead or follow, and what comes after either
//   - term.go, sweep.go: a leadership and what it starts
//   - source.go, sink.go: from Telegram into the journal and the hub
//   - store.go, trouble.go: the hub's decisions into the journal, and what that
//     suffers from
//   - perform.go, reply.go: calls and replies to Telegram
//   - access.go, status.go: who is denied, and what is told
//
// # Goroutines
//
// Run leads and follows in its caller's goroutine, and has one that beats and
// one that keeps file and socket in place. While the member follows, one
// watches the leader; while it leads, one joins its own hub, one runs the hub,
// and one opens the journal and then watches members. Run waits for all of
// them, and for calls under way.
package bot
