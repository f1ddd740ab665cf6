package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgbridge/config"
)

const envFileFlag = "env-file"

// addSettings adds a flag for each setting that may have one.
func addSettings(flags *pflag.FlagSet) {
	for _, v := range config.Variables() {
		if v.Flag == "" {
			continue
		}
		usage := v.Help
		if v.Shown != "" {
			usage += " (default: " + v.Shown + ")"
		}
		if v.Bool {
			flags.Bool(v.Flag, false, usage)
		} else {
			flags.String(v.Flag, "", usage)
		}
	}
	flags.String(envFileFlag, "", "file with settings as KEY=VALUE lines; none is read unless named")
	flags.SortFlags = false
}

// loadConfig reads the configuration, for a member with all that such a one
// needs. From then on the token is kept out of all output.
func (c *cli) loadConfig(cmd *cobra.Command, member bool) (config.Config, error) {
	options := config.Options{Environ: c.environ, Flags: map[string]string{}, Member: member}
	for _, v := range config.Variables() {
		if flag := cmd.Flags().Lookup(v.Flag); flag != nil && flag.Changed {
			options.Flags[v.Name] = flag.Value.String()
		}
	}
	if flag := cmd.Flags().Lookup(envFileFlag); flag != nil {
		options.EnvFile = flag.Value.String()
	}
	cfg, err := config.Load(options)
	if err != nil {
		return config.Config{}, err
	}
	c.hide(cfg.Token)
	return cfg, nil
}
