package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/config"
)

var update = flag.Bool("update", false, "write the table of settings anew where documentation has it")

const (
	docFile    = "../docs/CONFIGURATION.md"
	readmeFile = "../README.md"

	settingsBegin = "<!-- settings -->\n"
	settingsEnd   = "<!-- /settings -->\n"
)

const docHead = `# Configuration

<!-- Written by "go test ./config -run TestDoc -update" from the table in config. -->

A flag goes before the environment, the environment before the file that
` + "`--env-file PATH`" + ` names, and that before the default. An empty variable counts as
not set. An env file is only read when it is named; its lines are
` + "`KEY=VALUE`, `KEY='as it stands'` or `KEY=\"with \\n escapes\"`" + `, comments begin with
` + "`#`" + `. Durations have units: ` + "`500ms`, `30s`, `10m`" + `.

All faults are reported at once, each with the variable, what is wrong and an
example; the process then ends with exit code 2. The line that each member logs
at its start tells where each setting that is not at its default came from.
Variables that begin with ` + "`TGBRIDGE_`" + ` and are none of these are named in a
warning.

Commands that ` + "`tgbridge exec`" + ` runs get the member's environment without the
token, and what was set by flag or env file as variables.

`

// TestDoc checks that the documentation has the table of settings as it is.
func TestDoc(t *testing.T) {
	want := map[string]string{docFile: docHead + config.Doc(), readmeFile: readme(t)}
	for _, path := range []string{docFile, readmeFile} {
		if *update {
			if err := os.WriteFile(path, []byte(want[path]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want[path], read(t, path)); diff != "" {
			t.Errorf("%s is old: run go test ./config -run TestDoc -update\n(-want +got)\n%s", path, diff)
		}
	}
}

// readme returns README with the present table between its marks.
func readme(t *testing.T) string {
	t.Helper()
	before, rest, begun := strings.Cut(read(t, readmeFile), settingsBegin)
	_, after, ended := strings.Cut(rest, settingsEnd)
	if !begun || !ended {
		t.Fatalf("%s has no lines %q and %q around the table of settings", readmeFile, settingsBegin, settingsEnd)
	}
	return before + settingsBegin + config.Doc() + settingsEnd + after
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestTable checks that each setting has what its documentation, its flag and
// its errors need.
func TestTable(t *testing.T) {
	flags := map[string]string{}
	for _, v := range config.Variables() {
		if v.Shown == "" && v.Name != "TELEGRAM_BOT_TOKEN" && v.Name != "TELEGRAM_BOT_TOKEN_FILE" {
			t.Errorf("%s: no default", v.Name)
		}
		if v.Example == "" || v.Help == "" {
			t.Errorf("%s: no example or no help", v.Name)
		}
		if other, double := flags[v.Flag]; double {
			t.Errorf("%s and %s have the same flag", v.Name, other)
		}
		flags[v.Flag] = v.Name
	}
	for flag, variable := range map[string]string{
		"": "TELEGRAM_BOT_TOKEN", "bot-token-file": "TELEGRAM_BOT_TOKEN_FILE", "api-url": "TELEGRAM_API_URL",
		"state-dir": "TGBRIDGE_STATE_DIR", "allowed-users": "TGBRIDGE_ALLOWED_USERS", "log-level": "TGBRIDGE_LOG_LEVEL",
	} {
		if flags[flag] != variable {
			t.Errorf("--%s is for %q, want %s", flag, flags[flag], variable)
		}
	}
}
