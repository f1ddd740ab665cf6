package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// binaries are the programs that are measured.
type binaries struct {
	tgbridge string // the release binary
	bare     string // the floor
	bench    string // this program, as a member with a handler in Go
}

// build builds them as a release is built, into dir.
func build(ctx context.Context, dir string) (binaries, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+string(filepath.Separator),
		"tgbridge/cmd/tgbridge", "tgbridge/bench/bare", "tgbridge/bench")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return binaries{}, fmt.Errorf("build the programs (run bench inside the module): %w\n%s", err, out)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return binaries{tgbridge: at("tgbridge"), bare: at("bare"), bench: at("bench")}, nil
}
