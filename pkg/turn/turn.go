// Package turn holds what one turn of a task is: its record, how it ended, what
// its run reported, and the decision that follows.
package turn

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// Kind is what a run is for (WF-09).
type Kind string

// The kinds of turns this product runs.
const (
	Work   Kind = "work"
	Ask    Kind = "ask"
	Review Kind = "review"
	Sync   Kind = "sync"
	Gate   Kind = "gate"
	Pair   Kind = "pair"
)

// Restores reports whether a turn of this kind puts the status found back
// (SN-008, HA-009).
func (k Kind) Restores() bool { return k == Ask || k == Review || k == Sync }

// ReadOnly reports whether the agent of such a turn is served reads only.
func (k Kind) ReadOnly() bool { return k == Ask || k == Review }

// Ending is how a work turn ended (TE-001). It is derived from what the turn
// did; the agent is never asked.
type Ending string

// The three endings.
const (
	DeclaredDone Ending = "declared_done"
	NeedsInput   Ending = "needs_input"
	Neither      Ending = "neither"
)

// Side tells human-side turns from the agent's answers and the system's notes.
type Side string

// The sides of a conversation.
const (
	Input  Side = "input"  // words or a verb that started a run
	Answer Side = "answer" // what the run left
	Crash  Side = "crash"  // a run that died
	Note   Side = "note"   // a system turn, such as an automatic resume
)

