// Package names holds what several parts must agree on: limits, header names,
// environment variables, state machine and step names. It imports nothing.
package names

import "time"

// The numeric limits of the lifecycle specification, section 25.
const (
	DeadTurnGrace       = 30 * time.Second
	Breaker             = 3
	AcceptResumes       = 3
	AutoResumes         = 2
	CrashLoopFailures   = 3
	CrashLoopWithin     = 10 * time.Second
	UnreachableAttempts = 60
	SlowUnknownRetries  = 5
	WatchdogRelaunches  = 1
	Watchdog            = 1_800_000 * time.Millisecond
	WaitMax             = 600 * time.Second
	HopLocal            = 600 * time.Second
	HopHosted           = 25 * time.Second
	HopMCPDirect        = 50 * time.Second
	OutsideFlow         = 20 * time.Second
	Heartbeat           = 5 * time.Second
	ShutdownTimer       = 50 * time.Millisecond
	StillRunning        = 5 * time.Second
	ProgressLine        = 120
	NamedWaits          = 2
	BuilderTokens       = 50
	TokenBudgetLeast    = 1000
	ModelPermission     = 30 * time.Second
	BuilderRenew        = 30 * time.Second
	BuilderResidue      = 90 * time.Second
	CapturePeriod       = 30 * time.Second
	ModelHold           = 120 * time.Second
	RunHold             = 120 * time.Second // a run is not kept for a longer wait
	WaitSlice           = 15 * time.Minute  // of a flow's own timer
	LogTailLines        = 200
	LogTailBytes        = 32 << 10
	ReconnectWindow     = 300 * time.Second
	ReconnectFirst      = 250 * time.Millisecond
	ReconnectMost       = 5 * time.Second
	PortFirst           = 26024
	PortCount           = 64
	LeaseTTL            = 60 * time.Second
	LeaseRenew          = 20 * time.Second
	LeaseWait           = 2 * time.Second
	LeaseLook           = 5 * time.Millisecond
	Beat                = 15 * time.Second
	BeatStored          = 30 * time.Second
	CheckpointPeriod    = 30 * time.Second
	BeatTimeout         = 60 * time.Second
	PairSilence         = 60 * time.Second
	SweepHosted         = 60 * time.Second
	SweepLocal          = 5 * time.Second
	OutboxFirst         = 5 * time.Second
	OutboxMost          = 15 * time.Minute
	LaunchLimit         = 30 * time.Minute
	TurnAge             = 6 * time.Hour
	Nonce               = 10 * time.Minute
	Adoption            = 120 * time.Second
	IdempotencyKept     = 24 * time.Hour
	ConfirmationKept    = 10 * time.Minute
	BodyMax             = 5 << 20
	MutableItem         = 4 << 10
	InlineBody          = 16 << 10
	LiveRow             = 1 << 10
	PointerRow          = 1000 // most that a pointer weighs with a prompt in it
	RunRow              = 760  // most that a run's row weighs with its prompt in it; it grows, and is a unit up to 1 KB
	SecretMax           = 8 << 10
	UncommittedKept     = 200
	HandoffEntries      = 50
	HandoffChars        = 20_000
	WaitTasks           = 20
	TinyDiffLines       = 20
	TinyDiffFiles       = 3
	UsagePause          = 95 // percent

	// Of signing in (LG-001, LG-014).
	DeviceLife     = 15 * time.Minute
	DeviceInterval = 5 * time.Second
	CodeLife       = time.Minute
	AccessLife     = time.Hour
	RefreshLife    = 90 * 24 * time.Hour // since the last refresh
	FlowLife       = 10 * time.Minute    // of a sign-in at the identity provider
	BrowserLife    = 30 * time.Minute    // of a browser that may approve
	LinkLife       = 5 * time.Minute     // of an owner's link
	NewClientLife  = 24 * time.Hour      // of a registered client that nobody has approved
)

// RetryDelays is the pacing of transient failures; the last one repeats (FC-003).
func RetryDelays() []time.Duration {
	return []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 60 * time.Second}
}

// ResumeDelays is when the automatic resumes in a row start (CR-020).
func ResumeDelays() []time.Duration { return []time.Duration{5 * time.Second, 30 * time.Second} }
