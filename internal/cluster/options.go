package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"tgbridge/internal/botapitest"
)

// Options configure a Cluster.
type Options struct {
	// Argv is the command line of a member, such as {"tgbridge", "echo"}: a
	// program that takes tgbridge's environment and whose replies hold the text
	// that they answer.
	Argv []string
	// HandoverArgv is the command line that asks for a handover, such as
	// {"tgbridge", "handover"}; "--to NAME" is put behind it where an heir is
	// asked for. Empty: HandOver asks the leader itself, on the bus.
	HandoverArgv []string
	// Dir is an existing directory for state, in Dir/state, for what members write
	// to stdout and stderr, in Dir/logs, and for the log of RunsScript, Dir/runs.
	Dir string
	// Env are NAME=VALUE settings for all members that win over the cluster's
	// own. Of the process's environment members get what is not TELEGRAM_* or
	// TGBRIDGE_*.
	Env []string
	// Limits switches the server's rate limits on, and the members' own.
	Limits bool
	// KeepLedger keeps the whole ledger readable, up to its limit. Else what was
	// judged is forgotten, so that a cluster can run for days.
	KeepLedger bool
	// Logger gets an info event for each incident.
	Logger zerolog.Logger
}

func (o Options) validate() error {
	if len(o.Argv) == 0 {
		return errors.New("no command line for members")
	}
	info, err := os.Stat(o.Dir)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", o.Dir)
	}
	return nil
}

// environment is what a member called name gets that has the server under url.
func (o Options) environment(name, url, stateDir string) []string {
	var env []string
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "TELEGRAM_") && !strings.HasPrefix(setting, "TGBRIDGE_") {
			env = append(env, setting)
		}
	}
	pace := "off"
	if o.Limits {
		pace = "telegram"
	}
	env = append(env,
		"TELEGRAM_BOT_TOKEN="+botapitest.DefaultToken,
		"TELEGRAM_API_URL="+url,
		"TGBRIDGE_STATE_DIR="+stateDir,
		"TGBRIDGE_NAME="+name,
		"TGBRIDGE_ALLOW_ALL=true",
		"TGBRIDGE_PACE="+pace,
		"TGBRIDGE_LOG_FORMAT=json",
		runsVar+"="+o.runsPath(),
	)
	return append(env, o.Env...)
}
