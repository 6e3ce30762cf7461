package supervisor

import (
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// pace decides whether an agent that failed is run again in the same turn, and
// after how long (FC-001 to FC-007, FC-025).
type pace struct{ turn.Pace }

// fastPause is between the failures of what may be a crash loop.
const fastPause = time.Second

// next takes a failure and how long the attempt lasted. more is false when the
// failure ends the turn.
func (p *pace) next(f turn.Failure, took time.Duration) (wait time.Duration, more bool) {
	p.Attempts++
	if f.Class != turn.Unknown {
		p.Fast = 0
	}
	switch f.Class {
	case turn.Overload, turn.Network:
		p.Transient++
		return max(delay(p.Transient), f.RetryAfter), true // the peer's own delay is honored
	case turn.Unreachable:
		p.Unreachable++
		return delay(p.Unreachable), p.Unreachable < names.UnreachableAttempts
	case turn.FatalAuth, turn.FatalConfig:
		return 0, false
	case turn.Unknown:
	}
	p.Transient = 0
	if took < names.CrashLoopWithin {
		p.Fast++
		return time.Duration(p.Fast) * fastPause, p.Fast < names.CrashLoopFailures
	}
	p.Fast = 0
	p.Slow++
	return delay(p.Slow), p.Slow <= names.SlowUnknownRetries
}

// delay is the pause before the n-th retry; the last of the list repeats.
func delay(n int) time.Duration {
	d := names.RetryDelays()
	return d[min(n, len(d))-1]
}

// retryLine is what status surfaces show while a turn is retrying (OB-040, WF-15).
func retryLine(attempt int, f turn.Failure) string {
	snippet, _ := text.Cut(text.Line(f.Reason), 160)
	return fmt.Sprintf("attempt %d (%s): %s", attempt, f.Class, snippet)
}
