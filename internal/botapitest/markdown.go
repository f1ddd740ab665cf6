package botapitest

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// markup is the state that the parsers of formatted text share: the text so
// far and the entities that are open. It follows tdlib/td, MessageEntity.cpp.
type markup struct {
	in     string
	at     int // byte offset in in
	out    strings.Builder
	units  int // UTF-16 units in out
	open   []openEntity
	closed []entity
}

type openEntity struct {
	entity
	name      string // as faults call it
	byteBegin int    // in in
	outBegin  int    // in out
}

// peek is the byte n further on, 0 beyond the end.
func (m *markup) peek(n int) byte {
	if m.at+n >= len(m.in) {
		return 0
	}
	return m.in[m.at+n]
}

func (m *markup) has(prefix string) bool { return strings.HasPrefix(m.in[m.at:], prefix) }

// copyRune takes one character over.
func (m *markup) copyRune() {
	r, size := utf8.DecodeRuneInString(m.in[m.at:])
	m.out.WriteString(m.in[m.at : m.at+size])
	m.at += size
	m.units++
	if r >= 0x10000 {
		m.units++
	}
}

func (m *markup) begin(kind, name string) *openEntity {
	m.open = append(m.open, openEntity{
		entity: entity{Type: kind, Offset: m.units}, name: name, byteBegin: m.at, outBegin: m.out.Len(),
	})
	return m.last()
}

func (m *markup) last() *openEntity {
	if len(m.open) == 0 {
		return nil
	}
	return &m.open[len(m.open)-1]
}

// end closes the entity opened last; an empty one is dropped.
func (m *markup) end() {
	e := m.last().entity
	m.open = m.open[:len(m.open)-1]
	if e.Length = m.units - e.Offset; e.Length > 0 {
		m.closed = append(m.closed, e)
	}
}

func (m *markup) result() formatted { return formatted{text: m.out.String(), entities: m.closed} }

// language reads the language of a code block, if one is there, and the line
// end behind it.
func (m *markup) language() string {
	rest := m.in[m.at:]
	n := strings.IndexAny(rest, " \t\r\n`")
	language := ""
	if n > 0 && rest[n] != '`' {
		language = rest[:n]
		m.at += n
	}
	switch {
	case m.has("\r\n"), m.has("\n\r"):
		m.at += 2
	case m.has("\n"), m.has("\r"):
		m.at++
	}
	return language
}

// marks are the entities of MarkdownV2 whose end looks like their beginning;
// longer ones come first.
var marks = []struct{ mark, kind, name string }{
	{"__", "underline", "Underline"},
	{"_", "italic", "Italic"},
	{"*", "bold", "Bold"},
	{"~", "strikethrough", "Strikethrough"},
	{"||", "spoiler", "Spoiler"},
	{"```", "pre", "Pre"},
	{"`", "code", "Code"},
}

func markOf(kind string) string {
	i := slices.IndexFunc(marks, func(m struct{ mark, kind, name string }) bool { return m.kind == kind })
	if i < 0 {
		return ""
	}
	return marks[i].mark
}

const reservedV2 = "_*[]()~`>#+-=|{}.!"

// parseMarkdownV2 reads MarkdownV2; fault says what is wrong, "" if nothing.
func parseMarkdownV2(text string) (f formatted, fault string) {
	m := &markup{in: text}
	lineBegins, quoted := true, false
	for m.at < len(m.in) {
		c := m.peek(0)
		if c == '\\' && m.peek(1) > 0 && m.peek(1) <= 126 {
			m.at++
			m.copyRune()
			lineBegins = false
			continue
		}
		if c == '>' && lineBegins && !m.inCode() {
			if !quoted {
				m.begin("blockquote", "BlockQuote")
				quoted = true
			}
			m.at++
			lineBegins = false
			continue
		}
		if c == '\n' && quoted && m.peek(1) != '>' {
			if m.last().Type != "blockquote" {
				return f, m.unclosed()
			}
			m.end()
			quoted = false
		}
		lineBegins = c == '\n'
		if !m.isReserved(c) {
			m.copyRune()
			continue
		}
		if fault := m.markV2(c); fault != "" {
			return f, fault
		}
	}
	if last := m.last(); last != nil && last.Type == "blockquote" {
		m.end()
	}
	if len(m.open) > 0 {
		return f, m.unclosed()
	}
	return m.result(), ""
}

func (m *markup) inCode() bool {
	last := m.last()
	return last != nil && (last.Type == "code" || last.Type == "pre")
}

func (m *markup) isReserved(c byte) bool {
	if m.inCode() {
		return c == '`'
	}
	return strings.IndexByte(reservedV2, c) >= 0
}

