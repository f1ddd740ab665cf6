package tgbridge_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTestsThatExist holds docs/ARCHITECTURE.md to the tests that it
// names, package.TestName.
func TestDocsNameTestsThatExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(readDoc(t, "docs/ARCHITECTURE.md"), -1)
	if len(named) == 0 {
		t.Fatal("no test is named")
	}
	for _, n := range named {
		if pkg, test := n[1], n[2]; !hasTest(t, pkg, test) {
			t.Errorf("there is no test %s in package %s", test, pkg)
		}
	}
}

func hasTest(t *testing.T, pkg, test string) bool {
	t.Helper()
	for _, folder := range []string{pkg, "internal/" + pkg} {
		files, err := filepath.Glob(folder + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.Contains(readDoc(t, file), "\nfunc "+test+"(") {
				return true
			}
		}
	}
	return false
}

// TestDocsJournalLines checks the checksums of the journal's lines that
// docs/FORMATS.md shows.
func TestDocsJournalLines(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^([0-9a-f]{8}) (\{.*\})$`).FindAllStringSubmatch(readDoc(t, "docs/FORMATS.md"), -1)
	if len(lines) == 0 {
		t.Fatal("no line is shown")
	}
	for _, line := range lines {
		sum := crc32.Checksum([]byte(line[2]), crc32.MakeTable(crc32.Castagnoli))
		if want := fmt.Sprintf("%08x", sum); line[1] != want {
			t.Errorf("checksum %s, want %s: %s", line[1], want, line[2])
		}
	}
}

func readDoc(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
