package config

import (
	"slices"
	"strings"
)

// warn notes what is allowed but hardly meant.
func (l *loader) warn() {
	l.warnUnknown()
	l.warnKinds()
	if !l.options.Member {
		return
	}
	c := &l.config
	switch {
	case !c.AllowAll && len(c.AllowedUsers) == 0 && !l.failed("TGBRIDGE_ALLOWED_USERS", "TGBRIDGE_ALLOW_ALL"):
		c.warning("nobody may use the bot: set TGBRIDGE_ALLOWED_USERS to numeric user ids, or TGBRIDGE_ALLOW_ALL=true for a public bot")
	case c.AllowAll && len(c.AllowedUsers) > 0:
		c.warning("TGBRIDGE_ALLOW_ALL=true: everybody may use the bot, TGBRIDGE_ALLOWED_USERS has no effect")
	}
}

func (c *Config) warning(text string) { c.Warnings = append(c.Warnings, text) }

// warnUnknown names the variables that look like settings but are none, in
// one warning.
func (l *loader) warnUnknown() {
	known := slices.Clone(handlerVariables)
	for _, v := range l.table {
		known = append(known, v.Name)
	}
	var unknown []string
	for _, layer := range []map[string]string{l.environ, l.file} {
		for name := range layer {
			if strings.HasPrefix(name, "TGBRIDGE_") && !slices.Contains(known, name) {
				unknown = append(unknown, name)
			}
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	for i, name := range unknown {
		if near := nearest(name, known); near != "" {
			unknown[i] += " (meant " + near + "?)"
		}
	}
	l.config.warning("unknown variables have no effect: " + strings.Join(unknown, ", "))
}

// warnKinds names the kinds of updates that this version does not know: they
// may be newer than it, so they are asked for all the same.
func (l *loader) warnKinds() {
	known := UpdateKinds()
	for _, kind := range l.config.AllowedUpdates {
		if slices.Contains(known, kind) {
			continue
		}
		text := "TGBRIDGE_ALLOWED_UPDATES: " + quote(kind) + " is no kind of update that this version knows"
		if near := nearest(kind, known); near != "" {
			text += " (meant " + near + "?)"
		}
		l.config.warning(text)
	}
}

// nearest returns the known name that takes the fewest edits to make from
// name, if these are at most a third of it, else "".
func nearest(name string, known []string) string {
	best, fewest := "", len(name)/3+1
	for _, candidate := range known {
		if n := edits(name, candidate); n < fewest {
			best, fewest = candidate, n
		}
	}
	return best
}

// edits returns the Levenshtein distance: how many bytes to insert, remove or
// replace to make b from a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
