//go:build !linux

package bus_test

const longPathsWork = false
