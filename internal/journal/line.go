package journal

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// MaxLine is the greatest length of a line in bytes. A record that needs more
// is refused, and what is longer in a file is damage.
const MaxLine = 32 << 20

// prefix is the length of the checksum in hex and the blank after it.
const prefix = 9

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errBadLine = errors.New("damaged line")

// appendLine appends the line of a JSON object to buf: checksum (CRC-32C, eight
// lower-case hex digits), blank, object, line feed.
func appendLine(buf, object []byte) []byte {
	buf = fmt.Appendf(buf, "%08x ", crc32.Checksum(object, castagnoli))
	buf = append(buf, object...)
	return append(buf, '\n')
}

// parseLine returns the object of a line, which still has its line feed. The
// object is part of line.
func parseLine(line []byte) ([]byte, error) {
	n := len(line)
	if n < prefix+len("{}\n") || line[prefix-1] != ' ' || line[n-1] != '\n' {
		return nil, errBadLine
	}
	var sum uint32
	for _, c := range line[:prefix-1] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		default:
			return nil, errBadLine
		}
		sum = sum<<4 | uint32(c)
	}
	object := line[prefix : n-1]
	if crc32.Checksum(object, castagnoli) != sum {
		return nil, errBadLine
	}
	return object, nil
}

// A lineReader reads a file line by line, in memory that the longest line
// bounds.
type lineReader struct {
	r   *bufio.Reader
	off int64 // where the next line begins
	buf []byte
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns where the next line begins, how long it is with its line feed,
// and its object, which holds until the next call. The object is nil if the
// line is damaged: its checksum does not match, it is longer than MaxLine, or
// the file ends before the line does. At the end of the file it returns io.EOF.
func (l *lineReader) next() (off, length int64, object []byte, err error) {
	off = l.off
	l.buf = l.buf[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		l.off += int64(len(piece))
		whole := err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return off, l.off - off, nil, err
		}
		if whole && len(l.buf) == 0 && l.off-off == int64(len(piece)) {
			object, _ = parseLine(piece) // the common case needs no copy
			return off, l.off - off, object, nil
		}
		if l.off-off <= MaxLine {
			l.buf = append(l.buf, piece...)
		}
		switch {
		case whole || errors.Is(err, io.EOF) && l.off > off:
			if l.off-off <= MaxLine {
				object, _ = parseLine(l.buf)
			}
			return off, l.off - off, object, nil
		case errors.Is(err, io.EOF):
			return off, 0, nil, io.EOF
		}
	}
}
