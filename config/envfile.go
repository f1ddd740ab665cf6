package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// longestEnvFile is how many bytes an env file may have.
const longestEnvFile = 1 << 20

// envFileName is how problems of the env file itself are called.
const envFileName = "--env-file"

// readEnvFile reads and parses the file at path, and notes its problems.
func (l *loader) readEnvFile(path string) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		l.fail(envFileName, "cannot read "+quote(path)+": "+withoutPath(err).Error())
		return nil
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, longestEnvFile+1))
	if err == nil && len(content) > longestEnvFile {
		err = fmt.Errorf("it is longer than %d bytes", longestEnvFile)
	}
	if err != nil {
		l.fail(envFileName, "cannot read "+quote(path)+": "+withoutPath(err).Error())
		return nil
	}
	values, faults := parseEnvFile(string(content))
	for _, fault := range faults {
		l.fail(envFileName, quote(path)+" "+fault.Error())
	}
	return values
}

// parseEnvFile reads lines of KEY=VALUE. Empty lines and those that begin with
// # do not count; "export " before a key is passed over. A value is
//
//	plain             up to the line's end or a # after a blank, trimmed
//	'in single'       as it stands
//	"in double"       with \n, \r, \t, \", \\ and \$ as escapes
//
// What other programs read differently is refused rather than guessed at:
// variables in values ($NAME, except in single quotes), values of several
// lines, text after a closing quote, a key that comes twice. The faults name
// lines and keys, never values. Values of lines without fault are returned.
func parseEnvFile(content string) (map[string]string, []error) {
	values := map[string]string{}
	var faults []error
	content = strings.TrimPrefix(content, "\ufeff")
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, err := parseEnvLine(line)
		if _, twice := values[key]; err == nil && twice {
			err = fmt.Errorf("%s is set a second time", key)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("line %d: %w", number, err))
			continue
		}
		values[key] = value
	}
	return values, faults
}

var envKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseEnvLine reads one trimmed line that is neither empty nor a comment.
func parseEnvLine(line string) (key, value string, err error) {
	if rest, ok := strings.CutPrefix(line, "export "); ok {
		line = strings.TrimSpace(rest)
	}
	key, raw, ok := strings.Cut(line, "=")
	key = strings.TrimSpace(key)
	if !ok || !envKey.MatchString(key) {
		return "", "", errors.New("not of the form KEY=VALUE")
	}
	value, err = parseEnvValue(strings.TrimSpace(raw))
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", key, err)
	}
	return key, value, nil
}

func parseEnvValue(raw string) (string, error) {
	switch {
	case strings.HasPrefix(raw, "'"):
		value, rest, closed := strings.Cut(raw[1:], "'")
		if !closed {
			return "", errors.New("the quote is not closed on the line")
		}
		return value, nothingBut(rest)
	case strings.HasPrefix(raw, `"`):
		return parseDoubleQuoted(raw[1:])
	}
	if strings.HasPrefix(raw, "#") {
		return "", nil
	}
	for _, comment := range []string{" #", "\t#"} {
		raw, _, _ = strings.Cut(raw, comment)
	}
	if strings.Contains(raw, "$") {
		return "", errVariable
	}
	return strings.TrimSpace(raw), nil
}

var errVariable = errors.New("variables are not replaced in values; put it in single quotes if the $ is meant")

// parseDoubleQuoted reads what follows an opening quote.
func parseDoubleQuoted(raw string) (string, error) {
	escapes := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '$': '$'}
	var value strings.Builder
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return value.String(), nothingBut(raw[i+1:])
		case '$':
			return "", errVariable
		case '\\':
			i++
			if i == len(raw) {
				return "", errors.New("the quote is not closed on the line")
			}
			plain, known := escapes[raw[i]]
			if !known {
				return "", errors.New(`unknown escape: there are \n, \r, \t, \", \\ and \$`)
			}
			value.WriteByte(plain)
		default:
			value.WriteByte(raw[i])
		}
	}
	return "", errors.New("the quote is not closed on the line")
}

// nothingBut returns an error unless rest, after a closing quote, is blank or
// a comment.
func nothingBut(rest string) error {
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return errors.New("there is text after the closing quote")
	}
	return nil
}
