package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tgbridge/internal/cluster"
)

func TestRuns(t *testing.T) {
	begin := func(delivery, attempt, pid, chat int) string {
		return fmt.Sprintf("begin d%d %d m%d %d %d", delivery, attempt, pid, pid, chat)
	}
	end := func(delivery, attempt, pid, chat int) string {
		return "end" + strings.TrimPrefix(begin(delivery, attempt, pid, chat), "begin")
	}
	const again, beside = "delivery d1 ran again on m2 (pid 2) although m1 (pid 1) lived", "chat 7: delivery d2 began before d1 had ended"
	tests := []struct {
		name string
		log  []string
		want cluster.Runs
	}{
		{"nothing", nil, cluster.Runs{}},
		{"one after the other", []string{begin(1, 1, 1, 7), end(1, 1, 1, 7), begin(2, 1, 1, 7)}, cluster.Runs{Began: 2}},
		{"chats side by side", []string{begin(1, 1, 1, 7), begin(2, 1, 1, 8)}, cluster.Runs{Began: 2}},
		{"one chat side by side", []string{begin(1, 1, 1, 7), begin(2, 1, 2, 7)}, cluster.Runs{Began: 2, Faults: []string{beside}}},
		{"again, nothing happened", []string{begin(1, 1, 1, 7), end(1, 1, 1, 7), begin(1, 2, 2, 7)}, cluster.Runs{Began: 2, Faults: []string{again}}},
		{"again, killed only later", []string{begin(1, 1, 1, 7), begin(1, 2, 2, 7), "kill 1"}, cluster.Runs{Began: 2, Faults: []string{again}}},
		{"again, another was killed", []string{begin(1, 1, 1, 7), "kill 3", begin(1, 2, 2, 7)}, cluster.Runs{Began: 2, Faults: []string{again}}},
		{"again after a kill", []string{begin(1, 1, 1, 7), "kill 1", begin(1, 2, 2, 7)},
			cluster.Runs{Began: 2, Again: map[cluster.IncidentKind]int{cluster.Killed: 1}}},
		{"killed while it stops", []string{begin(1, 1, 1, 7), "term 1", "kill 1", begin(1, 2, 2, 7)},
			cluster.Runs{Began: 2, Again: map[cluster.IncidentKind]int{cluster.Killed: 1}}},
		{"again after a freeze, beside the first", []string{begin(1, 1, 1, 7), "hang 1", begin(1, 2, 2, 7), end(1, 1, 1, 7)},
			cluster.Runs{Began: 2, Again: map[cluster.IncidentKind]int{cluster.Frozen: 1}}},
		{"stopped in mid-work", []string{begin(1, 1, 1, 7), "term 1", begin(1, 1, 2, 7)},
			cluster.Runs{Began: 2, Again: map[cluster.IncidentKind]int{cluster.Terminated: 1}}},
		{"stopped with its work done", []string{begin(1, 1, 1, 7), "term 1", end(1, 1, 1, 7), begin(1, 1, 2, 7)},
			cluster.Runs{Began: 2, Again: map[cluster.IncidentKind]int{cluster.Terminated: 1}, EndedAgain: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := cluster.JudgeRuns(strings.NewReader(strings.Join(append(test.log, ""), "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, log := range []string{"begin d1\n", "kill x\n", "begin d1 1 m1 x 7\n"} {
		if _, err := cluster.JudgeRuns(strings.NewReader(log)); err == nil {
			t.Errorf("%q is taken", log)
		}
	}
}
