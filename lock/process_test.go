//go:build linux

package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgbridge/lock"
)

func startAll(t *testing.T, n int, helper string, a helperArgs) []*process {
	t.Helper()
	ps := make([]*process, n)
	for i := range ps {
		a.Name = fmt.Sprintf("m%d", i)
		ps[i] = start(t, helper, a)
	}
	for _, p := range ps {
		if line := p.hear(); !strings.HasPrefix(line, "ready ") {
			t.Fatal(line)
		}
	}
	return ps
}

// race lets all acquire at once and returns the winners and the term.
func race(t *testing.T, ps []*process) (won []*process, term string) {
	t.Helper()
	for _, p := range ps {
		p.tell("acquire")
	}
	for _, p := range ps {
		line := p.hear()
		switch {
		case strings.HasPrefix(line, "acquired "):
			won = append(won, p)
			term = strings.TrimPrefix(line, "acquired ")
		case !strings.HasPrefix(line, "refused active elsewhere"):
			t.Errorf("a loser says %q", line)
		}
	}
	return won, term
}

func TestRaceForFreeLeaseOneWins(t *testing.T) {
	dir := newState(t)
	l := newLock(t, dir, openMember(t, dir))
	mustAcquire(t, l)
	ps := startAll(t, 8, "member", helperArgs{Dir: dir})
	for round := 1; round <= 5; round++ {
		var err error
		if round == 1 {
			_, _, err = l.Release(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		won, term := race(t, ps)
		if len(won) != 1 || term != fmt.Sprint(round+1) {
			t.Fatalf("round %d: %d won, term %s", round, len(won), term)
		}
		won[0].tell("release")
		won[0].expect("true <nil>")
	}
	noDebris(t, dir)
}

func TestRaceForStaleLeaseOneWins(t *testing.T) {
	dir := newState(t)
	owner := startAll(t, 1, "member", helperArgs{Dir: dir})[0]
	owner.tell("acquire")
	owner.expect("acquired 1")
	ps := startAll(t, 8, "member", helperArgs{Dir: dir})
	for term := 2; len(ps) > 4; term++ {
		owner.kill()
		won, got := race(t, ps)
		if len(won) != 1 || got != fmt.Sprint(term) {
			t.Fatalf("%d won, term %s, want one and %d", len(won), got, term)
		}
		owner = won[0]
		for i, p := range ps {
			if p == owner {
				ps = append(ps[:i:i], ps[i+1:]...)
				break
			}
		}
	}
}

func TestDifferentKeysLoseNoEntry(t *testing.T) {
	dir := newState(t)
	writeFile(t, filepath.Join(dir, "locks.json"), `{"other": {"a": 1.0}}`)
	var ps []*process
	for i := range 8 {
		ps = append(ps, start(t, "member", helperArgs{Dir: dir, Key: fmt.Sprintf("key%d", i)}))
	}
	for _, p := range ps {
		p.hear()
		p.tell("acquire")
	}
	for _, p := range ps {
		if line := p.hear(); !strings.HasPrefix(line, "acquired ") {
			t.Error(line)
		}
	}
	for _, p := range ps {
		p.tell("owns")
		p.expect("true <nil>")
	}
	doc := readFile(t, filepath.Join(dir, "locks.json"))
	if other, _ := lock.LookUp([]byte(doc), "other"); string(other) != `{"a": 1.0}` {
		t.Errorf("other program's entry: %s", other)
	}
}

func TestR11SharedFileLosesNoChange(t *testing.T) {
	dir := newState(t)
	ps := startAll(t, 5, "rewrite", helperArgs{Dir: dir, N: 40})
	for _, p := range ps {
		p.expect("done")
	}
	counts := map[string]int{}
	for line := range strings.Lines(readFile(t, filepath.Join(dir, "counters.json"))) {
		counts[strings.TrimSpace(line)]++
	}
	for i := range ps {
		if name := fmt.Sprintf("m%d", i); counts[name] != 40 {
			t.Errorf("%s: %d changes, want 40", name, counts[name])
		}
	}
	noDebris(t, dir)
}

// checkHistory reads a log of helpCycle: leaderships may not overlap, and terms
// must rise. A begin without an end is of a process that was killed.
func checkHistory(t *testing.T, path string) (terms int) {
	t.Helper()
	var last uint64
	open := ""
	for line := range strings.Lines(readFile(t, path)) {
		var what, who string
		var term uint64
		if _, err := fmt.Sscan(line, &what, &term, &who); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch {
		case what == "begin" && term == last && who == open: // its release had failed
		case what == "begin" && term <= last:
			t.Fatalf("term %d of %s after %d of %s", term, who, last, open)
		case what == "begin":
			last, open = term, who
			terms++
		case who != open || term != last:
			t.Fatalf("%q while %s leads under %d", line, open, last)
		}
	}
	return terms
}

// TestF34RewrittenByRename has ten processes contend for the lease, while
// another program's entry in the registry is rewritten 100 times, in long tests
// 1,000 times.
func TestF34RewrittenByRename(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	history := filepath.Join(t.TempDir(), "history")
	writeFile(t, history, "")
	ps := startAll(t, 10, "cycle", helperArgs{Dir: dir, Extra: history})
	o := lock.TransactionOptions{Dir: dir, File: "locks.json", Member: m, StaleAfter: testStaleAfter}
	rewrites := repeats(100, 1000)
	for i := range rewrites {
		err := transact(o, func(current []byte) ([]byte, error) {
			if current == nil {
				current = []byte("{}")
			}
			return lock.EditRegistry(current, "other", fmt.Appendf(nil, `{"n": %d.0}`, i))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range ps {
		p.kill()
	}
	doc := readFile(t, filepath.Join(dir, "locks.json"))
	if other, ok := lock.LookUp([]byte(doc), "other"); !ok || string(other) != fmt.Sprintf(`{"n": %d.0}`, rewrites-1) {
		t.Errorf("other program's entry: %s", other)
	}
	t.Logf("%d leaderships", checkHistory(t, history))
}

// TestKilledAtRandom kills members at random instants, most of them inside a
// transaction: whatever they leave blocks nobody, the registry always parses,
// and no term is given twice (F44, S1, D5).
func TestKilledAtRandom(t *testing.T) {
	kills := repeats(30, 210)
	dir := newState(t)
	history := filepath.Join(t.TempDir(), "history")
	writeFile(t, history, "")
	m := openMember(t, dir)
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for range kills / 3 {
				p := start(t, "cycle", helperArgs{Dir: dir, Extra: history})
				if line, ok := <-p.lines; !ok || !strings.HasPrefix(line, "ready") {
					t.Errorf("helper says %q %s", line, p.errs.String())
				}
				time.Sleep(time.Duration(rand.IntN(40_000)) * time.Microsecond)
				p.kill()
			}
		})
	}
	running.Wait()
	began := time.Now()
	res, err := newLock(t, dir, m).Acquire(context.Background(), lock.Plain, nil)
	if err != nil || !res.Acquired {
		t.Fatalf("after all kills: %+v %v", res, err)
	}
	if took := time.Since(began); took > testStaleAfter {
		t.Errorf("recovery took %v", took)
	}
	t.Logf("%d leaderships", checkHistory(t, history))
	if lock.Damaged([]byte(readFile(t, filepath.Join(dir, "locks.json")))) {
		t.Error("registry is damaged")
	}
	if _, err := newObserver(dir).Sweep(0); err != nil {
		t.Fatal(err)
	}
	noDebris(t, dir)
	members, err := newObserver(dir).Members()
	if err != nil || len(members) != 1 {
		t.Errorf("after the sweep: %d members, %v", len(members), err)
	}
}

// TestKilledInsideIsReclaimedAtOnce: a holder that is dead is not waited for
// (D4).
func TestKilledInsideIsReclaimedAtOnce(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	p := start(t, "stop", helperArgs{Dir: dir, Extra: "kill"})
	if err := p.wait(); err == nil {
		t.Fatal("helper lives")
	}
	if _, err := os.Stat(filepath.Join(dir, "locks.json.transaction")); err != nil {
		t.Fatal("it did not die inside a transaction:", err)
	}
	began := time.Now()
	mustAcquire(t, newLock(t, dir, m))
	if took := time.Since(began); took > testStaleAfter/2 {
		t.Errorf("took %v", took)
	}
	if _, err := newObserver(dir).Sweep(0); err != nil {
		t.Fatal(err)
	}
	noDebris(t, dir)
}

// TestStoppedInside stops a holder between reading and publishing. Others go on
// after stale-after, and when it wakes the file system refuses what it wanted
// to publish (D3, D4, G5).
func TestStoppedInside(t *testing.T) {
	t.Parallel()
	dir := newState(t)
	m := openMember(t, dir)
	p := start(t, "stop", helperArgs{Dir: dir, Extra: "stop"})
	p.hear()
	p.stopped()
	began := time.Now()
	l := newLock(t, dir, m)
	res := mustAcquire(t, l)
	if took := time.Since(began); took < testStaleAfter || took > testStaleAfter+time.Second {
		t.Errorf("took %v, want stale-after (%v) and at most a second more", took, testStaleAfter)
	}
	if err := m.Beat(); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, filepath.Join(dir, "locks.json"))
	p.signal(syscall.SIGCONT)
	p.expect("acquired false staged 0")
	if after := readFile(t, filepath.Join(dir, "locks.json")); after != before {
		t.Errorf("the woken process changed the registry:\n%s\n%s", before, after)
	}
	if term, owns, err := l.OwnedTerm(); !owns || term != res.Term || err != nil {
		t.Error(term, owns, err)
	}
	noDebris(t, dir)
}

// TestStopsAndKills mixes stops that are longer than stale-after with kills,
// and looks for doubled terms.
func TestStopsAndKills(t *testing.T) {
	t.Parallel()
	dir := newState(t)
	openMember(t, dir)
	history := filepath.Join(t.TempDir(), "history")
	writeFile(t, history, "")
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 3 {
				p := start(t, "cycle", helperArgs{Dir: dir, Extra: history})
				<-p.lines
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				p.signal(syscall.SIGSTOP)
				time.Sleep(time.Duration(rand.Int64N(int64(testStaleAfter * 3 / 2))))
				p.signal(syscall.SIGCONT)
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
				p.kill()
			}
		})
	}
	running.Wait()
	// A begin that was logged late, by a process stopped between its check and
	// the log, is what G1 excepts; so only the terms are looked at.
	seen := map[string]string{}
	for line := range strings.Lines(readFile(t, history)) {
		f := strings.Fields(line)
		if f[0] != "begin" {
			continue
		}
		if other, ok := seen[f[1]]; ok {
			t.Errorf("term %s twice: %s and %s", f[1], other, f[2])
		}
		seen[f[1]] = f[2]
	}
	t.Logf("%d terms", len(seen))
}

