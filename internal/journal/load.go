package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/rs/zerolog"
)

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
	if len(numbers) > math.MaxUint8 {
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
		if r, err := decode(object); err == nil && r.Kind == kindComplete {
			return true, nil
		}
	}
}

// fold brings the lines of a file into the index, also those after damage: what
// can be read was written. Only the first file that is read must have a whole
// snapshot.
func (r *reading) fold(i int, first bool, log zerolog.Logger) error {
	f := r.files[i]
	log = log.With().Str(keyPath, f.path).Logger()
	var (
		lines         = newLineReader(io.NewSectionReader(f, 0, math.MaxInt64))
		damaged, tail int   // bad lines before a good one, and after the last good one
		bytes         int64 // of bad lines
		unknown       = map[Kind]int{}
		complete      = !first
	)
	for {
		off, length, object, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", f.path, err)
		}
		record, err := decode(object)
		if object == nil || err != nil {
			tail++
			bytes += length
			continue
		}
		if record.Kind == kindBase && record.version > version {
			return unusable(f.path, fmt.Sprintf("has format %d, this program knows %d", record.version, version),
				"start the newer tgbridge, or move the file away")
		}
		damaged, tail = damaged+tail, 0
		complete = complete || record.Kind == kindComplete
		if !r.index.fold(&record, span{uint8(i), off, int32(length)}) {
			unknown[record.Kind]++
		}
	}
	r.report(f, log, damaged, tail, bytes, unknown, complete)
	return nil
}

// report tells what was wrong with a file, and marks it to be kept if something
// in it may still be wanted.
func (r *reading) report(f *logFile, log zerolog.Logger, damaged, tail int, bytes int64, unknown map[Kind]int, complete bool) {
	if damaged > 0 {
		// Seqs may have been used in what is lost; no line is shorter than a byte.
		r.index.next += uint64(bytes)
		log.Warn().Int("lines", damaged+tail).Int64("bytes", bytes).Int("orphans", r.index.orphans).
			Msg("journal is damaged: lost what these lines said, kept the rest")
	} else if tail > 0 {
		log.Info().Int64("bytes", bytes).Msg("journal ends in an unfinished write: left out")
	}
	for kind, n := range unknown {
		log.Warn().Str("kind", string(kind)).Int("lines", n).
			Msg("journal has records of a kind that this version does not know: left out")
	}
	if !complete {
		log.Warn().Msg("journal has no complete snapshot: takes what can be read")
	}
	if damaged > 0 || len(unknown) > 0 {
		r.keep = append(r.keep, f.number)
	}
	r.index.orphans = 0
}
