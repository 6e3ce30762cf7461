package turn_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestTheEndingIsDerivedFromWhatTheTurnDid(t *testing.T) {
	req.Covers(t, "TE-001", "TE-002", "TE-006", "TE-007", "TE-017")
	for _, c := range []struct {
		itself, declared, blocking bool
		want                       turn.Ending
	}{
		{true, true, false, turn.DeclaredDone},
		{true, true, true, turn.NeedsInput},
		{true, false, true, turn.NeedsInput},
		{true, false, false, turn.Neither},
		{false, true, false, turn.Neither},
		{false, true, true, turn.Neither},
		{false, false, false, turn.Neither},
	} {
		if got := turn.EndingOf(c.itself, c.declared, c.blocking); got != c.want {
			t.Errorf("ended by itself %t, declared %t, blocking %t: %s, want %s", c.itself, c.declared, c.blocking, got, c.want)
		}
	}
}

func TestTheDecisionTableTakesTheFirstRowThatApplies(t *testing.T) {
	req.Covers(t, "FC-006", "FC-007", "FC-022", "SY-047", "CR-018")
	held := turn.Situation{Epoch: 3, TaskEpoch: 3, Claimed: true, Kind: turn.Work}
	with := func(f func(*turn.Situation)) turn.Situation { s := held; f(&s); return s }
	fail := func(c turn.Class) func(*turn.Situation) {
		return func(s *turn.Situation) { s.Failure = &turn.Failure{Class: c} }
	}
	for name, c := range map[string]struct {
		s    turn.Situation
		want turn.Verdict
	}{
		"a normal end parks":                    {held, turn.Park},
		"an older epoch is history":             {with(func(s *turn.Situation) { s.Epoch = 2 }), turn.History},
		"a released claim is history":           {with(func(s *turn.Situation) { s.Claimed = false }), turn.History},
		"a settled turn is history":             {with(func(s *turn.Situation) { s.Settled = true }), turn.History},
		"history comes before restore":          {with(func(s *turn.Situation) { s.Settled = true; s.Kind = turn.Ask }), turn.History},
		"an ask restores":                       {with(func(s *turn.Situation) { s.Kind = turn.Ask }), turn.Restore},
		"a review restores":                     {with(func(s *turn.Situation) { s.Kind = turn.Review }), turn.Restore},
		"a sync restores":                       {with(func(s *turn.Situation) { s.Kind = turn.Sync }), turn.Restore},
		"a stopped ask restores":                {with(func(s *turn.Situation) { s.Kind = turn.Ask; s.Stopped = turn.StopAsked }), turn.Restore},
		"a failed ask restores":                 {with(func(s *turn.Situation) { s.Kind = turn.Ask; fail(turn.FatalAuth)(s) }), turn.Restore},
		"a crashed ask is interrupted":          {with(func(s *turn.Situation) { s.Kind = turn.Ask; s.Crashed = true }), turn.Interrupt},
		"the maximum age parks":                 {with(func(s *turn.Situation) { s.Stopped = turn.StopAge }), turn.Park},
		"the maximum age parks a failing turn":  {with(func(s *turn.Situation) { s.Stopped = turn.StopAge; fail(turn.Unknown)(s) }), turn.Park},
		"a stop interrupts":                     {with(func(s *turn.Situation) { s.Stopped = turn.StopAsked }), turn.Interrupt},
		"a stop interrupts a fatal failure":     {with(func(s *turn.Situation) { s.Stopped = turn.StopAsked; fail(turn.FatalAuth)(s) }), turn.Interrupt},
		"the watchdog interrupts":               {with(func(s *turn.Situation) { s.Stopped = turn.StopWatchdog }), turn.Interrupt},
		"a shutdown interrupts":                 {with(func(s *turn.Situation) { s.Stopped = turn.StopShutdown }), turn.Interrupt},
		"a dead credential parks":               {with(fail(turn.FatalAuth)), turn.ParkFail},
		"a wrong configuration parks":           {with(fail(turn.FatalConfig)), turn.ParkFail},
		"a gateway out of reach for good parks": {with(fail(turn.Unreachable)), turn.ParkFail},
		"a crash loop interrupts":               {with(fail(turn.Unknown)), turn.Interrupt},
		"an overload that was given up":         {with(fail(turn.Overload)), turn.Interrupt},
		"a network failure that was given up":   {with(fail(turn.Network)), turn.Interrupt},
		"a crash interrupts":                    {with(func(s *turn.Situation) { s.Crashed = true }), turn.Interrupt},
		"no reason of stopping is no stop":      {with(func(s *turn.Situation) { s.Stopped = "" }), turn.Park},
	} {
		if got := turn.Decide(c.s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestKinds(t *testing.T) {
	for k, want := range map[turn.Kind][2]bool{
		turn.Work: {}, turn.Gate: {}, turn.Pair: {}, turn.Sync: {true, false}, turn.Ask: {true, true}, turn.Review: {true, true},
	} {
		if got := [2]bool{k.Restores(), k.ReadOnly()}; got != want {
			t.Errorf("%s restores, is read-only = %v, want %v", k, got, want)
		}
	}
}

func TestAReportTravelsInItsWireShape(t *testing.T) {
	req.Covers(t, "WF-10", "WF-20")
	b, err := json.Marshal(turn.Response{Turn: "t", Epoch: 2, Outcome: "ok", Settled: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"turn_id":"t"`, `"epoch":2`, `"outcome":"ok"`, `"commits":0`, `"settled":true`} {
		if !strings.Contains(string(b), field) {
			t.Errorf("%s lacks %s", b, field)
		}
	}
	if strings.Contains(string(b), "uncommitted_paths") {
		t.Errorf("an empty leftover is written: %s", b)
	}
	b, err = json.Marshal(turn.BeatOut{Stop: "stop"})
	if err != nil || !strings.Contains(string(b), `"stop":"stop"`) || !strings.Contains(string(b), `"model_until"`) {
		t.Errorf("a beat's reply is %s (%v)", b, err)
	}
}
