package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tgbridge/internal/botapitest"
	"tgbridge/internal/cluster"
)

const ms = time.Millisecond

// story tells a judge what happened, in order. Members m1 to m3 are processes 1
// to 3; chat 0 is FirstChat.
type story struct {
	cluster.Judge
	seq uint64
}

func newStory() *story {
	s := &story{Judge: cluster.NewJudge()}
	for n := 1; n <= 3; n++ {
		s.Process(n, fmt.Sprintf("m%d", n), fmt.Sprintf("a%d", n))
	}
	return s
}

func (s *story) next(e botapitest.Event) uint64 {
	s.seq++
	e.Seq = s.seq
	s.Event(e)
	return s.seq
}

func (s *story) begins(process int, method string, at time.Duration) uint64 {
	return s.next(botapitest.Event{Kind: botapitest.EventBegin, Method: method, Local: fmt.Sprintf("a%d", process), At: at})
}

func (s *story) ends(request uint64, method string, at time.Duration, status int) {
	s.next(botapitest.Event{Kind: botapitest.EventEnd, Method: method, Request: request, At: at, Status: status})
}

// sends is a whole sendMessage of 10 ms; status 0 is a connection cut after the
// message was stored.
func (s *story) sends(process int, chat int64, text string, at time.Duration, status int) {
	request := s.begins(process, "sendmessage", at)
	s.next(botapitest.Event{Kind: botapitest.EventSent, Request: request, At: at + 5*ms, Chat: cluster.FirstChat + chat, Text: text})
	s.ends(request, "sendmessage", at+10*ms, status)
}

func (s *story) polls(process int, at, until time.Duration, offset int64) {
	request := s.next(botapitest.Event{
		Kind: botapitest.EventBegin, Method: "getupdates", Local: fmt.Sprintf("a%d", process), At: at,
		HasOffset: offset != 0, Offset: offset,
	})
	s.ends(request, "getupdates", until, 200)
}