// TestHungOwner stops an owner outside of any transaction: refused while it is
// watched for less than stale-after, taken then, forgotten when it wakes.
func TestHungOwner(t *testing.T) {
	t.Parallel()
	dir := newState(t)
	m := openMember(t, dir)
	owner := startAll(t, 1, "member", helperArgs{Dir: dir})[0]
	owner.tell("acquire")
	owner.hear()
	l := newLock(t, dir, m)
	owner.signal(syscall.SIGSTOP)
	owner.stopped()
	began := time.Now()
	seen, err := l.Current()
	if err != nil {
		t.Fatal(err)
	}
	for {
		res, err := l.Acquire(context.Background(), lock.Election, &seen)
		if err != nil {
			t.Fatal(err)
		}
		if res.Acquired {
			if !res.ReplacedStale || res.Term <= seen.Epoch {
				t.Errorf("%+v", res)
			}
			break
		}
		if res.State != lock.ActiveElsewhere {
			t.Fatalf("%+v", res)
		}
		time.Sleep(testHeartbeat / 4)
	}
	if took := time.Since(began); took < testStaleAfter || took > testStaleAfter+time.Second {
		t.Errorf("took %v", took)
	}
	owner.signal(syscall.SIGCONT)
	owner.tell("owns")
	owner.expect("false <nil>")
	owner.tell("release")
	owner.expect("false <nil>")
	if owns, err := l.Owns(); !owns || err != nil {
		t.Error("release by the old owner:", owns, err)
	}
}

