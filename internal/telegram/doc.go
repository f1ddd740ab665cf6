// Package telegram is Telegram's side of the bridge: the HTTP client, the one
// retry layer with its pacing, what an update says about itself, who may use
// the bot, and the cutting of long texts.
//
//	handler -> API (pace, repeat) -> Client (one request) -> Telegram
//	Telegram -> Client.GetUpdates -> Inspect -> Access -> lane
//
// The contract:
//
//   - The token's secret part is in no error, log line or result of this
//     package (G8), whatever the network or a server answers.
//   - A Client makes exactly one request per call, and follows no redirect. Only
//     API repeats, and only what surely had no effect and may pass, or what
//     Telegram answered with 429 or 5xx (G7). A failure of which it is not known
//     whether it had its effect is ErrOutcomeUnknown.
//   - Updates are handed over byte for byte. Ids are exact in 64 bits.
//   - A sender who cannot be told by a numeric user id is denied (G9).
//
// What is not promised: a call that ends with ErrOutcomeUnknown may have had
// its effect or not. The pace is kept by this process alone; another program
// with the same token is seen only through the 429 that it causes. Files are
// not uploaded. net/http writes a line to the standard logger, quoting the
// server, when a server speaks on an idle connection; whoever owns the process
// decides where that logger writes.
//
// The transport is telegram-bot-api/v5, of which MakeRequest and Params alone
// are used. It logs nothing on that path.
//
// The package starts no goroutines of its own; net/http keeps two for each
// open connection until Client.Close.
package telegram