func (m *markup) unclosed() string {
	return fmt.Sprintf("Can't find end of %s entity at byte offset %d", m.last().name, m.last().byteBegin)
}

// markV2 reads a mark that begins or ends an entity.
func (m *markup) markV2(c byte) (fault string) {
	if last := m.last(); last != nil && m.endsV2(last) {
		if last.Type == "text_link" || last.Type == "custom_emoji" {
			return m.link()
		}
		m.at += len(markOf(last.Type))
		m.end()
		return ""
	}
	if c == '[' {
		m.begin("text_link", "TextUrl")
		m.at++
		return ""
	}
	if m.has("![") {
		m.begin("custom_emoji", "CustomEmoji")
		m.at += 2
		return ""
	}
	for _, mark := range marks {
		if m.has(mark.mark) {
			e := m.begin(mark.kind, mark.name)
			m.at += len(mark.mark)
			if mark.kind == "pre" {
				if e.Language = m.language(); e.Language != "" {
					e.name = "PreCode"
				}
			}
			return ""
		}
	}
	return fmt.Sprintf(`Character '%c' is reserved and must be escaped with the preceding '\'`, c)
}

// endsV2 reports whether the entity opened last ends here.
func (m *markup) endsV2(last *openEntity) bool {
	switch last.Type {
	case "text_link", "custom_emoji":
		return m.has("]")
	case "italic":
		return m.has("_") && !m.has("__")
	case "blockquote":
		return false
	}
	return m.has(markOf(last.Type))
}

// link reads what follows the text of a link or custom emoji: "](address)".
// Without an address the text is it.
func (m *markup) link() (fault string) {
	last := m.last()
	if m.peek(1) != '(' {
		if last.Type == "custom_emoji" {
			return "Custom emoji entity must contain a tg://emoji URL"
		}
		last.URL = m.out.String()[last.outBegin:]
		m.at++
		m.end()
		return ""
	}
	m.at += 2
	begin := m.at
	var address strings.Builder
	for m.at < len(m.in) && m.peek(0) != ')' {
		if m.peek(0) == '\\' && m.peek(1) > 0 && m.peek(1) <= 126 {
			m.at++
		}
		address.WriteByte(m.peek(0))
		m.at++
	}
	if m.at >= len(m.in) {
		return fmt.Sprintf("Can't find end of a URL at byte offset %d", begin)
	}
	m.at++
	return m.endLink(address.String())
}

func (m *markup) endLink(address string) (fault string) {
	last := m.last()
	if last.Type == "custom_emoji" {
		id, ok := strings.CutPrefix(address, "tg://emoji?id=")
		if !ok {
			return "Custom emoji URL must have scheme tg and host emoji"
		}
		last.CustomEmojiID = id
	} else {
		last.URL = address
	}
	if address == "" {
		m.open = m.open[:len(m.open)-1] // a link to nowhere is plain text
		return ""
	}
	m.end()
	return ""
}

// parseMarkdown reads the old Markdown, which knows no nesting.
func parseMarkdown(text string) (f formatted, fault string) {
	m := &markup{in: text}
	for m.at < len(m.in) {
		c := m.peek(0)
		switch {
		case c == '\\' && m.at+1 < len(m.in) && strings.IndexByte("_*`[", m.peek(1)) >= 0:
			m.at++
			m.copyRune()
		case strings.IndexByte("_*`[", c) < 0:
			m.copyRune()
		default:
			if fault := m.entityV1(c); fault != "" {
				return f, fault
			}
		}
	}
	return m.result(), ""
}

// entityV1 reads an entity of the old Markdown as a whole.
func (m *markup) entityV1(c byte) (fault string) {
	begin := m.at
	kind, end := map[byte]string{'_': "italic", '*': "bold", '`': "code", '[': "text_link"}[c], string(c)
	if c == '[' {
		end = "]"
	}
	if m.has("```") {
		kind, end = "pre", "```"
	}
	e := m.begin(kind, "")
	m.at += len(end)
	if kind == "pre" {
		e.Language = m.language()
	}
	for !m.has(end) {
		if m.at >= len(m.in) {
			return fmt.Sprintf("Can't find end of the entity starting at byte offset %d", begin)
		}
		m.copyRune()
	}
	if kind != "text_link" {
		m.at += len(end)
		m.end()
		return ""
	}
	if m.peek(1) == '(' && !strings.Contains(m.in[m.at:], ")") {
		m.at++ // no link after all
		m.open = m.open[:len(m.open)-1]
		return ""
	}
	return m.link()
}
