package main

import (
	"errors"
	"fmt"
	"testing"

	"tgbridge/bot"
	"tgbridge/config"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"failed", errors.New("disk full"), 1},
		{"usage", usage("no chat"), 2},
		{"configuration", &config.Error{Problems: []config.Problem{{Variable: "TGBRIDGE_ROUTE"}}}, 2},
		{"options", bot.ErrOptions, 2},
		{"other settings than the leader", bot.ErrSettings, 2},
		{"F6 webhook kept", bot.ErrWebhookSet, 2},
		{"token refused", bot.ErrTokenRefused, 3},
		{"state directory", bot.ErrState, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wrapped := tt.err
			if wrapped != nil {
				wrapped = fmt.Errorf("run member: %w", tt.err)
			}
			if got := exitCode(wrapped); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}
