// Package tgbridge_test checks the rules of the house that no compiler knows:
// which package may import which, that each says what it is, and that only a
// main.go ends the process.
package tgbridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "tgbridge/"

// mayImport lists, for each package of the module, the packages of the module
// that it may import. Imports point downwards: a row may only name packages of
// rows above it. Tests may import what they like.
var mayImport = []struct {
	pkg     string
	imports []string
}{
	{"internal/secret", nil},
	{"internal/rawjson", nil},
	{"internal/command", nil},
	{"internal/logwriter", nil},
	{"config", []string{"internal/secret"}},
	{"lock", []string{"internal/secret", "internal/rawjson"}},
	{"bus", []string{"internal/secret", "internal/rawjson"}},
	{"internal/journal", []string{"internal/secret", "internal/rawjson"}},
	{"internal/telegram", []string{"internal/secret", "internal/rawjson"}},
	{"internal/botapitest", []string{"internal/secret", "internal/rawjson"}},
	{"polling", []string{"lock", "internal/rawjson"}},
	{"bot", []string{
		"polling", "bus", "lock", "internal/journal", "internal/telegram",
		"internal/secret", "internal/rawjson",
	}},
	{"internal/cluster", []string{"bot", "lock", "bus", "internal/botapitest", "internal/secret"}},
	{"cmd/botapitest", []string{"internal/botapitest"}},
	{"cmd/chaos", []string{"internal/cluster", "internal/botapitest", "bot", "lock", "internal/secret"}},
	{"bench/bare", []string{"internal/botapitest"}},
	{"bench", []string{"bot", "lock", "bus", "internal/botapitest", "internal/secret"}},
	{"cmd/tgbridge", []string{
		"bot", "config", "lock", "bus", "polling", "internal/cluster", "internal/botapitest",
		"internal/command", "internal/logwriter", "internal/secret", "internal/rawjson",
	}},
}

// source is one Go file of the module that is no test, on any platform.
type source struct {
	path string // with slashes, from the module's root
	pkg  string // the folder
	file *ast.File
	fset *token.FileSet
}

func TestImportsPointDownwards(t *testing.T) {
	allowed := map[string][]string{}
	for _, row := range mayImport {
		for _, dep := range row.imports {
			if _, above := allowed[dep]; !above {
				t.Errorf("the row of %s names %s, which has no row above it", row.pkg, dep)
			}
		}
		allowed[row.pkg] = row.imports
	}
	for _, s := range sources(t) {
		deps, known := allowed[s.pkg]
		if !known {
			t.Errorf("%s: package %s has no row in mayImport", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			dep, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			own, inModule := strings.CutPrefix(dep, module)
			if inModule && !slices.Contains(deps, own) {
				t.Errorf("%s imports %s: not allowed for %s", s.path, own, s.pkg)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]int{}
	for _, s := range sources(t) {
		documented[s.pkg] += 0
		if s.file.Doc != nil {
			documented[s.pkg]++
		}
	}
	for pkg, docs := range documented {
		if docs != 1 {
			t.Errorf("%s has %d package comments, want 1", pkg, docs)
		}
	}
}

// TestOnlyMainExits holds F53: whoever fails returns an error, so that every
// clean-up on the way runs.
func TestOnlyMainExits(t *testing.T) {
	for _, s := range sources(t) {
		if s.file.Name.Name == "main" && path.Base(s.path) == "main.go" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && endsProcess(sel) {
				t.Errorf("%s: %s ends the process", s.fset.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// endsProcess reports whether sel is os.Exit, the log package's Fatal family,
// or zerolog's logger.Fatal(), which is known by the call chained to it.
func endsProcess(sel *ast.SelectorExpr) bool {
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name == "os" && sel.Sel.Name == "Exit" ||
			x.Name == "syscall" && sel.Sel.Name == "Exit" ||
			x.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal")
	case *ast.CallExpr:
		called, ok := x.Fun.(*ast.SelectorExpr)
		return ok && called.Sel.Name == "Fatal"
	}
	return false
}

// sources parses the module's files, whatever platform they are for, without
// tests and without nested modules.
func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, entry)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		found = append(found, source{path: slashed, pkg: path.Dir(slashed), file: file, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no Go files found: the test must run in the module's root")
	}
	return found
}

// enter returns fs.SkipDir for folders that hold no package of this module.
func enter(name string, entry fs.DirEntry) error {
	if name == "." {
		return nil
	}
	if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}
