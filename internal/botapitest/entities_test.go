package botapitest_test

import (
	"fmt"
	"strings"
	"testing"

	"tgbridge/internal/botapitest"
)

// parsed sends a text and returns its "text" and "entities" as they are
// printed, or the description of the refusal.
func parsed(s *botapitest.Server, pairs ...string) string {
	answer := post(s, "sendMessage", form(append(pairs, "chat_id", fmt.Sprint(chat))...))
	if _, text, ok := strings.Cut(answer, `"text":`); ok {
		return strings.TrimSuffix(text, "}}")
	}
	_, refusal, _ := strings.Cut(answer, `"description":`)
	return strings.TrimSuffix(refusal, "}")
}

func TestParseModes(t *testing.T) {
	const entities = `,"entities":`
	fault := func(text string) string { return `"Bad Request: can't parse entities: ` + text + `"` }
	tests := []struct{ name, mode, text, want string }{
		{"V2 marks", "MarkdownV2", "*b* _i_ __u__ ~s~ ||p|| `c`", `"b i u s p c"` + entities +
			`[{"offset":0,"length":1,"type":"bold"},{"offset":2,"length":1,"type":"italic"},{"offset":4,"length":1,"type":"underline"},{"offset":6,"length":1,"type":"strikethrough"},{"offset":8,"length":1,"type":"spoiler"},{"offset":10,"length":1,"type":"code"}]`},
		{"V2 nested, offsets in UTF-16", "markdownv2", "🚢*a _b_*", `"\ud83d\udea2a b"` + entities + `[{"offset":2,"length":3,"type":"bold"},{"offset":4,"length":1,"type":"italic"}]`},
		{"V2 link", "MarkdownV2", `[t](http://e.org/\))`, `"t"` + entities + `[{"offset":0,"length":1,"type":"text_link","url":"http://e.org/)"}]`},
		{"V2 code block", "MarkdownV2", "```go\nx := 1_0\n```", `"x := 1_0"` + entities + `[{"offset":0,"length":8,"type":"pre","language":"go"}]`},
		{"V2 code block without language", "MarkdownV2", "```\na\n```", `"a"` + entities + `[{"offset":0,"length":1,"type":"pre"}]`},
		{"V2 quote", "MarkdownV2", ">a\n>b\nc", `"a\nb\nc"` + entities + `[{"offset":0,"length":3,"type":"blockquote"}]`},
		{"V2 escapes", "MarkdownV2", `\*a\_\\`, `"*a_\\"`},
		{"V2 custom emoji", "MarkdownV2", `![🚢](tg://emoji?id=5)`, `"\ud83d\udea2"` + entities + `[{"offset":0,"length":2,"type":"custom_emoji","custom_emoji_id":"5"}]`},
		{"F54 V2 reserved", "MarkdownV2", "a!", fault(`Character '!' is reserved and must be escaped with the preceding '\\'`)},
		{"V2 reserved minus", "MarkdownV2", "a - b", fault(`Character '-' is reserved and must be escaped with the preceding '\\'`)},
		{"F56 V2 open", "MarkdownV2", "snake_case **bold", fault(`Can't find end of Italic entity at byte offset 5`)},
		{"V2 open italic", "MarkdownV2", "ä _a", fault(`Can't find end of Italic entity at byte offset 3`)},
		{"V2 open block", "MarkdownV2", "```go\na", fault(`Can't find end of PreCode entity at byte offset 0`)},
		{"V2 open URL", "MarkdownV2", "[a](b", fault(`Can't find end of a URL at byte offset 4`)},
		{"V2 nothing left", "MarkdownV2", "**", `"Bad Request: text must be non-empty"`},
		{"Markdown", "Markdown", "*b* _i_ `c` [t](u) a*", fault("Can't find end of the entity starting at byte offset 20")},
		{"Markdown marks", "Markdown", "*b* _i_ `c` [t](u) \\_", `"b i c t _"` + entities + `[{"offset":0,"length":1,"type":"bold"},{"offset":2,"length":1,"type":"italic"},{"offset":4,"length":1,"type":"code"},{"offset":6,"length":1,"type":"text_link","url":"u"}]`},
		{"F56 Markdown", "Markdown", "snake_case", fault("Can't find end of the entity starting at byte offset 5")},
		{"HTML marks", "HTML", "<b>b</b> <i>i</i> <u>u</u> <s>s</s> <tg-spoiler>p</tg-spoiler> <code>c</code>", `"b i u s p c"` + entities +
			`[{"offset":0,"length":1,"type":"bold"},{"offset":2,"length":1,"type":"italic"},{"offset":4,"length":1,"type":"underline"},{"offset":6,"length":1,"type":"strikethrough"},{"offset":8,"length":1,"type":"spoiler"},{"offset":10,"length":1,"type":"code"}]`},
		{"HTML link", "html", `<A HREF="http://e.org/?a=1&amp;b=2">t</A>`, `"t"` + entities + `[{"offset":0,"length":1,"type":"text_link","url":"http://e.org/?a=1&b=2"}]`},
		{"HTML characters", "HTML", "&lt;&amp;&gt;&quot;&#128674;&copy; & b", `"<&>\"\ud83d\udea2&copy; & b"`},
		{"HTML code block", "HTML", `<pre><code class="language-go">a</code></pre>`, `"a"` + entities + `[{"offset":0,"length":1,"type":"pre","language":"go"}]`},
		{"HTML quote", "HTML", `<blockquote expandable>a</blockquote>`, `"a"` + entities + `[{"offset":0,"length":1,"type":"expandable_blockquote"}]`},
		{"F56 HTML unknown tag", "HTML", "a <T> b", fault(`Unsupported start tag \"t\" at byte offset 2`)},
		{"HTML paragraph", "HTML", "<p>a</p>", fault(`Unsupported start tag \"p\" at byte offset 0`)},
		{"HTML open tag", "HTML", "a <b", fault(`Unclosed start tag at byte offset 2`)},
		{"HTML no end", "HTML", "<b>a", fault(`Can't find end tag corresponding to start tag \"b\"`)},
		{"HTML wrong end", "HTML", "<b>a</i>", fault(`Unmatched end tag at byte offset 4, expected \"</b>\", found \"</i>\"`)},
		{"HTML only end", "HTML", "a</b>", fault(`Unexpected end tag at byte offset 1`)},
		{"HTML span", "HTML", "<span>a</span>", fault(`Tag \"span\" must have class \"tg-spoiler\" at byte offset 0`)},
		{"unknown mode", "TeX", "a", `"Bad Request: unsupported parse_mode"`},
	}
	s := newWorld(t)
	for _, tt := range tests {
		wantEqual(t, tt.name, parsed(s, "parse_mode", tt.mode, "text", tt.text), tt.want)
	}
}

