package bus

import "encoding/json"

// Protocol is the version of the bus. Members of other versions are refused
// before any effect.
const Protocol = "1"

// Headers of every request.
const (
	HeaderProtocol     = "Tgbridge-Protocol"
	HeaderTerm         = "Tgbridge-Term"
	HeaderInstance     = "Tgbridge-Instance"
	HeaderRegistration = "Tgbridge-Registration" // from the welcome; not in join, status and the calls of commands
	HeaderRequest      = "Tgbridge-Request"      // a call's id; the same id is the same call
	HeaderDelivery     = "Tgbridge-Delivery"     // of calls made by a handler
	HeaderAttempt      = "Tgbridge-Attempt"
)

// Limits of the wire, in bytes.
const (
	MaxHeader = 16 << 10
	MaxJoin   = 32 << 20 // names work in hand, and outcomes with replies of up to MaxReply each
	MaxAck    = 8 << 20
	MaxCall   = 1 << 20
	MaxReply  = 64 << 10
	MaxError  = 1 << 10  // of an outcome's error
	MaxResult = 4 << 20  // of a call
	MaxLine   = 16 << 20 // of the stream; an update is far smaller
)

// A Status says how a delivery ended at its member.
type Status string

const (
	Done     Status = "done"
	Failed   Status = "failed"
	TimedOut Status = "timed out"
	Returned Status = "returned" // given back unfinished by a member that stops; uses up no attempt
	Denied   Status = "denied"   // the member's own settings do not allow the sender
)

// An Outcome is what a handler made of a delivery.
type Outcome struct {
	Status Status          `json:"status"`
	Reply  json.RawMessage `json:"reply,omitempty"` // opaque; at most MaxReply bytes; empty: no reply
	Error  string          `json:"error,omitempty"` // for people; at most MaxError bytes
}

// An Ack tells the leader the outcome of a delivery.
type Ack struct {
	Delivery string  `json:"delivery"`
	Attempt  int     `json:"attempt"`
	Outcome  Outcome `json:"outcome"`
}

// A Verdict is the leader's answer to an Ack. With each of them the member is
// rid of the delivery.
type Verdict string

const (
	Recorded   Verdict = "recorded"
	Superseded Verdict = "superseded" // another attempt is under way, or this one was acknowledged before
	Unknown    Verdict = "unknown"    // not pending (any more)
)

// Held names a delivery in a member's hand.
type Held struct {
	Delivery string `json:"delivery"`
	Attempt  int    `json:"attempt"`
}

// Settings are what all members must agree on. Other times are refused at join;
// the rest is told on both sides.
type Settings struct {
	HeartbeatMS      int64    `json:"heartbeat_ms"`
	StaleAfterMS     int64    `json:"stale_after_ms"`
	OwnershipCheckMS int64    `json:"ownership_check_ms"`
	PollTimeoutMS    int64    `json:"poll_timeout_ms"`
	RedeliverAfterMS int64    `json:"redeliver_after_ms"`
	Route            Route    `json:"route"`
	Access           string   `json:"access"` // a digest of who is allowed
	Kinds            []string `json:"kinds"`  // allowed updates
}

// A CallState tells of a call that a former leader has in flight, or had: with
// neither a result nor NotBegun it is still in flight.
type CallState struct {
	Request  string      `json:"request"`
	Result   *CallResult `json:"result,omitempty"`
	NotBegun bool        `json:"not_begun,omitempty"` // it was not made after all
}

// ended reports whether there is news of the call.
func (s CallState) ended() bool { return s.Result != nil || s.NotBegun }

// A CallResult is what a call gave, as the far side printed it.
type CallResult struct {
	Status int             `json:"status"` // HTTP status of the bus answer
	Body   json.RawMessage `json:"body"`   // at most MaxResult bytes
	// Passing: the call surely had no effect, so this answers who asked and is
	// not kept: the same call may be made later.
	Passing bool `json:"-"`
}

