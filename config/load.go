package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"

	"tgbridge/internal/secret"
)

// Options says where to read from. The zero value reads the process's
// environment alone.
type Options struct {
	// Environ has KEY=VALUE strings as of os.Environ; nil means os.Environ().
	Environ []string
	// Flags has the values of the flags that were given, by the name of their
	// variable (Variable.Name). An empty value sets the default again.
	Flags map[string]string
	// EnvFile is the path of an env file; empty: none is read.
	EnvFile string
	// Member says that the process is to be a member: the token is required,
	// and settings that leave nobody to serve are worth a warning.
	Member bool
}

// Load reads, completes and checks the configuration. Its error is an *Error
// with all that is wrong; the Config is then of no use.
func Load(o Options) (Config, error) {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	l := &loader{options: o, table: Variables(), given: map[string]given{}}
	l.environ = env.ToMap(o.Environ)
	l.collect()
	l.readTokenFile()
	l.parse()
	l.complete()
	l.check()
	l.warn()
	l.recordSources()
	if len(l.problems) > 0 {
		return Config{}, l.failure()
	}
	return l.config, nil
}

// given is a value as it was given, and by what.
type given struct {
	value  string
	source Source
}

// loader holds the state of one Load.
type loader struct {
	options  Options
	table    []Variable
	environ  map[string]string // the process's
	file     map[string]string // the env file's
	given    map[string]given  // by variable; absent: not set
	config   Config
	problems []Problem
}

// collect merges the layers into given.
func (l *loader) collect() {
	if l.options.EnvFile != "" {
		l.file = l.readEnvFile(l.options.EnvFile)
	}
	for _, v := range l.table {
		if value, ok := l.options.Flags[v.Name]; ok {
			l.given[v.Name] = given{value, SourceFlag}
		} else if value := l.environ[v.Name]; value != "" {
			l.given[v.Name] = given{value, SourceEnvironment}
		} else if value := l.file[v.Name]; value != "" {
			l.given[v.Name] = given{value, SourceEnvFile}
		}
	}
}

// readTokenFile puts the content of the token's file in the token's place. A
// flag that names a file goes before a token in the environment, as flags do;
// else two ways to give the token are a mistake that must not be guessed at.
func (l *loader) readTokenFile() {
	file, ok := l.given[tokenVariable+fileSuffix]
	if !ok || file.value == "" {
		return
	}
	token, both := l.given[tokenVariable]
	if both && file.source != SourceFlag {
		l.fail(tokenVariable, fmt.Sprintf("set (%s) beside %s (%s): remove one of them",
			token.source, tokenVariable+fileSuffix, file.source))
		return
	}
	value, err := readSecret(file.value)
	if err != nil {
		l.fail(tokenVariable+fileSuffix, "cannot read "+quote(file.value)+": "+err.Error())
		return
	}
	l.given[tokenVariable] = given{value, SourceSecretFile}
}

// readSecret returns a file's content without one line end after it.
func readSecret(path string) (string, error) {
	const most = 4096
	f, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", withoutPath(err)
	}
	if len(content) > most {
		return "", fmt.Errorf("it is longer than %d bytes", most)
	}
	text, _ := strings.CutSuffix(string(content), "\n")
	text, _ = strings.CutSuffix(text, "\r")
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}

// withoutPath returns the reason alone: a path may be a token put into the
// wrong variable.
func withoutPath(err error) error {
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// parse fills the Config from what was given and from the defaults.
func (l *loader) parse() {
	values := map[string]string{}
	for name, g := range l.given {
		if name == tokenVariable {
			values[name] = g.value
		} else {
			values[name] = strings.TrimSpace(g.value)
		}
	}
	err := env.ParseWithOptions(&l.config, env.Options{Environment: values, FuncMap: parsers()})
	var all env.AggregateError
	if err == nil || !errors.As(err, &all) {
		return
	}
	for _, err := range all.Errors {
		var fault env.ParseError
		if !errors.As(err, &fault) {
			l.fail("", err.Error())
			continue
		}
		at := slices.IndexFunc(l.table, func(v Variable) bool { return v.field == fault.Name })
		l.fail(l.table[at].Name, fault.Err.Error())
	}
}

// fail notes what is wrong with a variable.
func (l *loader) fail(variable, what string) {
	p := Problem{Variable: variable, Source: l.given[variable].source, What: what}
	if v := l.row(variable); v >= 0 {
		p.Example = l.table[v].Example
	}
	l.problems = append(l.problems, p)
}

// failed reports whether one of the variables has a problem already, so that
// what depends on it need not be checked.
func (l *loader) failed(variables ...string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool {
		return slices.Contains(variables, p.Variable)
	})
}

// row returns the index of a variable in the table, or -1.
func (l *loader) row(variable string) int {
	return slices.IndexFunc(l.table, func(v Variable) bool { return v.Name == variable })
}

// failure returns the problems in the table's order, with the token cut out
// of whatever it was put into.
func (l *loader) failure() *Error {
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Compare(l.row(a.Variable), l.row(b.Variable))
	})
	token := secret.New(strings.TrimSpace(l.given[tokenVariable].value))
	for _, private := range PrivateParts(token) {
		for i, p := range l.problems {
			l.problems[i].What = strings.ReplaceAll(p.What, private, secret.New(private).String())
		}
	}
	return &Error{Problems: l.problems}
}

// recordSources lists the settings that are not at their defaults, and what
// the environment of commands needs beside this process's own.
func (l *loader) recordSources() {
	for _, v := range l.table {
		g, ok := l.given[v.Name]
		if !ok {
			continue
		}
		if g.value != "" && strings.TrimSpace(g.value) != v.Default {
			l.config.Sources = append(l.config.Sources, Setting{Variable: v.Name, Source: g.source})
		}
		apart := v.Name == stateDirVariable || strings.HasPrefix(v.Name, tokenVariable)
		if !apart && (g.source == SourceFlag || g.source == SourceEnvFile) {
			l.config.passedOn = append(l.config.passedOn, v.Name+"="+g.value)
		}
	}
}
