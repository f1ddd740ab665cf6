package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The endings of file names after the number.
const (
	logEnding  = ".log"
	keptEnding = ".kept" // had lines that could not be understood; never read
)

func termPath(dir string, term uint64) string {
	return filepath.Join(dir, strconv.FormatUint(term, 10))
}

func filePath(own string, number uint64, ending string) string {
	return filepath.Join(own, strconv.FormatUint(number, 10)+ending)
}

// parseNumber reads a decimal without padding.
func parseNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// checkDir reports whether there is a directory at path. Something else there
// is an error.
func checkDir(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, wrap("open journal", err)
	case !info.IsDir():
		return false, unusable(path, "is not a directory", "move it away")
	}
	return true, nil
}

// maxNumber is the highest term there can be, as everywhere, and the highest
// number of a file. What has a higher one was not made by a leader: it is not
// read, and nothing has to be above it.
const maxNumber = 1 << 52

// listTerms returns the terms of which dir holds a directory, rising. Names of
// other forms are nobody's business, and so are numbers above maxNumber.
func listTerms(dir string) ([]uint64, error) {
	if there, err := checkDir(dir); !there {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, wrap("list journals", err)
	}
	var terms []uint64
	for _, e := range entries {
		term, ok := parseNumber(e.Name())
		if !ok || term > maxNumber {
			continue
		}
		if !e.IsDir() {
			return nil, unusable(filepath.Join(dir, e.Name()), "is not a directory", "move it away")
		}
		terms = append(terms, term)
	}
	slices.Sort(terms)
	return terms, nil
}

// listBeyond returns the paths in dir whose names are numbers above maxNumber,
// with the given ending.
func listBeyond(dir, ending string) []string {
	entries, _ := os.ReadDir(dir) // what fails has failed before, or does later
	var paths []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ending)
		if number, is := parseNumber(name); ok && is && number > maxNumber {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// listFiles returns the numbers of the files with the given ending in a term's
// directory, rising, up to maxNumber.
func listFiles(own, ending string) ([]uint64, error) {
	entries, err := os.ReadDir(own)
	if err != nil {
		return nil, wrap("list journal files", err)
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ending)
		if !ok {
			continue
		}
		number, ok := parseNumber(name)
		if !ok || number > maxNumber {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, unusable(filepath.Join(own, e.Name()), "is not a file", "move it away")
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// HighestTerm returns the highest term under which there is a journal in dir,
// and zero if there is none or no such directory. Terms are at most 2^52: a
// directory of a higher number does not count; TakeOver tells of it. It takes
// nothing and changes nothing. The error is ErrUnusable where something else is
// in the place of a directory.
func HighestTerm(dir string) (uint64, error) {
	terms, err := listTerms(dir)
	if err != nil || len(terms) == 0 {
		return 0, err
	}
	return terms[len(terms)-1], nil
}
