//go:build unix

package lock_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/lock"
)

// clocks are what the wall clocks of those who wrote the files may have shown.
var clocks = map[string]time.Time{
	"at the epoch":    time.UnixMilli(0),
	"before it":       time.UnixMilli(-1),
	"an hour behind":  time.Now().Add(-time.Hour),
	"10 min ahead":    time.Now().Add(10 * time.Minute),
	"in 2262":         time.UnixMilli(9_214_646_400_000),
	"with the others": time.Now(),
}

// setTimes sets the times of all files to what a clock shows.
func setTimes(t *testing.T, dir string, clock time.Time) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, clock, clock)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestF40Times: no time that stands in a file, or in what the system says of it,
// makes an owner's lease or guard any more or less worth.
func TestF40Times(t *testing.T) {
	tests := []struct {
		owner string
		lease time.Duration // after which it is taken
		guard time.Duration
	}{
		{"dead", 0, 0},
		{"hung", testStaleAfter, testStaleAfter},
		{"alive", -1, 2 * testStaleAfter},
		{"nobody", 0, 2 * testStaleAfter},
	}
	for name, clock := range clocks {
		for _, tt := range tests {
			t.Run("F40 "+tt.owner+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := newState(t)
					m := openMember(t, dir)
					owners := map[string]*lock.Member{"dead": deadMember(t, dir), "hung": openMember(t, dir), "alive": openMember(t, dir)}
					ctx, cancel := context.WithCancel(ctx)
					var beating sync.WaitGroup
					beating.Go(func() { _ = owners["alive"].Run(ctx, func() bool { return true }) })
					defer beating.Wait()
					defer cancel()
					ms := clock.UnixMilli()
					lease, guard := fmt.Sprintf(`{%q:{"leaderEpoch":5,"releasedMs":%d}}`, key, ms), fmt.Sprintf(`{"acquiredAtMs":%d}`, ms)
					if owner := owners[tt.owner]; owner != nil {
						lease = entryJSON(t, owner, func(e map[string]any) {
							e["pid"], e["heartbeatMs"], e["acquiredMs"], e["runtimeGeneration"] = 1, ms, ms, ms
						})
						guard = strings.Replace(guardOwner(t, owner, genA), `"acquiredAtMs":1`, fmt.Sprintf(`"acquiredAtMs":%d`, ms), 1)
					}

					makeGuard(t, dir, map[string]string{"owner." + genA + ".json": guard, "next." + genA + ".json": ""})
					setTimes(t, dir, clock)
					took, err := writeShared(ctx, lock.TransactionOptions{Dir: dir, File: "f", Member: m, StaleAfter: testStaleAfter})
					if err != nil || took < tt.guard || took > tt.guard+100*time.Millisecond {
						t.Errorf("guard taken after %v, %v; want %v", took, err, tt.guard)
					}

					writeFile(t, registryOf(dir), lease)
					setTimes(t, dir, clock)
					l, began := newLock(t, dir, m), time.Now()
					for {
						res, err := l.Acquire(ctx, lock.Plain, nil)
						took := time.Since(began)
						if err != nil {
							t.Fatal(err)
						}
						if res.Acquired {
							if tt.lease < 0 || took < tt.lease || took > tt.lease+testHeartbeat {
								t.Errorf("lease taken after %v, want %v", took, tt.lease)
							}
							return
						}
						if took > 5*testStaleAfter {
							if tt.lease >= 0 {
								t.Errorf("lease not taken for %v", took)
							}
							return
						}
						time.Sleep(testHeartbeat / 4)
					}
				})
			})
		}
	}
}

// TestF40OwnLease: the owner's own lease stays its own under any clock.
func TestF40OwnLease(t *testing.T) {
	for name, clock := range clocks {
		t.Run("F40 "+name, func(t *testing.T) {
			dir := newState(t)
			l := newLock(t, dir, openMember(t, dir))
			mustAcquire(t, l)
			e, err := l.Current()
			if err != nil {
				t.Fatal(err)
			}
			content := readFile(t, registryOf(dir))
			for _, field := range []string{"heartbeatMs", "acquiredMs"} {
				content = strings.Replace(content, fmt.Sprintf("%q:%d", field, e.AcquiredMs), fmt.Sprintf("%q:%d", field, clock.UnixMilli()), 1)
			}
			writeFile(t, registryOf(dir), content)
			setTimes(t, dir, clock)
			if owns, err := l.Refresh(ctx); !owns || err != nil {
				t.Error("refresh:", owns, err)
			}
			mustOwn(t, l, true)
			if readFile(t, registryOf(dir)) != content {
				t.Error("written again")
			}
			if _, released, err := l.Release(ctx); !released || err != nil {
				t.Error("release:", released, err)
			}
		})
	}
}

// TestF40WallClock lists every place where the package reads a wall clock or a
// file's time. All else compares instants that the process itself took, which
// Go does on the monotonic clock, whatever the wall clock does meanwhile; what
// is added here has to decide nothing either.
func TestF40WallClock(t *testing.T) {
	want := map[string]string{
		"newGeneration":         "UnixMilli",  // rises within the process, also when the clock falls
		"Lock.newEntry":         "UnixMilli",  // for people
		"transactor.stage":      "UnixMilli",  // for people
		"Lock.Release":          "UnixMilli",  // for people
		"TakeFrom":              "UnixMilli",  // for people
		"Lock.copyDamaged":      "UTC Format", // a name
		"Observer.removeMember": "ModTime",    // how long a dead member's file is kept
	}
	got := map[string]string{}
	wall := map[string]bool{
		"Unix": true, "UnixMilli": true, "UnixMicro": true, "UnixNano": true, "ModTime": true,
		"Format": true, "AppendFormat": true, "UTC": true, "Local": true, "In": true, "Date": true, "Clock": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && wall[s.Sel.Name] {
					name := nameOf(fn)
					got[name] = strings.TrimSpace(s.Sel.Name + " " + got[name])
				}
				return true
			})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	at := fn.Recv.List[0].Type
	if star, ok := at.(*ast.StarExpr); ok {
		at = star.X
	}
	return fmt.Sprint(at, ".", fn.Name)
}
