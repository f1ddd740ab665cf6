package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tgbridge/config"
)

// openTerminal returns both ends of a pseudoterminal that is so many columns
// wide.
func openTerminal(t *testing.T, columns uint16) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}

// TestTerminal: who gets escapes and tables drawn in place, and who gets lines.
func TestTerminal(t *testing.T) {
	tests := []struct {
		name           string
		columns        uint16
		term           string
		escapes, table bool
	}{
		{"usual", 80, "xterm-256color", true, true},
		{"just wide enough", 60, "xterm", true, true},
		{"narrow", 59, "xterm", true, false},
		{"width not known", 0, "xterm", true, true},
		{"dumb", 80, "dumb", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			screen, terminal := openTerminal(t, tt.columns)
			c := newCLI(strings.NewReader(""), terminal, terminal, []string{"TERM=" + tt.term}, nil)
			if c.stdoutEscapes != tt.escapes || c.drawsTables() != tt.table || c.columns() != int(tt.columns) {
				t.Errorf("escapes %v, tables %v, %d columns; want %v, %v, %d",
					c.stdoutEscapes, c.drawsTables(), c.columns(), tt.escapes, tt.table, tt.columns)
			}
			log := c.logger(config.Config{LogLevel: config.LogInfo, LogFormat: config.LogAuto})
			log.Info().Msg("a line")
			text := make([]byte, 4096)
			n, err := screen.Read(text)
			if err != nil {
				t.Fatal(err)
			}
			if line := string(text[:n]); strings.Contains(line, "\x1b") != tt.escapes || strings.Contains(line, "{") {
				t.Errorf("logged %q", line)
			}
		})
	}
	c := newCLI(strings.NewReader(""), io.Discard, io.Discard, []string{"TERM=xterm"}, nil)
	if c.stdoutEscapes || c.drawsTables() || c.columns() != 0 {
		t.Error("what is no terminal gets escapes")
	}
}
