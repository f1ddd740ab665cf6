package botapitest

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// entity is a formatted part of a text; offsets and lengths are in UTF-16
// units.
type entity struct {
	Offset        int             `json:"offset"`
	Length        int             `json:"length"`
	Type          string          `json:"type"`
	URL           string          `json:"url"`
	Language      string          `json:"language"`
	CustomEmojiID string          `json:"custom_emoji_id"`
	User          json.RawMessage `json:"user"`
}

// formatted is a text with its entities.
type formatted struct {
	text     string
	entities []entity
}

// entityTypes are those that a bot may send. Mentions and the like are found
// in the text by clients.
var entityTypes = []string{
	"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number",
	"bold", "italic", "underline", "strikethrough", "spoiler", "blockquote", "expandable_blockquote",
	"code", "pre", "text_link", "text_mention", "custom_emoji",
}

// formattedArgument reads a text in the way that parse_mode says, or with the
// entities beside it. Blanks around the text go.
func formattedArgument(a args, text, entities string) (formatted, *refusal) {
	var f formatted
	var fault string
	switch mode := a.text("parse_mode"); strings.ToLower(mode) {
	case "":
		var r *refusal
		if f.entities, r = entitiesArgument(a.text(entities)); r != nil {
			return f, r
		}
		f.text = a.text(text)
	case "markdown":
		f, fault = parseMarkdown(a.text(text))
	case "markdownv2":
		f, fault = parseMarkdownV2(a.text(text))
	case "html":
		f, fault = parseHTML(a.text(text))
	default:
		return f, badRequest("unsupported parse_mode")
	}
	if fault != "" {
		return f, badRequest("can't parse entities: " + fault)
	}
	return f.trim(), nil
}

func entitiesArgument(text string) ([]entity, *refusal) {
	if text == "" {
		return nil, nil
	}
	var all []entity
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil, badRequest("can't parse entities JSON object")
	}
	for _, e := range all {
		if !slices.Contains(entityTypes, e.Type) {
			return nil, badRequest("can't parse MessageEntity: Unsupported type specified")
		}
	}
	return all, nil
}

// trim removes blanks around the text and what entities lose by that.
func (f formatted) trim() formatted {
	left := strings.TrimLeftFunc(f.text, unicode.IsSpace)
	cut := utf16Len(f.text) - utf16Len(left)
	f.text = strings.TrimRightFunc(left, unicode.IsSpace)
	length := utf16Len(f.text)
	var kept []entity
	for _, e := range f.entities {
		begin, end := max(0, e.Offset-cut), min(length, e.Offset-cut+e.Length)
		if e.Offset >= 0 && e.Length > 0 && begin < end {
			e.Offset, e.Length = begin, end-begin
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(kept, func(a, b entity) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return b.Length - a.Length
	})
	f.entities = kept
	return f
}

func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// printEntities prints a list of entities as Telegram does.
func printEntities(all []entity) []byte {
	b := []byte{'['}
	for i, e := range all {
		if i > 0 {
			b = append(b, ',')
		}
		var o object
		o.number("offset", int64(e.Offset))
		o.number("length", int64(e.Length))
		o.text("type", e.Type)
		o.textIf("url", e.URL)
		o.textIf("language", e.Language)
		o.textIf("custom_emoji_id", e.CustomEmojiID)
		if e.User != nil {
			o.raw("user", e.User)
		}
		b = append(b, o.close()...)
	}
	return append(b, ']')
}
