package journal_test

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A loss is what a crash takes that was not brought to disk: contents, names,
// both, or nothing (a killed process).
type loss struct {
	name        string
	data, names bool
}

var losses = []loss{{"nothing", false, false}, {"contents", true, false}, {"names", false, true}, {"both", true, true}}

// A node is a file or a directory as the disk has it and as programs see it.
type node struct {
	dir      bool
	file     *os.File // kept open, so that its identity is not used again
	durable  []byte
	children map[string]*node // on disk
}

// A shadow knows what is on disk of a tree that one process changes: contents
// after the fsync of a file, names after that of their directory.
type shadow struct {
	root     string
	top      *node
	nodes    []*node
	op, path string // the operation that observe was told of last
}

func newShadow(t *testing.T, root string) *shadow {
	s := &shadow{root: root}
	t.Cleanup(func() {
		for _, n := range s.nodes {
			_ = n.file.Close()
		}
	})
	s.top = s.find(root)
	return s
}

// find returns the node that stands at path now.
func (s *shadow) find(path string) *node {
	f, err := os.Open(path)
	must(err)
	info, err := f.Stat()
	must(err)
	for _, n := range s.nodes {
		if known, err := n.file.Stat(); err == nil && os.SameFile(known, info) {
			_ = f.Close()
			return n
		}
	}
	n := &node{dir: info.IsDir(), file: f, children: map[string]*node{}}
	s.nodes = append(s.nodes, n)
	return n
}

// observe is told of an operation before it is made: by then the one before is.
func (s *shadow) observe(op, path string) {
	switch s.op {
	case "sync":
		n := s.find(s.path)
		n.durable = s.contents(n)
	case "syncdir":
		n := s.find(s.path)
		n.children = s.names(s.path)
	case "create", "mkdir":
		s.find(s.path)
	}
	s.op, s.path = op, path
}

func (s *shadow) names(path string) map[string]*node {
	entries, err := os.ReadDir(path)
	must(err)
	children := map[string]*node{}
	for _, e := range entries {
		children[e.Name()] = s.find(filepath.Join(path, e.Name()))
	}
	return children
}

func (s *shadow) contents(n *node) []byte {
	data, err := io.ReadAll(io.NewSectionReader(n.file, 0, 1<<30))
	must(err)
	return data
}

// copy makes in to what a crash leaves.
func (s *shadow) copy(to string, l loss) string {
	s.put(s.top, s.current(s.root), to, l)
	return to
}

// current returns the names below path as programs see them.
func (s *shadow) current(path string) map[string]*node {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	return s.names(path)
}

func (s *shadow) put(n *node, current map[string]*node, to string, l loss) {
	children := maps.Clone(n.children)
	if !l.names {
		children = current
	}
	for name, child := range children {
		path := filepath.Join(to, name)
		if child.dir {
			must(os.Mkdir(path, 0o700))
			s.put(child, s.childNames(child), path, l)
			continue
		}
		data := child.durable
		if !l.data {
			data = s.contents(child)
		}
		must(os.WriteFile(path, data, 0o600))
	}
}

// childNames returns the names in a directory wherever it stands now.
func (s *shadow) childNames(n *node) map[string]*node {
	info, err := n.file.Stat()
	must(err)
	var found map[string]*node
	err = filepath.WalkDir(s.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if here, err := d.Info(); err == nil && os.SameFile(here, info) {
			found = s.names(path)
		}
		return nil
	})
	must(err)
	return found
}

// must is for what runs on the goroutine of a journal, where a test cannot be
// ended.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// content returns the names and contents below root.
func content(root string) string {
	var b strings.Builder
	must(filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		var data []byte
		if err == nil && !d.IsDir() {
			data, err = os.ReadFile(path)
		}
		fmt.Fprintf(&b, "%s %q\n", strings.TrimPrefix(path, root), data)
		return err
	}))
	return b.String()
}

// copyTree returns a copy of the files below from.
func copyTree(t testing.TB, from string) string {
	t.Helper()
	to := memDir(t)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// memDir is t.TempDir in memory where the system has that: for the many states
// that are read once.
func memDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "journal-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
