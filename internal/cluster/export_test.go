package cluster

import (
	"time"

	"tgbridge/internal/botapitest"
)

// FirstChat is the id of chat 0 of a load.
const FirstChat = firstChat

// MakeToken and ParseToken write and read tokens.
var (
	MakeToken  = makeToken
	ParseToken = parseToken
)

// Judge is the judge, for tables of events.
type Judge struct{ *judge }

func NewJudge() Judge { return Judge{newJudge()} }

func (j Judge) Process(number int, member, address string)      { j.process(number, member, address) }
func (j Judge) Said(chat int64, token string, at time.Duration) { j.said(chat, token, at) }
func (j Judge) Incident(i Incident)                             { j.incident(i) }
func (j Judge) Lease(c LeaseChange)                             { j.lease(c) }
func (j Judge) Event(e botapitest.Event)                        { j.event(e) }
func (j Judge) Report() Report                                  { return j.report() }

// JudgeRuns judges a log of commands and incidents.
var JudgeRuns = judgeRuns