// Turn is one entry of a task's conversation. Its text lies in a body row.
type Turn struct {
	ID    id.Turn `json:"id"`
	Seq   int64   `json:"seq"`
	Side  Side    `json:"side"`
	Kind  Kind    `json:"kind"`
	Verb  string  `json:"verb,omitempty"` // start, unblock, resume, ask, …
	Epoch int64   `json:"epoch"`
	N     int     `json:"n"` // executions begun for it

	Actor *identity.Actor `json:"by,omitempty"` // nil on an agent's answer (AC-006)
	Body  string          `json:"body,omitempty"`
	Text  string          `json:"text,omitempty"` // short texts, up to 1 KB, inline

	Agent  string `json:"agent,omitempty"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Host   bool   `json:"host_process,omitempty"` // it ran without a sandbox

	Shown    []int64   `json:"shown,omitempty"`   // comments its prompt carried
	Journal  int64     `json:"journal"`           // entries that existed when its prompt was made
	Answers  id.Turn   `json:"answers,omitempty"` // the input an answer belongs to
	Normal   bool      `json:"normal,omitempty"`  // an answer with which its turn ended normally
	Receipt  string    `json:"receipt,omitempty"` // "" | carried | delivered: the words' receipt
	Redelive []id.Turn `json:"redelivers,omitempty"`

	Ending      Ending        `json:"ending,omitempty"`
	Outcome     string        `json:"outcome,omitempty"` // ok, error, stopped, crashed, history
	Failure     *Failure      `json:"failure,omitempty"`
	Head        string        `json:"head,omitempty"`
	Commits     int64         `json:"commits,omitempty"`
	Uncommitted Leftover      `json:"uncommitted,omitzero"`
	Setup       string        `json:"setup,omitempty"`        // body row of workspace setup output
	Drifted     string        `json:"drifted,omitempty"`      // HEAD found inside that was not the recorded tip
	Lost        string        `json:"lost_session,omitempty"` // its conversation was lost, and a fresh one begun
	LostWhy     string        `json:"lost_reason,omitempty"`  // how that showed
	Summary     string        `json:"summary,omitempty"`
	ExitCode    int           `json:"exit_code,omitempty"`
	Log         string        `json:"log,omitempty"` // body row of the last log lines
	Began       time.Time     `json:"began"`
	Ended       time.Time     `json:"ended,omitzero"`
	Waited      time.Duration `json:"waited,omitempty"` // blocked in a wait, apart from working time
	Usage       []model.Usage `json:"usage,omitempty"`  // what the run spent
	Gates       int64         `json:"gates,omitempty"`  // generation of the flags it was admitted under
	Passed      bool          `json:"passed,omitempty"` // it was let past the usage pause
}

// Delivered reports whether the words of an input have reached a turn that ended
// normally (CR-012). answered says that its own has: where the prompt carried
// nothing but them, that is told from the answer and written nowhere else.
func (t Turn) Delivered(answered bool) bool {
	return t.Receipt == "delivered" || answered && len(t.Shown)+len(t.Redelive) == 0
}

// Leftover is the uncommitted paths a turn left behind, capped (UW-005, UW-009).
type Leftover struct {
	Paths []string `json:"paths,omitempty"`
	Total int      `json:"total,omitempty"`
}

// IsZero lets the JSON form leave an empty leftover out.
func (l Leftover) IsZero() bool { return l.Total == 0 }

// Class sorts a failure of the agent (FC-001).
type Class string

// The classes.
const (
	Overload    Class = "transient_overload"
	Network     Class = "transient_network"
	Unreachable Class = "transient_unreachable"
	FatalAuth   Class = "fatal_auth"
	FatalConfig Class = "fatal_config"
	Unknown     Class = "unknown"
)

// Fatal reports whether no retry can help.
func (c Class) Fatal() bool { return c == FatalAuth || c == FatalConfig || c == Unreachable }

// Failure is a typed failure of a run.
type Failure struct {
	Class    Class  `json:"class"`
	Reason   string `json:"reason"`
	Attempts int    `json:"attempts,omitempty"`
	// RetryAfter is the delay that the other side asked for, 0 when it named none.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// Pace is where the retries of a turn stand (FC-003 to FC-007, FC-025). A run that
// leaves its turn waiting hands it on, so that the next one goes on counting.
type Pace struct {
	Attempts    int `json:"attempts,omitempty"`
	Transient   int `json:"transient,omitempty"` // in a row
	Unreachable int `json:"unreachable,omitempty"`
	Fast        int `json:"fast,omitempty"`       // unknown failures of under 10 s, in a row
	Slow        int `json:"slow,omitempty"`       // unknown failures of 10 s and more
	Relaunched  int `json:"relaunched,omitempty"` // by the watchdog
}

// Response is what a supervisor reports at the end of a run (WF-10). It is
// stored before any status changes (CR-019) and treated as untrusted (AG-023).
type Response struct {
	Turn        id.Turn       `json:"turn_id"`
	Epoch       int64         `json:"epoch"`
	Outcome     string        `json:"outcome"` // ok, error, stopped, crashed
	Failure     *Failure      `json:"failure,omitempty"`
	Session     string        `json:"session_id,omitempty"`
	Lost        string        `json:"lost_session_id,omitempty"` // could not be resumed, so a fresh one was begun
	LostWhy     string        `json:"lost_reason,omitempty"`     // how that showed
	Head        string        `json:"head,omitempty"`
	Commits     int64         `json:"commits"`
	Uncommitted Leftover      `json:"uncommitted_paths,omitzero"`
	Handoff     []Handoff     `json:"handoff,omitempty"`
	MergeState  []string      `json:"merge_state,omitempty"` // unmerged paths
	Recovery    string        `json:"worktree_recovery,omitempty"`
	Settled     bool          `json:"settled"`
	Text        string        `json:"text,omitempty"` // the agent's last message, capped
	ExitCode    int           `json:"exit_code,omitempty"`
	Log         string        `json:"log,omitempty"`   // last lines of the agent's output
	Setup       string        `json:"setup,omitempty"` // output of workspace setup
	SetupFailed bool          `json:"setup_failed,omitempty"`
	Drifted     string        `json:"drifted,omitempty"`
	Stopped     string        `json:"stopped,omitempty"` // why the supervisor ended it: stop, age, watchdog
	Host        bool          `json:"host_process,omitempty"`
	Agent       time.Duration `json:"agent_time,omitempty"`
	// Wait is set when the turn is not over: the agent failed in a way that passes,
	// and is to be run again after it by a run that this one is not kept for.
	Wait time.Duration `json:"wait,omitempty"`
	Pace *Pace         `json:"pace,omitempty"`
	// Usage is all that the run spent, Readings the newest of each credential.
	Usage    []model.Usage   `json:"usage,omitempty"`
	Readings []model.Reading `json:"readings,omitempty"`
	// Rest is where the control plane keeps Text and Handoff when they are too long
	// for the answer's row. It is never taken from a runner.
	Rest string `json:"rest,omitempty"`
	// At is when it was stored, by the plane's clock.
	At time.Time `json:"at,omitzero"`
}

// Handoff is one line an agent left in the hand-off file (HF-002).
type Handoff struct {
	Kind     string `json:"kind"`
	Content  string `json:"content"`
	Blocking bool   `json:"blocking,omitempty"`
}

// EndingOf derives the ending of a work turn from what it did (TE-002, TE-006,
// TE-007, TE-017): an open blocking item it filed wins over a declaration, and a
// turn that did not end by itself is neither.
func EndingOf(endedByItself, declared, blockingOpen bool) Ending {
	switch {
	case !endedByItself:
		return Neither
	case blockingOpen:
		return NeedsInput
	case declared:
		return DeclaredDone
	}
	return Neither
}

// Own is a task's branch as its remote has it: a commit, or in one line why there
// is none to bring in (SN-003).
type Own struct {
	Ref    string `json:"ref"` // for example "origin/lazy/fix"
	Commit string `json:"commit,omitempty"`
	Skip   string `json:"skip,omitempty"`
}

// Run is the run item of an epoch (SY-048): liveness, progress and the task
// token, apart from the task so that beats never conflict with people's edits.
type Run struct {
	Task       id.Task         `json:"task"`
	Turn       id.Turn         `json:"turn"`
	Epoch      int64           `json:"epoch"`
	Kind       Kind            `json:"kind"`
	N          int             `json:"n"`
	Ref        string          `json:"ref,omitempty"`         // the runner's reference for what it launched
	Token      string          `json:"token,omitempty"`       // task token in force
	TokenFor   string          `json:"token_for,omitempty"`   // launch, run or broker
	Refused    string          `json:"refused,omitempty"`     // what a broker's token is failed with, "" when it has merged
	Tip        string          `json:"tip,omitempty"`         // the recorded tip when the turn was prepared
	Prompt     string          `json:"prompt,omitempty"`      // what the agent is told, where that is short
	PromptBody string          `json:"prompt_body,omitempty"` // else the body it is
	StopBy     *identity.Actor `json:"stop_by,omitempty"`
	Version    int64           `json:"version"`
	State      string          `json:"state"`           // claimed, prepared, launching, launched, running, reported, stopping, gone
	Phase      string          `json:"phase,omitempty"` // harness phase
	Progress   string          `json:"progress,omitempty"`
	Retry      string          `json:"retry,omitempty"`   // the retry line
	Waiting    []string        `json:"waiting,omitempty"` // labels of tasks it waits on
	WaitSince  time.Time       `json:"wait_since,omitzero"`
	WaitUntil  time.Time       `json:"wait_until,omitzero"` // after it the marker is ignored
	Waited     time.Duration   `json:"waited,omitempty"`    // ended waits, apart from agent time
	Stop       string          `json:"stop,omitempty"`      // reason handed out on the next beat
	Steps      int64           `json:"steps"`
	Checkpoint *Checkpoint     `json:"checkpoint,omitempty"`
	Claimed    time.Time       `json:"claimed"`
	Prepared   time.Time       `json:"prepared,omitzero"`
	Launched   time.Time       `json:"launched,omitzero"`
	Hello      time.Time       `json:"hello,omitzero"`
	Running    time.Time       `json:"running,omitzero"`
	Beat       time.Time       `json:"beat,omitzero"`
	Ended      time.Time       `json:"ended,omitzero"`
	ExitCode   int             `json:"exit_code,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Next       time.Time       `json:"next,omitzero"`        // the turn waits until then, without a run
	Pace       *Pace           `json:"pace,omitempty"`       // what earlier runs of the turn have tried
	Salt       string          `json:"salt,omitempty"`       // of the nonce and the runner's token
	NonceUntil time.Time       `json:"nonce_until,omitzero"` // after it the nonce opens nothing
	Claimant   string          `json:"claimant,omitempty"`   // hash of the key the nonce was exchanged under
	Merged     string          `json:"merged,omitempty"`     // what a sync brought in, as it is shown (SN-005)
	Own        *Own            `json:"own,omitempty"`        // what a sync found of the branch on its remote
	Host       bool            `json:"host_process,omitempty"`
	Usage      []model.Usage   `json:"usage,omitempty"`    // spent so far
	StopSeen   time.Time       `json:"stop_seen,omitzero"` // its supervisor said that it calls no model any more
}
