// Package config reads what an operator sets: environment variables, flags of
// the same names, an env file, files that hold secrets.
//
// Load merges the layers, a flag before the environment before the env file
// before the default, fills in what depends on the machine, checks each value
// and what must hold between them, and returns a Config or an *Error with
// everything that is wrong. An empty variable counts as not set.
//
// Config's struct tags are the one table of settings: flags (Variables), the
// documentation (Doc) and the examples in errors come from it.
//
// The token is a secret.Secret from the moment it is read; no error or warning
// shows it, also where it was put into a variable that is not for it.
//
// What is not promised: that paths exist or can be written, that a server
// answers, that Telegram takes the token. Those who use them find out.
//
// The package starts no goroutines, keeps no state, and changes neither the
// process's environment nor any file.
package config
