package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tgbridge/config"
)

func TestParseEnvFile(t *testing.T) {
	tests := []struct {
		name, content string
		want          map[string]string
		faults        []string
	}{
		{name: "plain", content: "A=1\nB = two words \n", want: map[string]string{"A": "1", "B": "two words"}},
		{name: "nothing", content: "\n# comment\n \t\n", want: map[string]string{}},
		{name: "mark and CRLF", content: "\ufeffA=1\r\nB=2\r\n", want: map[string]string{"A": "1", "B": "2"}},
		{name: "no line end", content: "A=1", want: map[string]string{"A": "1"}},
		{name: "export", content: "export A=1\n", want: map[string]string{"A": "1"}},
		{name: "comments after values", content: "A=1 # one\nB=1#2\nC='x' # x\nD=# nothing\n", want: map[string]string{"A": "1", "B": "1#2", "C": "x", "D": ""}},
		{name: "empty values", content: "A=\nB=''\nC=\"\"\n", want: map[string]string{"A": "", "B": "", "C": ""}},
		{name: "single quotes", content: `A='$x \n "y" # z'`, want: map[string]string{"A": `$x \n "y" # z`}},
		{name: "double quotes", content: `A="a\n\t\"\\\$ # b"`, want: map[string]string{"A": "a\n\t\"\\$ # b"}},
		{name: "an equals sign in the value", content: "A=b=c\n", want: map[string]string{"A": "b=c"}},

		{name: "no equals sign", content: "A\nB=1\n", want: map[string]string{"B": "1"}, faults: []string{"line 1: not of the form KEY=VALUE"}},
		{name: "key", content: "1A=x\nA-B=y\n=z\n", want: map[string]string{}, faults: []string{
			"line 1: not of the form KEY=VALUE", "line 2: not of the form KEY=VALUE", "line 3: not of the form KEY=VALUE"}},
		{name: "twice", content: "A=1\nA=2\n", want: map[string]string{"A": "1"}, faults: []string{"line 2: A is set a second time"}},
		{name: "variables", content: "A=$B\nC=\"${D}\"\n", want: map[string]string{}, faults: []string{
			"line 1: A: variables are not replaced in values; put it in single quotes if the $ is meant",
			"line 2: C: variables are not replaced in values; put it in single quotes if the $ is meant"}},
		{name: "several lines", content: "A='1\n2'\n", want: map[string]string{}, faults: []string{
			"line 1: A: the quote is not closed on the line", "line 2: not of the form KEY=VALUE"}},
		{name: "open double quotes", content: "A=\"1\nB=\"2\\\n", want: map[string]string{}, faults: []string{
			"line 1: A: the quote is not closed on the line", "line 2: B: the quote is not closed on the line"}},
		{name: "text after quotes", content: "A='1'2\n", want: map[string]string{}, faults: []string{"line 1: A: there is text after the closing quote"}},
		{name: "escape", content: `A="\x"`, want: map[string]string{}, faults: []string{`line 1: A: unknown escape: there are \n, \r, \t, \", \\ and \$`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, errs := config.ParseEnvFile(tt.content)
			var faults []string
			for _, err := range errs {
				faults = append(faults, err.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("values (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.faults, faults); diff != "" {
				t.Errorf("faults (-want +got)\n%s", diff)
			}
		})
	}
}

func TestEnvFileFaults(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, dir, "bad", "A='\nTGBRIDGE_ATTEMPTS=0\n")
	missing := filepath.Join(dir, "missing")
	tests := []struct {
		name, path string
		want       []string
	}{
		{"missing", missing, []string{fmt.Sprintf("--env-file: cannot read %q: no such file or directory", missing)}},
		{"bad", bad, []string{
			fmt.Sprintf("--env-file: %q line 1: A: the quote is not closed on the line", bad),
			"TGBRIDGE_ATTEMPTS (in the env file): 0 is less than 1; for example TGBRIDGE_ATTEMPTS=3",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(config.Options{Environ: environ(), EnvFile: tt.path})
			if diff := cmp.Diff(tt.want, faults(t, err)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// FuzzParseEnvFile checks that no input panics, that keys are keys, and that
// what was read comes back when it is written in double quotes.
func FuzzParseEnvFile(f *testing.F) {
	for _, seed := range []string{"A=1\n", "export A='x'\n", `A="\n"`, "A=1 # c\n", "\ufeffA=\"", "A=\\", "=\n$", "A=\x00"} {
		f.Add(seed)
	}
	escape := strings.NewReplacer("\\", `\\`, `"`, `\"`, "$", `\$`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	f.Fuzz(func(t *testing.T, content string) {
		values, faults := config.ParseEnvFile(content)
		if len(values)+len(faults) > strings.Count(content, "\n")+1 {
			t.Fatalf("%d values and %d faults in %q", len(values), len(faults), content)
		}
		for key, value := range values {
			again, faults := config.ParseEnvFile(key + `="` + escape.Replace(value) + `"`)
			if len(faults) > 0 || again[key] != value {
				t.Fatalf("%s=%q came back as %q, faults %v", key, value, again[key], faults)
			}
		}
	})
}