func TestEntities(t *testing.T) {
	tests := []struct{ name, text, entities, want string }{
		{"kept", "abc", `[{"type":"bold","offset":1,"length":2}]`, `"abc","entities":[{"offset":1,"length":2,"type":"bold"}]`},
		{"moved with the blanks", "  abc ", `[{"type":"bold","offset":1,"length":5}]`, `"abc","entities":[{"offset":0,"length":3,"type":"bold"}]`},
		{"beyond the text", "abc", `[{"type":"bold","offset":3,"length":2},{"type":"italic","offset":-1,"length":2},{"type":"code","offset":0,"length":0}]`, `"abc"`},
		{"in order", "abc", `[{"type":"bold","offset":1,"length":1},{"type":"pre","offset":0,"length":3,"language":"go"}]`, `"abc","entities":[{"offset":0,"length":3,"type":"pre","language":"go"},{"offset":1,"length":1,"type":"bold"}]`},
		{"no list", "abc", `7`, `"Bad Request: can't parse entities JSON object"`},
		{"unknown type", "abc", `[{"type":"blink","offset":0,"length":1}]`, `"Bad Request: can't parse MessageEntity: Unsupported type specified"`},
	}
	s := newWorld(t)
	for _, tt := range tests {
		wantEqual(t, tt.name, parsed(s, "text", tt.text, "entities", tt.entities), tt.want)
	}
}

// F54: the length counts after parsing.
func TestLengthCountsAfterParsing(t *testing.T) {
	s := newWorld(t)
	for text, tooLong := range map[string]bool{
		strings.Repeat(`\!`, 4096):            false,
		strings.Repeat(`\!`, 4097):            true,
		"*" + strings.Repeat("🚢", 2048) + "*": false,
		"*" + strings.Repeat("🚢", 2049) + "*": true,
	} {
		got := parsed(s, "parse_mode", "MarkdownV2", "text", text)
		if (got == `"Bad Request: message is too long"`) != tooLong {
			t.Errorf("%d bytes: %.80s", len(text), got)
		}
	}
}

func FuzzParseModes(f *testing.F) {
	for _, text := range []string{"*a _b_*", "```go\nx```", ">a\n>b", "[a](b)", "![a](tg://emoji?id=1)", "<b>a</b>", `<a href='x'>&lt;`, "\\", "`", "<", "&#"} {
		f.Add(text)
	}
	s, err := botapitest.New(botapitest.Options{NoLimits: true})
	if err != nil {
		f.Fatal(err)
	}
	s.SetChat(botapitest.Chat{ID: chat})
	f.Fuzz(func(t *testing.T, text string) {
		for _, mode := range []string{"Markdown", "MarkdownV2", "HTML"} {
			answer := post(s, "sendMessage", form("chat_id", fmt.Sprint(chat), "text", text, "parse_mode", mode))
			if !strings.HasPrefix(answer, "200 ") && !strings.HasPrefix(answer, "400 ") {
				t.Errorf("%s: %s", mode, answer)
			}
		}
	})
}
