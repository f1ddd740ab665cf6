package bot

import (
	"tgbridge/bus"
	"tgbridge/internal/telegram"
)

// Parts returns a text in parts that fit into a message each: 4096 UTF-16 units,
// cut at line ends where there are any.
func Parts(text string) []string { return telegram.Split(text, telegram.MaxText) }

// Fits reports whether a Reply with that text can be taken: its length counts as
// it is encoded.
func Fits(text string) bool { return len(encodeReply(storedReply{Text: text})) <= bus.MaxReply }

// FirstPart returns what of a text fits into one message beside reserve UTF-16
// units of something else.
func FirstPart(text string, reserve int) string {
	parts := telegram.Split(text, telegram.MaxText-reserve)
	if len(parts) == 0 {
		return ""
	}
	return parts[0]
}
