package config

// What depends on the machine, for tests that bring a machine of their own.
var (
	DefaultName     = defaultName
	DefaultStateDir = defaultStateDir
	InContainer     = inContainer
	ParseEnvFile    = parseEnvFile
)
