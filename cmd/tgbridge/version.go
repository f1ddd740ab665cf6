package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker, for releases and images:
//
//	go build -ldflags "-X main.releaseVersion=v1.2.3 -X main.releaseCommit=0123abc" ./cmd/tgbridge
var releaseVersion, releaseCommit string

func (c *cli) versionCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(c.stdout, "tgbridge %s (commit %s, %s, %s/%s)\n",
				buildVersion(), buildCommit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
	hideMemberSettings(cmd)
	return cmd
}

// buildVersion returns the release's version, or else the module's as "go install"
// knows it, or else "devel".
func buildVersion() string {
	built := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		built = info.Main.Version
	}
	return cmp.Or(releaseVersion, built, "devel")
}

// buildCommit returns the release's commit, or else the one that the Go toolchain
// saw, with a + if there were changes, or else "unknown".
func buildCommit() string {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "+"
	}
	return cmp.Or(releaseCommit, revision, "unknown")
}
