//go:build !race

package journal_test

// share makes what takes much time smaller under the race detector.
const share = 1
