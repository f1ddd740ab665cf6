package main

import (
	"io"
	"os"
	"slices"

	"github.com/mattn/go-isatty"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// isDumb reports whether the environment says of the terminal that it does not
// understand escapes, as those inside of editors do.
func isDumb(environ []string) bool { return slices.Contains(environ, "TERM=dumb") }
