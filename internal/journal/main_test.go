package journal_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"tgbridge/internal/journal"
)

// helperDir tells the test binary to be a process that writes the journal there.
const helperDir = "JOURNAL_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		if err := writeForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// writeForEver takes the journal over for term 5 and writes updates, checking
// after each as a leader does, and prints the number of each that is
// acknowledged. Its files are small, so that it is often in a rotation. It ends
// when it is superseded.
func writeForEver(dir string) error {
	j, err := journal.TakeOver(dir, 5, journal.Options{RotateAt: 4096})
	if err != nil {
		return err
	}
	defer func() { _ = j.Close() }()
	out := bufio.NewWriter(os.Stdout)
	for i := 1; ; i++ {
		seq := j.Reserve(1)
		body := fmt.Sprintf(`{"update_id":%d}`, seq)
		recs := []journal.Record{{Kind: journal.KindUpdate, Seq: seq, Delivery: "d", ID: int64(seq), Lane: "l", Body: []byte(body)}}
		if seq > 20 {
			recs = append(recs, journal.Record{Kind: journal.KindDead, Seq: seq - 20, Reason: "old"})
		}
		answer := make(chan error, 1)
		j.Write(recs, i%2 == 0, func(err error) { answer <- err })
		if err := <-answer; err != nil {
			return err
		}
		if err := j.Check(); err != nil {
			return err
		}
		fmt.Fprintln(out, seq)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}
