package botapitest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

// DefaultToken is the token of the bot that a Server has if its Options name
// none.
const DefaultToken = "8112046593:AAbotapitest-not-a-real-token-00000"

const defaultLedgerLimit = 1_000_000

// Options configure a Server. The zero Options give a server with one bot
// under DefaultToken, with Telegram's rate limits.
type Options struct {
	// Bots are the bots, the first of which the methods of Server act for.
	// None means one bot with DefaultToken.
	Bots []BotOptions
	// NoLimits switches the rate limits off, as SetLimits(false) does: 429 for
	// messages that come too fast and for a setWebhook within a second of
	// another, and the three seconds that a poll is held which repeats the
	// offset of one less than three seconds ago, whatever its timeout (it then
	// ends a poll that waits, as any that waits does).
	NoLimits bool
	// LedgerLimit is how many events the ledger holds before it is full; 0
	// means 1,000,000, which can take some 300 MB.
	LedgerLimit int
	// Logger gets one debug event a request. It never gets tokens or texts.
	Logger zerolog.Logger
}

// BotOptions describe a bot.
type BotOptions struct {
	// Token is the bot's token; the number before its ':' is the bot's id.
	Token string
	// FirstName and Username are the bot's; empty means Lantern and
	// lantern_bridge_bot, with _<id> behind it for all but the first.
	FirstName, Username string
	// FirstUpdateID is the id of the first update; 0 means one at random, as
	// Telegram does.
	FirstUpdateID int64
}

func (o *Options) validate() error {
	if len(o.Bots) == 0 {
		o.Bots = []BotOptions{{Token: DefaultToken}}
	}
	if o.LedgerLimit < 0 {
		return fmt.Errorf("ledger limit %d is negative", o.LedgerLimit)
	}
	if o.LedgerLimit == 0 {
		o.LedgerLimit = defaultLedgerLimit
	}
	seen := make(map[int64]bool)
	for i := range o.Bots {
		id, err := o.Bots[i].validate(i == 0)
		if err != nil {
			return fmt.Errorf("bot %d: %w", i+1, err)
		}
		if seen[id] {
			return fmt.Errorf("bot %d: id %d is taken", i+1, id)
		}
		seen[id] = true
	}
	return nil
}

func (o *BotOptions) validate(first bool) (int64, error) {
	id, ok := botID(o.Token)
	if !ok {
		return 0, errors.New("token is not of the form <number>:<secret>")
	}
	if o.FirstUpdateID < 0 || o.FirstUpdateID >= maxUpdateID {
		return 0, fmt.Errorf("first update id %d is not between 0 and %d", o.FirstUpdateID, maxUpdateID-1)
	}
	if o.FirstName == "" {
		o.FirstName = "Lantern"
	}
	if o.Username == "" {
		o.Username = "lantern_bridge_bot"
		if !first {
			o.Username += "_" + strconv.FormatInt(id, 10)
		}
	}
	return id, nil
}

// botID is the number in front of a token; false if the token is not of the
// form that Telegram gives out.
func botID(token string) (int64, bool) {
	number, secret, found := strings.Cut(token, ":")
	if !found || secret == "" || len(token) > 80 || strings.ContainsAny(token, "/ \r\n") || strings.HasPrefix(number, "0") {
		return 0, false
	}
	id, err := strconv.ParseInt(number, 10, 64)
	return id, err == nil && id > 0 && id < 1<<54
}