func TestKilledOwnerIsReplacedAtOnce(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	o := newObserver(dir)
	owner := start(t, "member", helperArgs{Dir: dir})
	instance := strings.TrimPrefix(owner.hear(), "ready ")
	owner.tell("acquire")
	owner.hear()
	l := newLock(t, dir, m)
	seen, err := l.Current()
	if err != nil {
		t.Fatal(err)
	}
	if o.DeadAfterEOF(context.Background(), instance) {
		t.Fatal("dead while it lives")
	}
	owner.signal(syscall.SIGKILL)
	for range owner.lines { // its end of stream
		continue
	}
	began := time.Now()
	if !o.DeadAfterEOF(context.Background(), instance) {
		// On a busy machine the kernel may take its time to end a process; but
		// when it is gone, its lock is.
		if err := owner.wait(); err == nil || !o.DeadAfterEOF(context.Background(), instance) {
			t.Fatal("alive after its end:", err)
		}
	}
	res, err := l.Acquire(context.Background(), lock.Election, &seen)
	if err != nil || !res.Acquired || !res.ReplacedStale || res.Owner == nil || !res.Owner.SameOwner(seen) {
		t.Fatalf("%+v %v", res, err)
	}
	t.Logf("took %v", time.Since(began))
}

// TestF36NewPIDNamespace: the registry names pid 1 of this host; a member starts
// as pid 1 of a new PID namespace.
func TestF36NewPIDNamespace(t *testing.T) {
	t.Parallel()
	dir := newState(t)
	host := lock.ThisHost()
	if host.BootID == "" || host.PIDNamespace == "" {
		t.Skip("no /proc")
	}
	pid1 := fmt.Sprintf(`{%q:{"pid":1,"cwd":"/x","instanceId":"gone","leaderEpoch":7,"runtimeGeneration":1,"bootId":%q,"pidNamespace":%q,"bornAt":"1"}}`,
		key, host.BootID, host.PIDNamespace)
	writeFile(t, filepath.Join(dir, "locks.json"), pid1)
	p := start(t, "member", helperArgs{Dir: dir}, newPIDNamespace)
	line, ok := <-p.lines
	if !ok {
		t.Skip("no PID namespaces here:", p.wait())
	}
	if !strings.HasPrefix(line, "ready") {
		t.Fatal(line)
	}
	began := time.Now()
	for {
		p.tell("acquire")
		line := p.hear()
		if line == "acquired 8" {
			break
		}
		if line != "refused active elsewhere gone" {
			t.Fatal(line)
		}
		time.Sleep(testHeartbeat / 4)
	}
	if took := time.Since(began); took < testStaleAfter-testHeartbeat || took > testStaleAfter+time.Second {
		t.Errorf("no member file: took %v", took)
	}

	// With a member file, its free lock tells at once, whatever the pids say
	// (F37: both are pid 1 here).
	second := start(t, "member", helperArgs{Dir: dir}, newPIDNamespace)
	second.hear()
	second.tell("acquire")
	if line := second.hear(); !strings.HasPrefix(line, "refused active elsewhere") {
		t.Fatal(line)
	}
	p.kill()
	second.tell("acquire")
	second.expect("acquired 9")
}

