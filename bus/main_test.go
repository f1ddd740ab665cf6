package bus_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// helperEnv names what this binary does in place of tests when a test starts it
// as a process of its own.
const helperEnv = "BUS_TEST_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperEnv); mode != "" {
		os.Exit(runHelper(mode))
	}
	goleak.VerifyTestMain(m)
}
