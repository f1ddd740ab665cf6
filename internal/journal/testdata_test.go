package journal_test

import (
	"os"
	"strings"
	"testing"
)

// updateLines returns the lines of testdata/updates.jsonl, and some bodies that
// no line of JSON can hold as they are.
func updateLines(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/updates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	return append(lines, "{\n\"update_id\": 1}\r\n", "\xff\xfe", "null", "{", " 1 ", "\x00")
}