func (s *story) happens(kind cluster.IncidentKind, process int, at time.Duration, led bool) {
	s.Incident(cluster.Incident{Kind: kind, Member: fmt.Sprintf("m%d", process), Process: process, At: at, Led: led})
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name string
		tell func(*story)
		want cluster.Report
	}{
		{"one answer", func(s *story) {
			s.sends(1, 0, "m1 (term 4): c0-000000", 100*ms, 200)
		}, cluster.Report{Received: 1}},
		{"no answer", func(s *story) {}, cluster.Report{Lost: []string{"c0-000000"}}},
		{"something else", func(s *story) {
			s.sends(1, 0, "sorry, no c0-00 today", 100*ms, 200)
		}, cluster.Report{Lost: []string{"c0-000000"}}},
		{"in another chat", func(s *story) {
			s.sends(1, 1, "c0-000000", 100*ms, 200)
		}, cluster.Report{Lost: []string{"c0-000000"}, Crossed: []string{"c0-000000"}}},
		{"twice, for no reason", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 200)
			s.sends(1, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "unknown", Allowed: false}}}},
		{"twice, the sender was killed in the call", func(s *story) {
			s.happens(cluster.Killed, 1, 106*ms, true)
			s.sends(1, 0, "c0-000000", 100*ms, 0)
			s.sends(2, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "kill of m1, the sender", Allowed: true}}}},
		{"twice, the sender was killed when the call was on its way", func(s *story) {
			s.happens(cluster.Killed, 1, 99*ms, true)
			s.sends(1, 0, "c0-000000", 100*ms, 200)
			s.sends(2, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "kill of m1, the sender", Allowed: true}}}},
		{"twice, the sender was frozen just after", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 200)
			s.happens(cluster.Frozen, 1, 150*ms, true)
			s.sends(2, 0, "c0-000000", 7000*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "hang of m1, the sender", Allowed: true}}}},
		{"twice, the sender was frozen before the call and thawed in it", func(s *story) {
			s.happens(cluster.Frozen, 1, 60*ms, true)
			s.happens(cluster.Thawed, 1, 1100*ms, false)
			s.sends(1, 0, "c0-000000", 1101*ms, 200)
			s.sends(2, 0, "c0-000000", 1200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "hang of m1, the sender", Allowed: true}}}},
		{"twice, the sender was thawed long before", func(s *story) {
			s.happens(cluster.Frozen, 1, 60*ms, true)
			s.happens(cluster.Thawed, 1, 1100*ms, false)
			s.sends(1, 0, "c0-000000", 1400*ms, 200)
			s.sends(2, 0, "c0-000000", 1500*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "unknown"}}}},
		{"twice, the sender was killed long after", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 200)
			s.happens(cluster.Killed, 1, 500*ms, true)
			s.sends(2, 0, "c0-000000", 600*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "unknown", Allowed: false}}}},
		{"twice, another was killed", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 200)
			s.happens(cluster.Killed, 2, 105*ms, false)
			s.sends(1, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "unknown", Allowed: false}}}},
		{"twice, the server answered 502", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 502)
			s.sends(1, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "the server answered 502", Allowed: true}}}},
		{"twice, the connection was cut", func(s *story) {
			s.sends(1, 0, "c0-000000", 100*ms, 0)
			s.sends(1, 0, "c0-000000", 200*ms, 200)
		}, cluster.Report{Received: 1, Doubled: []cluster.Doubling{{Token: "c0-000000", Cause: "the connection was cut", Allowed: false}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory()
			s.Said(cluster.FirstChat, "c0-000000", 50*ms)
			tt.tell(s)
			got := s.Report()
			for i := range got.Doubled {
				got.Doubled[i].Before, got.Doubled[i].Again = cluster.Sending{}, cluster.Sending{}
			}
			got = cluster.Report{Received: got.Received, Lost: got.Lost, Doubled: got.Doubled, Crossed: got.Crossed}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDoublingTellsBothSendings(t *testing.T) {
	s := newStory()
	s.Said(cluster.FirstChat, "c0-000000", 50*ms)
	s.sends(1, 0, "c0-000000", 100*ms, 0)
	s.sends(2, 0, "c0-000000", 200*ms, 200)
	want := []cluster.Doubling{{
		Token: "c0-000000", Cause: "the connection was cut",
		Before: cluster.Sending{Member: "m1", Process: 1, Begin: 100 * ms, End: 110 * ms},
		Again:  cluster.Sending{Member: "m2", Process: 2, Begin: 200 * ms, End: 210 * ms, Status: 200},
	}}
	if diff := cmp.Diff(want, s.Report().Doubled); diff != "" {
		t.Errorf("doubled (-want +got):\n%s", diff)
	}
}

func TestDisorder(t *testing.T) {
	s := newStory()
	for n := range 4 {
		s.Said(cluster.FirstChat, cluster.MakeToken(0, n), 0)
		s.Said(cluster.FirstChat+1, cluster.MakeToken(1, n), 0)
	}
	for i, token := range []string{"c1-000002", "c0-000000", "c0-000002", "c0-000001", "c0-000001", "c0-000003", "c1-000003"} {
		chat, _, _ := cluster.ParseToken(token)
		s.sends(1, int64(chat), token, time.Duration(i)*100*ms, 200)
	}
	r := s.Report()
	if diff := cmp.Diff([]string{"c0-000001"}, r.Disorder); diff != "" {
		t.Errorf("disorder (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c1-000000", "c1-000001"}, r.Lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
}

func TestFailovers(t *testing.T) {
	s := newStory()
	s.polls(1, 0, 1000*ms, 0)
	s.polls(1, 1000*ms, 2000*ms, 5)
	s.happens(cluster.Killed, 2, 1500*ms, false) // a follower: no failover
	s.happens(cluster.Killed, 1, 2001*ms, true)
	s.polls(3, 2009*ms, 3000*ms, 0)
	s.polls(3, 3000*ms, 9000*ms, 7)
	s.happens(cluster.Frozen, 3, 4000*ms, true)
	s.begins(3, "getupdates", 4001*ms) // already on its way: not the successor's
	s.polls(2, 9500*ms, 9600*ms, 0)
	s.happens(cluster.Terminated, 2, 9700*ms, true)

	want := []cluster.Failover{
		{Kind: cluster.Killed, From: "m1", To: "m3", Gap: 8 * ms, Silent: 9 * ms},
		{Kind: cluster.Frozen, From: "m3", To: "m2", Gap: 5500 * ms},
		{Kind: cluster.Terminated, From: "m2"},
	}
	r := s.Report()
	if diff := cmp.Diff(want, r.Failovers); diff != "" {
		t.Errorf("failovers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 failovers without a successor, the first {term m2  0s 0s}"}, r.Faults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// A leader that handed over and got the lease back is its own successor; one
// that was thawed in time had no failover.
func TestFailoversWithoutAnother(t *testing.T) {
	s := newStory()
	s.Lease(cluster.LeaseChange{After: 0, At: 2 * ms, Process: 1, Term: 1})
	s.polls(1, 5*ms, 100*ms, 0)
	s.Incident(cluster.Incident{Kind: cluster.HandedOver, Member: "m1", Process: 1, At: 100 * ms, Led: true, Term: 1})
	s.Lease(cluster.LeaseChange{After: 108 * ms, At: 110 * ms, Process: 0, Term: 1})
	s.Lease(cluster.LeaseChange{After: 1200 * ms, At: 1202 * ms, Process: 1, Term: 2})
	s.polls(1, 1201*ms, 2000*ms, 7)
	s.happens(cluster.Frozen, 1, 1500*ms, true)
	s.happens(cluster.Thawed, 1, 1600*ms, true)
	s.polls(1, 2000*ms, 3000*ms, 8)
	s.Incident(cluster.Incident{Kind: cluster.Killed, Member: "m1", Process: 1, At: 3000 * ms, Led: true, Term: 2})
	s.Lease(cluster.LeaseChange{After: 3006 * ms, At: 3008 * ms, Process: 2, Term: 3})
	s.polls(2, 3009*ms, 3100*ms, 0)
	want := []cluster.Failover{
		{Kind: cluster.HandedOver, From: "m1", To: "m1", Gap: 1101 * ms},
		{Kind: cluster.Killed, From: "m1", To: "m2", Gap: 9 * ms, Silent: 9 * ms},
	}
	r := s.Report()
	if diff := cmp.Diff(want, r.Failovers); diff != "" {
		t.Errorf("failovers (-want +got):\n%s", diff)
	}
	if faults := r.Faults(); faults != nil {
		t.Errorf("faults %q", faults)
	}
}

func TestDeposedPolls(t *testing.T) {
	s := newStory()
	s.Lease(cluster.LeaseChange{After: 10 * ms, At: 12 * ms, Process: 1, Term: 1})
	s.polls(1, 11*ms, 50*ms, 0)
	s.happens(cluster.Frozen, 1, 60*ms, true)
	s.Lease(cluster.LeaseChange{After: 5100 * ms, At: 5102 * ms, Process: 2, Term: 2})
	s.polls(1, 5101*ms, 5101*ms, 5) // the lease may have been its own
	s.polls(2, 5102*ms, 6000*ms, 0)
	s.happens(cluster.Thawed, 1, 6000*ms, false)
	s.polls(1, 6001*ms, 6002*ms, 5)
	s.polls(1, 6003*ms, 6004*ms, 5)
	s.Lease(cluster.LeaseChange{After: 7000 * ms, At: 7002 * ms, Process: 0, Term: 2})
	s.polls(3, 7003*ms, 7004*ms, 0) // nobody holds the lease: not deposed
	// Nobody looked for 100 ms: what is read right after that may be older.
	s.Lease(cluster.LeaseChange{After: 8000 * ms, At: 8100 * ms, Process: 2, Term: 3})
	s.polls(1, 8199*ms, 8199*ms, 5)
	s.polls(1, 8201*ms, 8201*ms, 5)
	want := []cluster.DeposedPoll{{"m1", 6001 * ms, true}, {"m1", 6003 * ms, false}, {"m1", 8201 * ms, false}}
	if diff := cmp.Diff(want, s.Report().DeposedPolls); diff != "" {
		t.Errorf("deposed polls (-want +got):\n%s", diff)
	}
}

func TestFallenOffsets(t *testing.T) {
	s := newStory()
	s.Lease(cluster.LeaseChange{After: 0, At: 2 * ms, Process: 1, Term: 1})
	s.polls(1, 10*ms, 20*ms, 0)
	s.polls(1, 20*ms, 30*ms, 7)
	s.polls(1, 30*ms, 40*ms, 7)
	s.polls(1, 40*ms, 50*ms, 6)
	s.Lease(cluster.LeaseChange{After: 50 * ms, At: 52 * ms, Process: 1, Term: 2})
	s.polls(1, 60*ms, 70*ms, 5) // another term
	if diff := cmp.Diff([]string{"m1: offset 6 after 7 at 40ms"}, s.Report().FallenOffsets); diff != "" {
		t.Errorf("fallen offsets (-want +got):\n%s", diff)
	}
}

func TestSpread(t *testing.T) {
	all := make([]time.Duration, 0, 200)
	for i := range 200 {
		all = append(all, time.Duration(200-i)*ms)
	}
	if got, want := cluster.SpreadOf(all), (cluster.Spread{Count: 200, P50: 101 * ms, P99: 199 * ms, Max: 200 * ms}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := cluster.SpreadOf(nil); got != (cluster.Spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
