package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// shortest is the least duration that makes sense for anything that repeats.
const shortest = 10 * time.Millisecond

// check judges each value, and then what must hold between them. A check is
// left out where a value that it needs has a problem already.
func (l *loader) check() {
	l.checkChoices()
	l.checkToken()
	l.checkAPIURL()
	l.checkStateDir()
	l.checkName()
	l.checkNumbers()
	l.checkTimes()
}

// require notes what is wrong with a variable unless ok, or unless something
// is already known to be wrong with it or with what else the check needs.
func (l *loader) require(ok bool, variable, what string, needs ...string) {
	if !ok && !l.failed(append(needs, variable)...) {
		l.fail(variable, what)
	}
}

func (l *loader) checkChoices() {
	for _, v := range l.table {
		g, ok := l.given[v.Name]
		if len(v.Choices) == 0 || !ok || g.value == "" {
			continue
		}
		l.require(slices.Contains(v.Choices, strings.TrimSpace(g.value)), v.Name,
			quote(g.value)+" is none of "+strings.Join(v.Choices, ", "))
	}
}

// tokenForm is the token's form. The secret part goes into a URL's path, so it
// may hold what needs no escape there; Telegram's own have letters, digits, _
// and -.
var tokenForm = regexp.MustCompile(`^([0-9]+):[A-Za-z0-9._~-]+$`)

func (l *loader) checkToken() {
	token := l.config.Token.Reveal()
	if token == "" {
		l.require(!l.options.Member, tokenVariable,
			"not set: give the token that @BotFather shows for the bot, or its file's path in "+tokenVariable+fileSuffix,
			tokenVariable+fileSuffix)
		return
	}
	match := tokenForm.FindStringSubmatch(token)
	if match == nil {
		l.require(false, tokenVariable, "not a token: "+whatIsWrong(token))
		return
	}
	id, err := strconv.ParseInt(match[1], 10, 64)
	l.require(err == nil && id > 0, tokenVariable, "not a token: the number before the colon is no bot's")
	l.config.BotID = id
}

// whatIsWrong says why a token has not its form, without showing any of it.
func whatIsWrong(token string) string {
	switch {
	case strings.ContainsFunc(token, unicode.IsSpace):
		return "it has a blank or a line end in it"
	case strings.ContainsAny(token, `"'`):
		return "it has quotes in it"
	case !strings.Contains(token, ":"):
		return "it has no colon; the form is digits:text"
	default:
		return "the form is digits:text, the text of letters, digits, _ and -"
	}
}

var botInPath = regexp.MustCompile(`/bot($|[0-9]+:)`)

func (l *loader) checkAPIURL() {
	const name = "TELEGRAM_API_URL"
	l.config.APIURL = strings.TrimRight(l.config.APIURL, "/")
	given := l.config.APIURL
	u, err := url.Parse(given)
	switch {
	case err != nil:
		// The parser's error repeats the URL, and with it any password.
		l.require(false, name, "not a URL")
	case u.User != nil:
		l.require(false, name, "it has a user name or password in it, which a Bot API server does not take")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		l.require(false, name, quote(given)+" is not an http or https URL with a host")
	case strings.ContainsAny(given, "?#%"):
		l.require(false, name, quote(given)+" may have no ?, # or %")
	case botInPath.MatchString(u.Path):
		l.require(false, name, quote(given)+" must end before /bot and the token, which are added")
	}
}

func (l *loader) checkStateDir() {
	const name = "TGBRIDGE_STATE_DIR"
	dir := l.config.StateDir
	if dir == "" {
		return // complete said why
	}
	if strings.HasPrefix(dir, "~") {
		l.require(false, name, quote(dir)+" begins with ~, which only a shell replaces: write the whole path")
		return
	}
	if strings.ContainsRune(dir, 0) {
		l.require(false, name, quote(dir)+" is not a path")
		return
	}
	absolute, err := filepath.Abs(dir)
	l.require(err == nil, name, quote(dir)+" is relative, and the working directory is not known")
	l.config.StateDir = absolute
}

func (l *loader) checkName() {
	name := l.config.Name
	l.require(utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }),
		"TGBRIDGE_NAME", quote(name)+" has characters that cannot be printed")
	l.require(utf8.RuneCountInString(name) <= longestName,
		"TGBRIDGE_NAME", fmt.Sprintf("%s is longer than %d characters", quote(name), longestName))
}

func (l *loader) checkNumbers() {
	c := &l.config
	l.require(c.Concurrency >= 1 && c.Concurrency <= 1000, "TGBRIDGE_CONCURRENCY",
		fmt.Sprintf("%d is not between 1 and 1000", c.Concurrency))
	l.require(c.Attempts >= 1, "TGBRIDGE_ATTEMPTS", fmt.Sprintf("%d is less than 1", c.Attempts))
}

func (l *loader) checkTimes() {
	const (
		heartbeat = "TGBRIDGE_HEARTBEAT"
		stale     = "TGBRIDGE_STALE_AFTER"
		ownership = "TGBRIDGE_OWNERSHIP_CHECK"
		poll      = "TGBRIDGE_POLL_TIMEOUT"
		redeliver = "TGBRIDGE_REDELIVER_AFTER"
		handler   = "TGBRIDGE_HANDLER_TIMEOUT"
	)
	c := &l.config
	for _, t := range []struct {
		variable string
		value    time.Duration
	}{{heartbeat, c.Heartbeat}, {stale, c.StaleAfter}, {ownership, c.OwnershipCheck}, {redeliver, c.RedeliverAfter}, {handler, c.HandlerTimeout}} {
		l.require(t.value >= shortest, t.variable, fmt.Sprintf("%v is shorter than %v", t.value, shortest))
	}
	l.require(c.PollTimeout >= time.Second && c.PollTimeout <= 50*time.Second, poll,
		fmt.Sprintf("%v is not between 1s and 50s", c.PollTimeout))
	l.require(c.PollTimeout%time.Second == 0, poll,
		fmt.Sprintf("%v is not a number of whole seconds", c.PollTimeout))

	l.require(c.Heartbeat <= c.StaleAfter/5, heartbeat,
		fmt.Sprintf("%v is more than a fifth of %s (%v)", c.Heartbeat, stale, c.StaleAfter), stale)
	l.require(c.OwnershipCheck <= min(2*time.Second, c.StaleAfter/2), ownership,
		fmt.Sprintf("%v is more than 2s or than half of %s (%v)", c.OwnershipCheck, stale, c.StaleAfter), stale)
	l.require(c.RedeliverAfter >= 2*c.StaleAfter, redeliver,
		fmt.Sprintf("%v is less than twice %s (%v)", c.RedeliverAfter, stale, c.StaleAfter), stale)
}
