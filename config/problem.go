package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Error is everything that is wrong with a configuration.
type Error struct {
	Problems []Problem // in the order of the table; at least one
}

// Problem is one thing that is wrong.
type Problem struct {
	Variable string // or "--env-file"
	Source   Source // empty: the variable is not set
	What     string // says the value, unless it is a secret's
	Example  string // a value that would do; may be empty
}

// Error returns one line for each problem below a heading.
func (e *Error) Error() string {
	var b strings.Builder
	if len(e.Problems) == 1 {
		b.WriteString("the configuration has a fault:")
	} else {
		fmt.Fprintf(&b, "the configuration has %d faults:", len(e.Problems))
	}
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// String returns the problem on one line.
func (p Problem) String() string {
	line := p.Variable
	switch p.Source {
	case SourceFlag:
		line += " (given as --" + flagName(p.Variable) + ")"
	case SourceEnvFile:
		line += " (in the env file)"
	}
	line += ": " + p.What
	if p.Example != "" {
		line += "; for example " + p.Variable + "=" + p.Example
	}
	return line
}

// tokenShape finds what may be a bot's token, in whatever variable it is.
var tokenShape = regexp.MustCompile(`[0-9]+:[A-Za-z0-9_-]{20,}`)

// quote returns a value as errors show it: quoted, cut if long, and without
// anything that looks like a token.
func quote(value string) string {
	const most = 80
	value = tokenShape.ReplaceAllString(value, "[secret]")
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "..."
	}
	return strconv.Quote(value)
}
