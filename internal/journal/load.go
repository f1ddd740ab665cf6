package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/rs/zerolog"
)

// maxFiles is how many files there can be: a span has eight bits for it. More
// than two come about only where there is no space for a snapshot.
const maxFiles = math.MaxUint8

// A reading is what the files of a term's directory hold.
type reading struct {
	index *index
	files []*logFile // what the spans of index point into; may be none
	keep  []uint64   // numbers of those with lines that could not be understood
}

func (r *reading) close() {
	for _, f := range r.files {
		_ = f.Close()
	}
}

// load reads the files of own. It begins with the newest one whose snapshot is
// whole, or the oldest if none is, and goes on through all later ones: a
// snapshot that was not finished says again what came before it.
func load(d disk, own string, maxDead int, log zerolog.Logger) (*reading, error) {
	for tries := 0; ; tries++ {
		r := &reading{index: newIndex(maxDead)}
		err := r.read(d, own, log)
		if err == nil {
			return r, nil
		}
		r.close()
		// A predecessor that was stopped in a rotation may remove a file
		// between the listing and the opening; a newer one is there then.
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			return nil, err
		}
	}
}

func (r *reading) read(d disk, own string, log zerolog.Logger) error {
	numbers, err := listFiles(own, logEnding)
	if err != nil {
		return err
	}
	if len(numbers) > maxFiles {
		return unusable(own, fmt.Sprintf("holds %d files", len(numbers)), "move it away")
	}
	for _, n := range numbers {
		f, err := d.open(filePath(own, n, logEnding), n)
		if err != nil {
			return wrap("open journal", err)
		}
		r.files = append(r.files, f)
	}
	first := len(r.files) - 1
	for ; first > 0; first-- {
		if whole, err := wholeSnapshot(r.files[first]); err != nil {
			return err
		} else if whole {
			break
		}
	}
	for i := range r.files {
		if i < first {
			continue
		}
		if err := r.fold(i, i == first, log); err != nil {
			return err
		}
	}
	return nil
}

// completeBegins is how records of kindComplete begin.
var completeBegins = []byte(`{"kind":"complete"`)

// wholeSnapshot reports whether the file has a snapshot without damage.
func wholeSnapshot(f *logFile) (bool, error) {
	lines := newLineReader(io.NewSectionReader(f, 0, math.MaxInt64))
	for {
		_, _, object, err := lines.next()
		if errors.Is(err, io.EOF) || err == nil && object == nil {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", f.path, err)
		}
		if !bytes.HasPrefix(object, completeBegins) {
			continue
		}
		if r, err := decode(object); err == nil && r.Kind == kindComplete {
			return true, nil
		}
	}
}

// flaws are what is wrong with a file.
type flaws struct {
	damaged int   // bad lines before a good one
	tail    int   // bad lines after the last good one
	bytes   int64 // of both
	unknown map[Kind]int
	whole   bool // a snapshot was complete, or none was needed
}

// fold brings the lines of a file into the index, also those after damage: what
// can be read was written. Only the first file that is read must have a whole
// snapshot.
func (r *reading) fold(i int, first bool, log zerolog.Logger) error {
	f := r.files[i]
	lines := newLineReader(io.NewSectionReader(f, 0, math.MaxInt64))
	flaws := flaws{unknown: map[Kind]int{}, whole: !first}
	for {
		off, length, object, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", f.path, err)
		}
		record, err := decode(object) // a damaged line has none
		if err != nil {
			flaws.tail++
			flaws.bytes += length
			continue
		}
		if record.Kind == kindBase && record.version > version {
			return unusable(f.path, fmt.Sprintf("has format %d, this program knows %d", record.version, version),
				"start the newer tgbridge, or move the file away")
		}
		flaws.damaged, flaws.tail = flaws.damaged+flaws.tail, 0
		flaws.whole = flaws.whole || record.Kind == kindComplete
		if !r.index.fold(&record, span{uint8(i), off, int32(length)}) {
			flaws.unknown[record.Kind]++
		}
	}
	f.end = lines.off
	if flaws.damaged > 0 {
		// Numbers may have been used in what is lost; no line is shorter than a byte.
		r.index.next += uint64(flaws.bytes)
	}
	if flaws.damaged > 0 || len(flaws.unknown) > 0 {
		r.keep = append(r.keep, f.number)
	}
	flaws.tell(log.With().Str(keyPath, f.path).Logger(), r.index.orphans)
	return nil
}

// tell tells what is wrong. Orphans are the records about what was lost.
func (f *flaws) tell(log zerolog.Logger, orphans int) {
	switch {
	case f.damaged > 0:
		log.Warn().Int("lines", f.damaged+f.tail).Int64("bytes", f.bytes).Int("orphans", orphans).
			Msg("journal is damaged: lost what these lines said, keeps the rest")
	case f.tail > 0:
		log.Info().Int64("bytes", f.bytes).Msg("journal ends in an unfinished write: left out")
	}
	for kind, n := range f.unknown {
		log.Warn().Str("kind", string(kind)).Int("lines", n).
			Msg("journal has records of a kind that this version does not know: left out")
	}
	if !f.whole {
		log.Warn().Msg("journal has no complete snapshot: takes what can be read")
	}
}
