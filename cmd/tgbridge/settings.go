package main

import (
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"tgbridge/config"
)

const envFileFlag = "env-file"

// addSettings adds a flag to cmd, and to the commands below it, for each
// setting that may have one.
func addSettings(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
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
		if len(v.Choices) > 0 {
			complete := cobra.FixedCompletions(v.Choices, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(v.Flag, complete) // fails only without the flag
		}
	}
	flags.String(envFileFlag, "", "file with settings as KEY=VALUE lines; none is read unless named")
}

// hideMemberSettings leaves out of the help of cmd, which is no member, what only
// members heed. The flags are there nevertheless: the same settings serve all
// commands.
func hideMemberSettings(cmd *cobra.Command) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		for _, v := range config.Variables() {
			if flag := cmd.Flag(v.Flag); flag != nil && v.Members {
				flag.Hidden = true
			}
		}
		help(cmd, args)
	})
}

// loadConfig reads the configuration for a command that is no member: it does
// without a token. From then on the token is kept out of all output.
func (c *cli) loadConfig(cmd *cobra.Command) (config.Config, error) {
	return c.load(cmd, false)
}

// loadMemberConfig reads the configuration for a command that becomes a
// member, with all that such a one needs.
func (c *cli) loadMemberConfig(cmd *cobra.Command) (config.Config, error) {
	return c.load(cmd, true)
}

func (c *cli) load(cmd *cobra.Command, member bool) (config.Config, error) {
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

// logStart writes a member's first lines: what it is about to join, where its
// settings came from, and what is odd about them.
func logStart(log zerolog.Logger, cfg config.Config) {
	settings := zerolog.Dict()
	for _, s := range cfg.Sources {
		settings.Str(s.Variable, string(s.Source))
	}
	log.Info().
		Int64("bot", cfg.BotID).
		Str("state_dir", cfg.StateDir).
		Str("api_host", cfg.APIHost()).
		Str("name", cfg.Name).
		Str("version", buildVersion()).
		Dict("settings", settings).
		Msg("start")
	for _, text := range cfg.Warnings {
		log.Warn().Msg(text)
	}
}
