package telegram_test

import (
	"strings"
	"testing"

	"tgbridge/internal/secret"
	"tgbridge/internal/telegram"
)

// TestToken checks which tokens are taken, and that no error shows one (F9).
func TestToken(t *testing.T) {
	tests := []struct {
		name, token string
		id          int64
		err         string // part of the error, "" for none
	}{
		{"as Telegram gives it", token, 8112046593, ""},
		{"short ones of test servers", "1:a", 1, ""},
		{"id beyond 32 bits", "4503599627370495:abc", 4503599627370495, ""},
		{"empty", "", 0, "empty"},
		{"F9 line feed at the end", token + "\n", 0, "line feed at position 41"},
		{"F9 line feed inside", botNumber + ":AAHq\n" + secretPart, 0, "line feed at position 16"},
		{"carriage return", token + "\r", 0, "carriage return"},
		{"blank", " " + token, 0, "blank at position 1"},
		{"tab", token + "\t", 0, "blank"},
		{"NUL", token + "\x00", 0, "control character"},
		{"example", "123456789:AA...", 0, "a dot, as of an example, at position 13"},
		{"slash", token + "/../x", 0, "a character that no token holds"},
		{"percent sign", token + "%s", 0, "a character that no token holds"},
		{"not ASCII", token + "é", 0, "a character that no token holds"},
		{"not UTF-8", token + "\xff", 0, "a character that no token holds"},
		{"no colon", botNumber + secretPart, 0, "one colon"},
		{"two colons", token + ":" + secretPart, 0, "one colon"},
		{"nothing after the colon", botNumber + ":", 0, "one colon"},
		{"no number", "bot:" + secretPart, 0, "not a bot's number"},
		{"with bot before it", "bot" + token, 0, "not a bot's number"},
		{"leading zero", "0" + token, 0, "not a bot's number"},
		{"zero", "0:" + secretPart, 0, "not a bot's number"},
		{"negative", "-" + token, 0, "not a bot's number"},
		{"number over 64 bits", "99999999999999999999:" + secretPart, 0, "not a bot's number"},
		{"too long", token + strings.Repeat("a", 256), 0, "longer than 256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := telegram.BotID(secret.New(tt.token))
			_, clientErr := telegram.NewClient(telegram.ClientOptions{Token: secret.New(tt.token)})
			if id != tt.id {
				t.Errorf("BotID() = %d, want %d", id, tt.id)
			}
			for _, err := range []error{err, clientErr} {
				checkError(t, err, tt.err)
			}
		})
	}
}

func TestAPIURL(t *testing.T) {
	tests := []struct {
		name, url string
		err       string
	}{
		{"default", "", ""},
		{"Telegram's", "https://api.telegram.org", ""},
		{"slash at the end", "https://api.telegram.org/", ""},
		{"local server with a path", "http://127.0.0.1:8081/tg/v1", ""},
		{"IPv6", "http://[::1]:8081", ""},
		{"F9 percent sign", "https://api.telegram.org/%zz", "percent sign"},
		{"F9 format verbs", "https://api.telegram.org/bot%s/%s", "percent sign"},
		{"F9 line feed", "https://api.telegram.org\n", "control character"},
		{"blank", "https://api.telegram.org /x", "blank"},
		{"no scheme", "api.telegram.org", "neither http nor https"},
		{"other scheme", "ftp://api.telegram.org", "neither http nor https"},
		{"host and port only", "localhost:8081", "neither http nor https"},
		{"no host", "https:///x", "no host"},
		{"port only", "http://:8081", "no host"},
		{"bad port", "http://host:port", "not a URL"},
		{"user", "https://me:" + secretPart + "@host", "user name"},
		{"query", "https://host/?token=" + secretPart, "query"},
		{"fragment", "https://host/#" + secretPart, "query or a fragment"},
		{"F9 with the token", "https://api.telegram.org/bot" + token, "leave out"},
		{"F9 the token in its place", token, "not a URL"},
		{"too long", "https://host/" + strings.Repeat("a", 1024), "longer than 1024"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := telegram.NewClient(telegram.ClientOptions{Token: secret.New(token), APIURL: tt.url})
			checkError(t, err, tt.err)
		})
	}
}

func TestOtherOptions(t *testing.T) {
	tests := []struct {
		name    string
		options telegram.ClientOptions
		err     string
	}{
		{"user agent with a line feed", telegram.ClientOptions{UserAgent: "a\r\nb: c"}, "user agent"},
		{"user agent too long", telegram.ClientOptions{UserAgent: strings.Repeat("a", 257)}, "user agent"},
		{"negative cap", telegram.ClientOptions{MaxBody: -1}, "max body"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.options.Token = secret.New(token)
			_, err := telegram.NewClient(tt.options)
			checkError(t, err, tt.err)
		})
	}
	if _, err := telegram.NewAPI(nil, telegram.APIOptions{}); err == nil {
		t.Error("NewAPI without a client: want an error")
	}
	client := newClient(t, "")
	if _, err := telegram.NewAPI(client, telegram.APIOptions{MaxWait: -1}); err == nil {
		t.Error("NewAPI with a negative bound: want an error")
	}
}

// checkError wants an error that contains part, or none if part is empty, and
// none that shows the token.
func checkError(t *testing.T, err error, part string) {
	t.Helper()
	if part == "" {
		if err != nil {
			t.Errorf("error: %v, want none", err)
		}
		return
	}
	if err == nil {
		t.Errorf("no error, want one with %q", part)
		return
	}
	if !strings.Contains(err.Error(), part) {
		t.Errorf("error %q, want one with %q", err, part)
	}
	noSecret(t, err.Error())
}
