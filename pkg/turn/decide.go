package turn

// Verdict is what follows a turn (goals and chains 1.2).
type Verdict string

// The verdicts that exist without goals: history changes nothing, wait leaves the
// turn open until its next run, park labels, restore puts the status found back,
// interrupt hands to recovery.
const (
	History   Verdict = "history"
	Wait      Verdict = "wait"
	Restore   Verdict = "restore"
	Park      Verdict = "park"
	ParkFail  Verdict = "park_failed"
	Interrupt Verdict = "interrupt"
)

// Situation is what Decide looks at; all of it is read from durable rows.
type Situation struct {
	Epoch     int64 // of the turn
	TaskEpoch int64
	Claimed   bool
	Settled   bool
	Kind      Kind
	Failure   *Failure
	Stopped   string // stop, watchdog, age: why the supervisor ended the run
	Crashed   bool   // the agent died without a finished turn
	Waits     bool   // the run left the turn waiting for its next attempt
}

// The reasons a supervisor ends a run for.
const (
	StopAsked    = "stop"
	StopWatchdog = "watchdog"
	StopAge      = "age"
	StopShutdown = "shutdown"
	StopGround   = "ground_stop"
	StopBudget   = "budget"
	StopPause    = "usage_pause"
)

// Decide returns the first row of the decision table that applies.
func Decide(s Situation) Verdict {
	switch {
	case s.Epoch != s.TaskEpoch || !s.Claimed || s.Settled:
		return History // row 1
	case s.Waits && s.Stopped == "" && !s.Crashed && s.Failure != nil && !s.Failure.Class.Fatal():
		return Wait // row 9: it stays working (FC-003)
	case s.Kind.Restores() && !s.Crashed:
		return Restore // row 2
	case s.Stopped == StopAge, s.Stopped == StopBudget:
		return Park // row 7: neither, parked, not resumed (SY-047)
	case s.Stopped == StopAsked, s.Stopped == StopWatchdog, s.Stopped == StopShutdown, s.Stopped == StopGround, s.Stopped == StopPause:
		return Interrupt
	case s.Failure != nil && s.Failure.Class.Fatal():
		return ParkFail // row 5, FC-006
	case s.Crashed, s.Failure != nil:
		return Interrupt // row 5, FC-007, AA-003
	}
	return Park // row 12
}
