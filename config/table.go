package config

import (
	"reflect"
	"strings"
)

// Variable is one row of the table of settings.
type Variable struct {
	Name    string // of the environment variable
	Flag    string // without dashes; empty: there is none, for a secret
	Default string // as a value; empty where it is computed
	Shown   string // the default for people
	Choices []string
	Example string
	Help    string
	Bool    bool // the flag needs no value
	Members bool // only members heed it

	field string // of Config
}

// tokenVariable is the one variable that holds a secret.
const tokenVariable = "TELEGRAM_BOT_TOKEN"

// fileSuffix makes the name of the variable that names a secret's file.
const fileSuffix = "_FILE"

// handlerVariables are set by members for the commands that they run. They
// are no settings, and no mistake in the environment of a command that starts
// tgbridge again (F66).
var handlerVariables = []string{"TGBRIDGE_DELIVERY", "TGBRIDGE_ATTEMPT"}

// Variables returns the table of settings in the order of the documentation.
func Variables() []Variable {
	var table []Variable
	for field := range reflect.TypeFor[Config]().Fields() {
		name := field.Tag.Get("env")
		if name == "" || name == "-" {
			continue
		}
		v := Variable{
			Name:    name,
			Default: field.Tag.Get("envDefault"),
			Shown:   field.Tag.Get("shown"),
			Example: field.Tag.Get("example"),
			Help:    field.Tag.Get("help"),
			Bool:    field.Type.Kind() == reflect.Bool,
			Members: field.Tag.Get("for") == "members",
			field:   field.Name,
		}
		if name != tokenVariable { // every process may read another's arguments
			v.Flag = flagName(name)
		}
		if choices := field.Tag.Get("choices"); choices != "" {
			v.Choices = strings.Split(choices, ",")
		}
		if v.Shown == "" {
			v.Shown = v.Default
		}
		table = append(table, v)
	}
	return table
}

// flagName turns TGBRIDGE_STATE_DIR into state-dir.
func flagName(variable string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(variable, "TGBRIDGE_"), "TELEGRAM_")
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// Doc returns the table of settings in Markdown, for the documentation.
func Doc() string {
	var b strings.Builder
	b.WriteString("| variable | flag | default | |\n|---|---|---|---|\n")
	for _, v := range Variables() {
		flag := ""
		if v.Flag != "" {
			flag = "`--" + v.Flag + "`"
		}
		shown := v.Shown
		if v.Default != "" {
			shown = "`" + v.Default + "`"
		}
		b.WriteString("| `" + v.Name + "` | " + flag + " | " + shown + " | " + v.Help + " |\n")
	}
	return b.String()
}
