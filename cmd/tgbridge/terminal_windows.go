package main

import "io"

// columns is not asked of this system.
func columns(io.Writer) int { return 0 }
