package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// scripted is a driver whose classification the test decides; everything else is
// a command's.
type scripted struct {
	command.Driver
	class func(agent.End) *turn.Failure
}

func (s scripted) Classify(e agent.End) *turn.Failure { return s.class(e) }

func fresh(watchdog time.Duration, class func(agent.End) *turn.Failure) *run {
	r := &run{kick: make(chan struct{}, 1), progress: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler), state: "running"}
	r.After = after
	r.cmd.WatchdogMS = watchdog.Milliseconds()
	r.drv = scripted{class: class}
	return r
}

func classOnce(c turn.Class) func(agent.End) *turn.Failure {
	return func(agent.End) *turn.Failure { return &turn.Failure{Class: c, Reason: "said so"} }
}

// starts runs work with attempts of a given length and returns when each began.
func starts(ctx context.Context, t *testing.T, r *run, each time.Duration) ([]time.Duration, result) {
	t.Helper()
	began := time.Now()
	var at []time.Duration
	res := r.work(ctx, func(ctx context.Context) attempt {
		at = append(at, time.Since(began))
		select {
		case <-time.After(each):
		case <-ctx.Done():
			return attempt{stopped: stopOf(ctx)}
		}
		return attempt{end: agent.End{Code: 1}, took: each}
	})
	return at, res
}

func TestTransientFailuresArePacedUntilTheTurnsAgeAndNeverACrashLoop(t *testing.T) {
	req.Covers(t, "FC-003", "FC-004", "SY-047")
	for _, class := range []turn.Class{turn.Overload, turn.Network} {
		synctest.Test(t, func(t *testing.T) {
			r := fresh(time.Hour, classOnce(class))
			ctx, cancel := context.WithCancelCause(t.Context())
			age := time.AfterFunc(6*time.Hour, func() { cancel(&stopped{turn.StopAge, "the turn reached its maximum age"}) })
			defer age.Stop()
			at, res := starts(ctx, t, r, 0)
			want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 135 * time.Second, 195 * time.Second}
			for i, w := range want {
				if at[i] != w {
					t.Errorf("%s: attempt %d at %s, want %s", class, i+1, at[i], w)
				}
			}
			if res.stopped == nil || res.stopped.why != turn.StopAge || res.failure != nil {
				t.Errorf("%s: ended as %+v", class, res)
			}
			if perHour := len(at) / 6; perHour < 58 || perHour > 62 {
				t.Errorf("%s: %d attempts an hour", class, perHour)
			}
		})
	}
}

func TestThreeFastUnknownFailuresAreACrashLoop(t *testing.T) {
	req.Covers(t, "FC-004", "FC-007", "FC-001")
	synctest.Test(t, func(t *testing.T) {
		r := fresh(time.Hour, command.Driver{}.Classify)
		at, res := starts(t.Context(), t, r, names.CrashLoopWithin-time.Nanosecond)
		if len(at) != names.CrashLoopFailures {
			t.Errorf("%d attempts", len(at))
		}
		if f := res.failure; f == nil || f.Class != turn.Unknown || f.Attempts != names.CrashLoopFailures || res.stopped != nil {
			t.Errorf("ended as %+v %+v", res, res.failure)
		}
	})
}

func TestASlowFailureBreaksTheLoopAndIsRetriedFiveTimes(t *testing.T) {
	req.Covers(t, "FC-025")
	synctest.Test(t, func(t *testing.T) {
		r := fresh(time.Hour, classOnce(turn.Unknown))
		at, res := starts(t.Context(), t, r, names.CrashLoopWithin)
		if len(at) != 1+names.SlowUnknownRetries || res.failure == nil {
			t.Errorf("%d attempts, %+v", len(at), res)
		}
		for i, d := range names.RetryDelays() {
			if got := at[i+1] - at[i] - names.CrashLoopWithin; got != d {
				t.Errorf("pause %d: %s, want %s", i+1, got, d)
			}
		}
	})
}

func TestAnUnreachableGatewayIsRetriedSixtyTimesAndThenFatal(t *testing.T) {
	req.Covers(t, "FC-005", "FC-006")
	synctest.Test(t, func(t *testing.T) {
		r := fresh(time.Hour, classOnce(turn.Unreachable))
		at, res := starts(t.Context(), t, r, 0)
		if len(at) != names.UnreachableAttempts || res.failure == nil || !res.failure.Class.Fatal() {
			t.Errorf("%d attempts, %+v", len(at), res.failure)
		}
	})
}

func TestAFatalFailureIsNotRetried(t *testing.T) {
	req.Covers(t, "FC-006")
	for _, class := range []turn.Class{turn.FatalAuth, turn.FatalConfig} {
		synctest.Test(t, func(t *testing.T) {
			at, res := starts(t.Context(), t, fresh(time.Hour, classOnce(class)), 0)
			if len(at) != 1 || res.failure == nil || res.failure.Class != class {
				t.Errorf("%s: %d attempts, %+v", class, len(at), res.failure)
			}
		})
	}
}

