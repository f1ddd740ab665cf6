package cluster

import (
	"fmt"
	"regexp"
	"strconv"
)

// firstChat is the id of chat 0 of a load; the others follow.
const firstChat = 1_000_001

// A token is the text of a message of a load: its chat's number and its own in
// that chat.
var tokenForm = regexp.MustCompile(`\bc(\d+)-(\d{6,})\b`)

func makeToken(chat, n int) string { return fmt.Sprintf("c%d-%06d", chat, n) }

// tokensIn finds the tokens in an answer.
func tokensIn(text string) []string { return tokenForm.FindAllString(text, -1) }

func parseToken(token string) (chat, n int, ok bool) {
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return 0, 0, false
	}
	chat, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, 0, false
	}
	n, err = strconv.Atoi(parts[2])
	return chat, n, err == nil
}
