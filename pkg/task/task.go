package task

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// Task is the task's own row, at most 4 KB: long texts lie in rows of their own.
type Task struct {
	Schema  int     `json:"schema"`
	Tenant  string  `json:"tenant"`
	Project string  `json:"project"`
	ID      id.Task `json:"id"`
	Code    string  `json:"code"`
	Goal    string  `json:"goal"`
	Prompt  string  `json:"prompt"` // name of the body row
	Type    string  `json:"type,omitempty"`
	Parent  id.Task `json:"parent,omitempty"`

	Agent  string   `json:"agent"`
	Model  string   `json:"model,omitempty"`
	Effort string   `json:"effort,omitempty"`
	Payer  string   `json:"payer,omitempty"` // email of the person whose credentials its turns spend
	Tags   []string `json:"tags,omitempty"`

	Status  Status `json:"status"`
	Prior   Status `json:"prior,omitempty"` // recorded by the claim in force
	Epoch   int64  `json:"epoch"`           // grows by one per claim; the fence
	Claimed bool   `json:"claimed"`         // the epoch is held
	Version int64  `json:"version"`

	Turn      id.Turn   `json:"turn,omitempty"` // the running turn, else the last
	TurnSeq   int64     `json:"turn_seq"`
	TurnKind  string    `json:"turn_kind,omitempty"`
	TurnBegan time.Time `json:"turn_began,omitzero"`

	Host       bool   `json:"host_process,omitempty"` // its last turn ran without a sandbox (AG-028)
	HadSession bool   `json:"had_session"`
	Salt       string `json:"salt,omitempty"`    // of the agent's token, from the first run until the end
	Session    string `json:"session,omitempty"` // the agent CLI's own session id

	Target    string     `json:"target"` // branch it merges into
	Branch    string     `json:"branch,omitempty"`
	Base      string     `json:"base,omitempty"`
	Tip       string     `json:"tip,omitempty"` // the recorded tip; the broker works from it
	Commits   int64      `json:"commits"`
	Workspace *Workspace `json:"workspace,omitempty"`
	MidMerge  []string   `json:"mid_merge,omitempty"` // unmerged files at the last probe
	Merging   string     `json:"merging,omitempty"`   // upstream commit a broker was told to merge, until the branch has it
	Answered  int64      `json:"answered,omitempty"`  // epoch of the last run whose own answer was settled

	Violations []Violation  `json:"violations,omitempty"`
	Final      *Declaration `json:"final,omitempty"`
	Raised     int64        `json:"raised"`        // items ever raised
	Open       int64        `json:"open_raised"`   // items still to be decided
	Blocking   int64        `json:"open_blocking"` // of these, the blocking ones
	Comments   int64        `json:"comments"`
	Queued     int64        `json:"queued_comments"` // not yet delivered
	Journal    int64        `json:"journal"`

	// Then is a reject or close that waits for the running turn to end (SM-026).
	Then *Then `json:"then,omitempty"`

	Hold          bool `json:"hold,omitempty"` // lazy stop: no automatic resume
	Interruptions int  `json:"interruptions"`  // in a row, counted by the breaker
	Resumes       int  `json:"auto_resumes"`   // automatic, in a row
	// Launches counts runs in a row that never got as far as their supervisor's word.
	Launches int    `json:"failed_launches,omitempty"`
	Why      string `json:"why,omitempty"` // why it rests or was interrupted

	Held *Held `json:"held,omitempty"` // a launch that something keeps from starting
	Wait *Wait `json:"wait,omitempty"` // between two runs of the turn

	Spent  []model.Usage `json:"spent,omitempty"`  // by its settled turns
	Rounds int           `json:"rounds,omitempty"` // feedback it was given

	Accept *MergePhase `json:"accept,omitempty"`
	Merge  string      `json:"merge,omitempty"` // the commit that landed

	Last    Act       `json:"last"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Act is who did what, when: what the loser of a race is told (OT-045).
type Act struct {
	Actor identity.Actor `json:"who"`
	Did   string         `json:"did"`
	At    time.Time      `json:"at"`
}

// Workspace is the recorded mount plan of the task (GT-003).
type Workspace struct {
	State    string   `json:"state,omitempty"`    // the task's own directory, out of the agent's reach
	Borrowed []string `json:"borrowed,omitempty"` // further object stores the repository borrows from
	Tree     string   `json:"tree"`
	GitDir   string   `json:"gitdir"`
	Objects  string   `json:"objects"`
	Shared   string   `json:"shared"`
	Ready    bool     `json:"ready"`              // setup ran
	Unfilled []string `json:"unfilled,omitempty"` // submodules whose files are not there, and why
	// Kept says why the workspace of a finished task is still there: a person has
	// to decide about what it holds.
	Kept string `json:"kept,omitempty"`
}

// Violation is a protected file the agent changed.
type Violation struct {
	Path     string `json:"path"`
	Reason   string `json:"reason,omitempty"`
	Approved bool   `json:"approved"`
}

// Declaration is a lazy_final (TE-003, TE-016).
type Declaration struct {
	SHA     string    `json:"sha"`
	Note    string    `json:"note,omitempty"`
	Turn    id.Turn   `json:"turn_id"`
	At      time.Time `json:"declared_at"`
	Moved   bool      `json:"head_moved"`
	MovedBy string    `json:"moved_by,omitempty"`
}

// MergePhase is the accept in force, or the last one.
type MergePhase struct {
	Operation  string         `json:"operation"`
	N          int            `json:"n"` // executions begun
	Actor      identity.Actor `json:"by"`
	Reason     string         `json:"reason,omitempty"`
	Step       string         `json:"step"` // last recorded step
	TargetHead string         `json:"target_head,omitempty"`
	Tip        string         `json:"tip,omitempty"`
	Tree       string         `json:"tree,omitempty"`
	Commit     string         `json:"commit,omitempty"` // intended merge commit
	Resumes    int            `json:"resumes"`
	Began      time.Time      `json:"began"`
	Failure    string         `json:"failure,omitempty"`
	GaveUp     bool           `json:"gave_up,omitempty"` // nothing resumes it but a person
	Cleaned    []string       `json:"cleaned,omitempty"`
}

// Pending counts the violations not yet approved.
func (t Task) Pending() int {
	n := 0
	for _, v := range t.Violations {
		if !v.Approved {
			n++
		}
	}
	return n
}

// Name is what people call the task: its code, else its short id.
func (t Task) Name() string {
	if t.Code != "" {
		return t.Code
	}
	return t.ID.Short()
}

// Wait is the pause between two runs of one turn, which no run is kept for. The
// claim is held all the while.
type Wait struct {
	Until time.Time `json:"until"`
	Aged  bool      `json:"aged,omitempty"` // the turn's maximum age comes first (SY-047)
}

// Held is a launch that waits for a gate to open.
type Held struct {
	Verb   string         `json:"verb"` // start or auto_resume
	By     identity.Actor `json:"by"`
	Cause  string         `json:"cause"` // code of the refusal
	Text   string         `json:"text"`
	Until  time.Time      `json:"until,omitzero"` // zero where nobody knows
	Agent  string         `json:"agent,omitempty"`
	Model  string         `json:"model,omitempty"`
	Effort string         `json:"effort,omitempty"`
}

// Then is what a person asked for a task once its running turn has ended.
type Then struct {
	On     Trigger        `json:"on"` // reject or close
	Reason string         `json:"reason"`
	Actor  identity.Actor `json:"by"`
}
