//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

var errLinuxOnly = errors.New("only Linux can be measured: see the package's documentation")

func play(context.Context, string, io.Writer) error { return errLinuxOnly }

func measure(context.Context, options, func(string, ...any)) (*table, error) {
	return &table{}, errLinuxOnly
}
