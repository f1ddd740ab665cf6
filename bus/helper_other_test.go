//go:build !unix

package bus_test

func runHelper(string) int { return 2 }
