package bot

import "tgbridge/internal/telegram"

// Parts returns a text in parts that fit into a message each: 4096 UTF-16 units,
// cut at line ends where there are any.
func Parts(text string) []string { return telegram.Split(text, telegram.MaxText) }

// FirstPart returns what of a text fits into one message beside reserve UTF-16
// units of something else.
func FirstPart(text string, reserve int) string {
	parts := telegram.Split(text, telegram.MaxText-reserve)
	if len(parts) == 0 {
		return ""
	}
	return parts[0]
}