func TestTheRetryLineShowsAndClears(t *testing.T) {
	req.Covers(t, "FC-011", "OB-040")
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := fresh(time.Hour, func(agent.End) *turn.Failure {
			if n++; n < 3 {
				return &turn.Failure{Class: turn.Overload, Reason: "busy\x1b[31m\nnow"}
			}
			return nil
		})
		var lines []string
		res := r.work(t.Context(), func(context.Context) attempt {
			lines = append(lines, r.sign().Retry)
			return attempt{}
		})
		want := []string{"", `attempt 1 (transient_overload): busy\u001b[31m now`, `attempt 2 (transient_overload): busy\u001b[31m now`}
		if strings.Join(lines, "|") != strings.Join(want, "|") || r.sign().Retry != "" || res.failure != nil {
			t.Errorf("lines %q, then %q, %+v", lines, r.sign().Retry, res)
		}
	})
}

func TestTheWatchdogRelaunchesOnceUnlessCommitsWereMade(t *testing.T) {
	req.Covers(t, "FC-021", "FC-023")
	fired := attempt{stopped: &stopped{turn.StopWatchdog, errWatchdog.Error()}}
	withCommits := fired
	withCommits.commits = 2
	for name, c := range map[string]struct {
		attempts []attempt
		launches int
		words    []string
	}{
		"no commits":            {[]attempt{fired, fired}, 2, []string{"30m0s", "not progress", "relaunched once"}},
		"commits":               {[]attempt{withCommits}, 1, []string{"30m0s", "not progress", "not relaunched", "(2)"}},
		"commits at the second": {[]attempt{fired, withCommits}, 2, []string{"relaunched once"}},
	} {
		r := fresh(names.Watchdog, nil)
		n := 0
		res := r.work(t.Context(), func(context.Context) attempt {
			n++
			return c.attempts[n-1]
		})
		if n != c.launches || res.stopped == nil || res.stopped.why != turn.StopWatchdog {
			t.Errorf("%s: %d launches, %+v", name, n, res.stopped)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(res.stopped.text, w) {
				t.Errorf("%s: %q does not say %q", name, res.stopped.text, w)
			}
		}
	}
}

func TestARelaunchThatSucceedsEndsTheTurnNormally(t *testing.T) {
	req.Covers(t, "FC-021")
	r := fresh(time.Minute, command.Driver{}.Classify)
	n := 0
	res := r.work(t.Context(), func(context.Context) attempt {
		if n++; n == 1 {
			return attempt{stopped: &stopped{turn.StopWatchdog, ""}}
		}
		return attempt{}
	})
	if n != 2 || res.stopped != nil || res.failure != nil {
		t.Errorf("%d launches, %+v", n, res)
	}
}

func TestAStopEndsAWaitForTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fresh(time.Hour, classOnce(turn.Overload))
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(&stopped{turn.StopAsked, "a stop was asked for"}) })
		at, res := starts(ctx, t, r, 0)
		if len(at) != 1 || res.stopped == nil || res.stopped.why != turn.StopAsked {
			t.Errorf("%d attempts, %+v", len(at), res)
		}
	})
}

func TestAnAgentThatCannotBeStartedIsNotTriedAgain(t *testing.T) {
	r := fresh(time.Hour, nil)
	n := 0
	res := r.work(t.Context(), func(context.Context) attempt {
		n++
		return attempt{broken: errors.New("no sandbox")}
	})
	if n != 1 || res.failure == nil || res.failure.Reason != "no sandbox" {
		t.Errorf("%d launches, %+v", n, res.failure)
	}
}

func FuzzHandoffLinesNeverBreakTheCollection(f *testing.F) {
	f.Add([]byte(`{"kind":"journal","content":"a"}` + "\n" + `{"kind":"raised","blocking":true,"content":"b"}`))
	f.Add([]byte("{\n\xff\xfe\n{\"kind\":\"followup\",\"content\":\"c\",\"blocking\":true}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, over, bad := parseHandoff(strings.NewReader(string(b)))
		if len(got) > names.HandoffEntries || over < 0 || bad < 0 {
			t.Fatalf("%d entries, %d over, %d bad", len(got), over, bad)
		}
		for _, h := range got {
			if h.Kind != "journal" && h.Kind != "raised" || h.Kind == "journal" && h.Blocking || len([]rune(h.Content)) > names.HandoffChars {
				t.Fatalf("entry %+v", h)
			}
		}
	})
}

func TestHandoffEntriesAreReadOneByOne(t *testing.T) {
	req.Covers(t, "HF-002", "HF-005", "HF-008")
	in := `{"kind":"journal","content":"one","blocking":true}
not json
{"kind":"raised","content":"two"}
{"kind":"raised","blocking":true,"content":"three"}
{"kind":"followup","blocking":true,"content":"four"}
{"kind":"command","content":"rm"}
{"kind":"journal","content":"  "}
{"kind":"journal","content":"cu`
	got, over, bad := parseHandoff(strings.NewReader(in))
	want := []turn.Handoff{{Kind: "journal", Content: "one"}, {Kind: "raised", Content: "two"}, {Kind: "raised", Content: "three", Blocking: true}, {Kind: "raised", Content: "four"}}
	if len(got) != len(want) || over != 0 || bad != 4 {
		t.Fatalf("%+v, %d over, %d bad", got, over, bad)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d: %+v", i, got[i])
		}
	}
	got, over, _ = parseHandoff(strings.NewReader(strings.Repeat(`{"kind":"journal","content":"`+strings.Repeat("x", names.HandoffChars+5)+`"}`+"\n", 60)))
	if len(got) != names.HandoffEntries || over != 10 || len(got[0].Content) != names.HandoffChars {
		t.Errorf("%d entries, %d over, %d characters", len(got), over, len(got[0].Content))
	}
}
