package botapitest

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// htmlTags are the tags of HTML style and their entities.
var htmlTags = map[string]string{
	"b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
	"s": "strikethrough", "strike": "strikethrough", "del": "strikethrough",
	"tg-spoiler": "spoiler", "span": "spoiler", "tg-emoji": "custom_emoji",
	"a": "text_link", "code": "code", "pre": "pre", "blockquote": "blockquote",
}

// parseHTML reads HTML style; fault says what is wrong, "" if nothing. It
// follows tdlib/td, MessageEntity.cpp.
func parseHTML(text string) (f formatted, fault string) {
	m := &markup{in: text}
	for m.at < len(m.in) {
		switch m.peek(0) {
		case '&':
			if r, size := htmlCharacter(m.in[m.at:]); size > 0 {
				m.at += size
				m.out.WriteRune(r)
				m.units += utf16Len(string(r))
				continue
			}
			m.copyRune()
		case '<':
			if fault := m.tag(); fault != "" {
				return f, fault
			}
		default:
			m.copyRune()
		}
	}
	if last := m.last(); last != nil {
		return f, fmt.Sprintf("Can't find end tag corresponding to start tag %q", last.name)
	}
	return m.result(), ""
}

// htmlCharacter reads a character reference; size is 0 if text begins with
// none.
func htmlCharacter(text string) (r rune, size int) {
	named := map[string]rune{"&lt": '<', "&gt": '>', "&amp": '&', "&quot": '"'}
	end := 1
	for end < len(text) && (text[end] == '#' || isAlnum(text[end])) {
		end++
	}
	name := text[:end]
	if digits, numeric := strings.CutPrefix(name, "&#"); numeric {
		base := 10
		if hex, isHex := strings.CutPrefix(strings.ToLower(digits), "x"); isHex {
			digits, base = hex, 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || n == 0 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			return 0, 0
		}
		r = rune(n)
	} else if r = named[name]; r == 0 {
		return 0, 0
	}
	if end < len(text) && text[end] == ';' {
		end++
	}
	return r, end
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// tag reads a start or end tag.
func (m *markup) tag() (fault string) {
	begin := m.at
	end := m.at + 1
	for end < len(m.in) && !isBlank(m.in[end]) && m.in[end] != '>' {
		end++
	}
	if end >= len(m.in) {
		return fmt.Sprintf("Unclosed start tag at byte offset %d", begin)
	}
	name := strings.ToLower(m.in[begin+1 : end])
	m.at = end
	if name, isEnd := strings.CutPrefix(name, "/"); isEnd {
		return m.endTag(name, begin)
	}
	kind, known := htmlTags[name]
	if !known {
		return fmt.Sprintf("Unsupported start tag %q at byte offset %d", name, begin)
	}
	attributes, fault := m.attributes(name, begin)
	if fault != "" {
		return fault
	}
	if name == "span" && attributes["class"] != "tg-spoiler" {
		return fmt.Sprintf(`Tag "span" must have class "tg-spoiler" at byte offset %d`, begin)
	}
	m.beginTag(kind, name, attributes)
	return ""
}

func (m *markup) beginTag(kind, name string, attributes map[string]string) {
	e := m.begin(kind, name)
	switch name {
	case "a":
		e.URL = attributes["href"]
	case "tg-emoji":
		e.CustomEmojiID = attributes["emoji-id"]
	case "blockquote":
		if _, ok := attributes["expandable"]; ok {
			e.Type = "expandable_blockquote"
		}
	case "code":
		e.Language = strings.TrimPrefix(attributes["class"], "language-")
	}
}

// attributes reads up to the '>' of a start tag.
func (m *markup) attributes(name string, begin int) (all map[string]string, fault string) {
	all = make(map[string]string)
	unclosed := fmt.Sprintf("Unclosed start tag %q at byte offset %d", name, begin)
	for {
		for isBlank(m.peek(0)) {
			m.at++
		}
		switch m.peek(0) {
		case 0:
			return nil, unclosed
		case '>':
			m.at++
			return all, ""
		}
		from := m.at
		for c := m.peek(0); c != 0 && c != '=' && c != '>' && !isBlank(c); c = m.peek(0) {
			m.at++
		}
		attribute := strings.ToLower(m.in[from:m.at])
		if attribute == "" {
			return nil, fmt.Sprintf("Empty attribute name in the tag %q at byte offset %d", name, begin)
		}
		if m.peek(0) != '=' {
			all[attribute] = ""
			continue
		}
		m.at++
		if all[attribute], fault = m.attributeValue(); fault != "" {
			return nil, fault
		}
	}
}

func (m *markup) attributeValue() (value, fault string) {
	quote := m.peek(0)
	if quote != '"' && quote != '\'' {
		from := m.at
		for c := m.peek(0); isAlnum(c) || c == '.' || c == '-'; c = m.peek(0) {
			m.at++
		}
		if c := m.peek(0); c != '>' && !isBlank(c) {
			return "", fmt.Sprintf("Unexpected end of name token at byte offset %d", from)
		}
		return strings.ToLower(m.in[from:m.at]), ""
	}
	m.at++
	var b strings.Builder
	for m.peek(0) != quote && m.at < len(m.in) {
		if r, size := htmlCharacter(m.in[m.at:]); m.peek(0) == '&' && size > 0 {
			b.WriteRune(r)
			m.at += size
			continue
		}
		b.WriteByte(m.peek(0))
		m.at++
	}
	if m.at < len(m.in) {
		m.at++
	}
	return b.String(), ""
}

// endTag reads the rest of an end tag.
func (m *markup) endTag(name string, begin int) (fault string) {
	last := m.last()
	if last == nil {
		return fmt.Sprintf("Unexpected end tag at byte offset %d", begin)
	}
	for isBlank(m.peek(0)) {
		m.at++
	}
	if m.peek(0) != '>' {
		return fmt.Sprintf("Unclosed end tag at byte offset %d", begin)
	}
	m.at++
	if name != "" && name != last.name {
		return fmt.Sprintf(`Unmatched end tag at byte offset %d, expected "</%s>", found "</%s>"`, begin, last.name, name)
	}
	m.closeTag()
	return ""
}

// closeTag ends the entity opened last: a link without address is its text, a
// language is that of the block around the code.
func (m *markup) closeTag() {
	last := m.last()
	if last.Type == "text_link" && last.URL == "" {
		last.URL = m.out.String()[last.outBegin:]
	}
	if last.Type == "code" && last.Language != "" {
		if n := len(m.open); n > 1 && m.open[n-2].Type == "pre" && m.open[n-2].Offset == last.Offset {
			m.open[n-2].Language = last.Language
			m.open = m.open[:n-1]
			return
		}
		last.Language = ""
	}
	m.end()
}
