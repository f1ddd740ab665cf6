//go:build unix && !linux

package lock_test

import (
	"errors"
	"testing"
)

func mountSmall(*testing.T, string) error { return errors.ErrUnsupported }
