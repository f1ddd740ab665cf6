// Package e2e holds tests that need more than tgbridge's own dependencies:
// Telegram clients that others wrote, as users of internal/botapitest. It is a
// module of its own so that users of tgbridge do not get their checksums.
package e2e