// A JoinRequest is the body of POST /v1/join.
type JoinRequest struct {
	Instance    string      `json:"instance"`
	Name        string      `json:"name"`
	PID         int         `json:"pid"`
	Host        string      `json:"host"`
	Version     string      `json:"version"`
	Leaving     bool        `json:"leaving,omitempty"`
	HighestTerm uint64      `json:"highest_term"`
	Concurrency int         `json:"concurrency"`
	Settings    Settings    `json:"settings"`
	InHand      []Held      `json:"in_hand,omitempty"`
	Finished    []Ack       `json:"finished,omitempty"`
	Calls       []CallState `json:"calls,omitempty"`
}

// An AckRequest is the body of POST /v1/ack: outcomes of deliveries, and
// results of calls that the member made when it led.
type AckRequest struct {
	Acks  []Ack       `json:"acks,omitempty"`
	Calls []CallState `json:"calls,omitempty"`
}

// An AckAnswer has one verdict for each Ack, in their order.
type AckAnswer struct {
	Verdicts []Verdict `json:"verdicts"`
}

// A HandoverRequest is the body of POST /v1/handover.
type HandoverRequest struct {
	To string `json:"to,omitempty"` // name of the member that shall lead; empty: any
}

// A MessageType is the kind of a line of the stream.
type MessageType string

const (
	MsgWelcome    MessageType = "welcome"
	MsgUpdate     MessageType = "update"
	MsgSupersede  MessageType = "supersede"
	MsgRoster     MessageType = "roster"
	MsgPing       MessageType = "ping"
	MsgBye        MessageType = "bye"
	memberUpdates             = "update" // member of the line that holds the raw bytes
)

// A Message is one line of the stream that answers a join. The first is a
// welcome; the fields that belong to a type are named beside it.
type Message struct {
	Type MessageType `json:"type"`
	Term uint64      `json:"term,omitempty"` // the leader's, in every line

	// welcome
	Protocol     string    `json:"protocol,omitempty"`
	Registration string    `json:"registration,omitempty"`
	Name         string    `json:"name,omitempty"`     // the member's, made unique
	Verdicts     []Verdict `json:"verdicts,omitempty"` // of the join's finished, in their order
	Superseded   []Held    `json:"superseded,omitempty"`
	Notices      []string  `json:"notices,omitempty"` // settings that differ, in words

	// update, supersede
	Delivery      string          `json:"delivery,omitempty"`
	Attempt       int             `json:"attempt,omitempty"`
	Lane          string          `json:"lane,omitempty"`
	Update        json.RawMessage `json:"update,omitempty"`
	UpdateEncoded *string         `json:"update_base64,omitempty"` // see internal/rawjson

	// roster: instances of the members that may lead, in the order in which
	// they try; bye: the one that shall lead, if one was asked for
	Heirs []string `json:"heirs,omitempty"`
	Heir  string   `json:"heir,omitempty"`
}

// An ErrorAnswer is the body of every refusal, but of those that net/http makes
// by itself (404, 405, 431).
type ErrorAnswer struct {
	Error string `json:"error"`          // what happened and what to do, in words
	Code  string `json:"code"`           // one of the Code constants
	Term  uint64 `json:"term,omitempty"` // the answering leader's
}

// Codes of refusals.
const (
	CodeNotLeader    = "not_leader"   // 503: this member does not lead
	CodeSecret       = "secret"       // 401
	CodeUser         = "user"         // 403: the peer's user id
	CodeProtocol     = "protocol"     // 426
	CodeTerm         = "term"         // 409: the request names another term
	CodeRegistration = "registration" // 409: not the member's present registration
	CodeSettings     = "settings"     // 409: times differ
	CodeSuperseded   = "superseded"   // 409: another attempt of the delivery is under way
	CodeRequest      = "request"      // 422: the request id was used with other bytes
	CodeBody         = "body"         // 400, 413
	CodeBusy         = "busy"         // 503: try again
	CodeNobody       = "nobody"       // 409: handover without anybody to take over
	CodeUnknown      = "unknown"      // 502: the outcome of the call is not known
	CodeTelegram     = "telegram"     // 502: the far side answered with an error, in Body
)
