package config

import (
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"tgbridge/internal/secret"
)

// Route says which member handles an update.
type Route string

// The routes.
const (
	RouteSticky Route = "sticky" // a lane belongs to one member, lanes are spread
	RouteLeader Route = "leader" // the leader handles all, the rest stand by
)

// Pace says whether calls are held back to what Telegram allows.
type Pace string

// The paces.
const (
	PaceTelegram Pace = "telegram" // Telegram's published limits
	PaceOff      Pace = "off"      // none of our own
)

// Webhook says what to do with a webhook that is set when a leader starts.
type Webhook string

// The ways to deal with a webhook.
const (
	WebhookKeep   Webhook = "keep"   // stop with a message
	WebhookDelete Webhook = "delete" // delete it, keeping pending updates
)

// LogLevel is the least important kind of log line that is written.
type LogLevel string

// The log levels.
const (
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is the form of log lines.
type LogFormat string

// The log formats.
const (
	LogAuto    LogFormat = "auto"    // console on a terminal, else JSON
	LogConsole LogFormat = "console" // for people
	LogJSON    LogFormat = "json"    // one object a line
)

// Config is a configuration that passed every check. It may be copied and
// printed: the token masks itself.
//
// Tags: env is the variable, envDefault its default, shown the default's
// description where it is computed, choices all the values there are, for
// "members" where no other command heeds it, example and help what errors and
// documentation show.
type Config struct {
	// Token is the bot's token, digits:text; empty where none was set and
	// Options.Member did not ask for one.
	Token secret.Secret `env:"TELEGRAM_BOT_TOKEN" example:"123456789:AAExampleOfATokenFromBotFather" help:"the token that @BotFather gave the bot; required for members"`
	// TokenFile is the file that Token was read from, or empty.
	TokenFile string `env:"TELEGRAM_BOT_TOKEN_FILE" example:"/run/secrets/bot-token" help:"file to read the token from instead; one line end after it is ignored"`
	// APIURL is the Bot API server, http or https, without a slash at its end.
	APIURL string `env:"TELEGRAM_API_URL" for:"members" envDefault:"https://api.telegram.org" example:"http://127.0.0.1:8081" help:"the Bot API server: Telegram's, a local one, or one for tests"`

	// StateDir is absolute. BotDir is the bot's folder in it.
	StateDir string `env:"TGBRIDGE_STATE_DIR" shown:"$XDG_STATE_HOME/tgbridge, else ~/.local/state/tgbridge; in the image /var/lib/tgbridge" example:"/var/lib/tgbridge" help:"where the members' common state is kept; must be shared by all members"`
	// Name is 1 to 64 printable characters without blanks around them.
	Name string `env:"TGBRIDGE_NAME" for:"members" shown:"the working directory's base name, in a container the host name" example:"laptop" help:"the member's name, shown in status; members of equal names get -2, -3"`

	Route Route `env:"TGBRIDGE_ROUTE" for:"members" envDefault:"sticky" choices:"sticky,leader" example:"leader" help:"sticky: each chat or topic has its member; leader: the leader handles all"`
	// AllowedUsers is sorted, without doubles; ids are above 0.
	AllowedUsers []int64 `env:"TGBRIDGE_ALLOWED_USERS" for:"members" shown:"nobody" example:"111111111,222222222" help:"numeric ids of the users who may use the bot, comma separated"`
	AllowAll     bool    `env:"TGBRIDGE_ALLOW_ALL" for:"members" envDefault:"false" example:"true" help:"a public bot: everybody may use it"`
	// AllowedUpdates is never empty, without doubles.
	AllowedUpdates []string `env:"TGBRIDGE_ALLOWED_UPDATES" for:"members" shown:"every kind" example:"message,callback_query" help:"the kinds of updates that are asked of Telegram, comma separated"`
	// Concurrency is 1 to 1000.
	Concurrency int  `env:"TGBRIDGE_CONCURRENCY" for:"members" envDefault:"16" example:"4" help:"chats or topics that one member handles at a time"`
	Pace        Pace `env:"TGBRIDGE_PACE" for:"members" envDefault:"telegram" choices:"telegram,off" example:"off" help:"telegram: Telegram's limits are kept; off: no limits (for other servers, and tests)"`

	HandlerTimeout time.Duration `env:"TGBRIDGE_HANDLER_TIMEOUT" for:"members" envDefault:"10m" example:"10m" help:"time for one attempt at handling an update"`
	// Attempts is 1 or more.
	Attempts int `env:"TGBRIDGE_ATTEMPTS" for:"members" envDefault:"3" example:"3" help:"attempts at an update before it becomes a dead letter"`

	Heartbeat      time.Duration `env:"TGBRIDGE_HEARTBEAT" envDefault:"1s" example:"1s" help:"time between two signs of life of a member; at most stale-after / 5"`
	StaleAfter     time.Duration `env:"TGBRIDGE_STALE_AFTER" envDefault:"5s" example:"5s" help:"time without a sign of life after which a leader is replaced"`
	OwnershipCheck time.Duration `env:"TGBRIDGE_OWNERSHIP_CHECK" envDefault:"1s" example:"1s" help:"time between two checks of who leads; at most 2s, and at most stale-after / 2"`
	// PollTimeout is in whole seconds, 1 to 50.
	PollTimeout    time.Duration `env:"TGBRIDGE_POLL_TIMEOUT" for:"members" envDefault:"50s" example:"50s" help:"time that Telegram holds a poll open; 1s to 50s"`
	RedeliverAfter time.Duration `env:"TGBRIDGE_REDELIVER_AFTER" for:"members" envDefault:"30s" example:"30s" help:"time after which a hung member's updates go to another; at least 2 x stale-after"`

	Webhook Webhook `env:"TGBRIDGE_WEBHOOK" for:"members" envDefault:"keep" choices:"keep,delete" example:"delete" help:"if a webhook is set, keep: stop with a message; delete: delete it, keeping pending updates"`

	LogLevel  LogLevel  `env:"TGBRIDGE_LOG_LEVEL" envDefault:"info" choices:"debug,info,warn,error" example:"debug" help:"the least important log lines to write: debug, info, warn or error"`
	LogFormat LogFormat `env:"TGBRIDGE_LOG_FORMAT" envDefault:"auto" choices:"auto,console,json" example:"json" help:"console, json, or auto: console on a terminal, else json; logs go to stderr"`

	// BotID is the number before the token's colon, or 0 without a token.
	BotID int64 `env:"-"`
	// Sources tells where each setting that is not at its default came from,
	// in the order of the table.
	Sources []Setting `env:"-"`
	// Warnings are for the log: what is allowed but hardly meant.
	Warnings []string `env:"-"`

	// passedOn has the settings, NAME=VALUE, that ChildEnv adds.
	passedOn []string
}

// Source is where a setting came from.
type Source string

// The sources, strongest first.
const (
	SourceFlag        Source = "flag"
	SourceEnvironment Source = "environment"
	SourceEnvFile     Source = "env file"
	SourceSecretFile  Source = "secret file"
)

// Setting is a variable and where its value came from.
type Setting struct {
	Variable string
	Source   Source
}

// BotDir returns the folder of the bot's state: StateDir and in it the bot's
// number, so that two bots never meet and a new token of the same bot finds
// the old state. It must not be called without a token.
func (c Config) BotDir() string {
	return filepath.Join(c.StateDir, strconv.FormatInt(c.BotID, 10))
}

// APIHost returns the host of APIURL, with the port if it names one.
func (c Config) APIHost() string {
	u, err := url.Parse(c.APIURL)
	if err != nil {
		return ""
	}
	return u.Host
}
