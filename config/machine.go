package config

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestName is how many characters a member's name may have.
const longestName = 64

// complete fills in the defaults that depend on the machine.
func (l *loader) complete() {
	c := &l.config
	if c.StateDir == "" {
		c.StateDir = defaultStateDir(l.environ)
		l.require(c.StateDir != "", "TGBRIDGE_STATE_DIR",
			"not set, and neither XDG_STATE_HOME nor HOME says where to keep state")
		l.require(filepath.IsAbs(c.StateDir), "TGBRIDGE_STATE_DIR",
			"not set, and HOME ("+quote(home(l.environ))+") is no absolute path")
	}
	if c.Name == "" {
		dir, _ := os.Getwd()     // without it the host's name serves
		host, _ := os.Hostname() // without it the folder's
		c.Name = defaultName(dir, host, inContainer("/", l.environ))
	}
	if len(c.AllowedUpdates) == 0 {
		c.AllowedUpdates = UpdateKinds()
	}
}

// defaultStateDir follows the XDG base directory specification, by which a
// relative XDG_STATE_HOME does not count. Empty: there is no home.
func defaultStateDir(environ map[string]string) string {
	if dir := environ["XDG_STATE_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "tgbridge")
	}
	if home := home(environ); home != "" {
		return filepath.Join(home, ".local", "state", "tgbridge")
	}
	return ""
}

func home(environ map[string]string) string {
	if home := environ["HOME"]; home != "" || runtime.GOOS != "windows" {
		return home
	}
	return environ["USERPROFILE"]
}

// defaultName returns the base name of the working directory, or in a
// container, where all have the same one, the host's name, as one that may be
// a name.
func defaultName(dir, host string, container bool) string {
	base := filepath.Base(dir)
	if container || dir == "" || base == string(filepath.Separator) {
		base = host
	}
	name := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '-'
		}
		return r
	}, base)
	if runes := []rune(name); len(runes) > longestName {
		name = string(runes[:longestName])
	}
	if name = strings.TrimSpace(name); name == "" {
		return "tgbridge"
	}
	return name
}

// containerGroups finds container engines in the paths of /proc/1/cgroup.
// With version 2 in a namespace of its own the path is "/" and tells nothing;
// the marks of the engines do.
var containerGroups = regexp.MustCompile(`docker|containerd|kubepods|libpod|lxc`)

// inContainer looks for the marks that container engines leave: files of
// Docker and Podman, the variable "container" of Podman and systemd-nspawn,
// Kubernetes' variable, and the control groups of the first process.
func inContainer(root string, environ map[string]string) bool {
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := os.Stat(filepath.Join(root, mark)); err == nil {
			return true
		}
	}
	if environ["container"] != "" || environ["KUBERNETES_SERVICE_HOST"] != "" {
		return true
	}
	groups, err := os.ReadFile(filepath.Join(root, "proc/1/cgroup"))
	return err == nil && containerGroups.Match(groups)
}