// TestF43OtherUser: a member of another user is told who owns what.
func TestF43OtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := newState(t)
	openWay(t, filepath.Dir(dir))
	mustAcquire(t, newLock(t, dir, openMember(t, dir)))
	p := start(t, "member", helperArgs{Dir: dir}, asNobody(t))
	line := p.hear()
	for _, want := range []string{"error open member:", dir, "belongs to uid 0", "this process is uid 65534"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}

	// The other way round: root in the directory of another user's members.
	theirs := filepath.Join(filepath.Dir(dir), "theirs")
	mkdir(t, theirs)
	if err := os.Chown(theirs, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	p = start(t, "member", helperArgs{Dir: theirs}, asNobody(t))
	p.hear()
	_, err := lock.OpenMember(lock.MemberOptions{Dir: theirs})
	if !lock.IsUnusable(err) || !strings.Contains(err.Error(), "belongs to uid 65534, and what this process makes to uid 0") {
		t.Errorf("root among another user's members: %v", err)
	}
	files, err := os.ReadDir(filepath.Join(theirs, "members"))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
}

// TestM1ChildDoesNotHoldTheLock: a child that outlives its member does not keep it alive
// (close-on-exec, M1).
func TestM1ChildDoesNotHoldTheLock(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	child := start(t, "member", helperArgs{Dir: newState(t)})
	child.hear()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := newObserver(dir).Look(m.Instance())
	if err != nil || !r.Dead() {
		t.Errorf("%+v %v", r, err)
	}
}

// TestM3ClosedMemberIsDeadAtOnce: a copy of the descriptor, as a child has it
// between fork and exec, does not keep a member that closed its file alive.
func TestM3ClosedMemberIsDeadAtOnce(t *testing.T) {
	dir := newState(t)
	m := openMember(t, dir)
	duplicate, err := syscall.Dup(descriptorOf(t, memberFile(m, dir)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(duplicate) }()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := newObserver(dir).Look(m.Instance())
	if err != nil || !r.Dead() {
		t.Errorf("%+v %v", r, err)
	}
}

// descriptorOf returns this process's descriptor of a file.
func descriptorOf(t *testing.T, path string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			n, err := strconv.Atoi(filepath.Base(link))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s is not open", path)
	return 0
}
