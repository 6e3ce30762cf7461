package turn

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/model"
)

// The bodies of POST /runner/{op}. Every operation but hello is bound to the
// task, turn and epoch of the runner token that is presented (CM-047).

// Hello exchanges the single-use start nonce for the run's credentials (AG-025).
type Hello struct {
	Nonce string `json:"nonce"`
	// Key is drawn by the supervisor. A hello repeated with the same key is the
	// same hello, whose answer was lost; with another it is a second claim.
	Key     string `json:"key,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Started string `json:"started,omitempty"` // process start mark, with the pid its identity
	Version string `json:"version"`
}

// Welcome answers a hello.
type Welcome struct {
	RunnerToken string  `json:"runner_token"`
	TaskToken   string  `json:"task_token"`
	Command     Command `json:"command"`
	// Model is nil for an agent that needs none. It is handed out here only, and
	// kept in memory only (CM-031).
	Model *model.Access `json:"model,omitempty"`
	// Vault is nil where a workspace is directories that outlive its runs.
	Vault *Vault `json:"vault,omitempty"`
	// Landing is what the broker of an accept is to do. It gets no command, and no
	// credential but its own.
	Landing *Landing `json:"landing,omitempty"`
}

// Limits are what the processes of a task may use together; zero is no limit.
type Limits struct {
	Processes   int64 `json:"processes,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	DiskBytes   int64 `json:"disk_bytes,omitempty"`
	OpenFiles   int64 `json:"open_files,omitempty"` // of each process
}

// Command tells a supervisor what to run (WF-09).
type Command struct {
	Turn       id.Turn   `json:"turn_id"`
	Task       id.Task   `json:"task_id"`
	Code       string    `json:"code,omitempty"`
	Epoch      int64     `json:"epoch"`
	Kind       Kind      `json:"kind"`
	Prompt     string    `json:"prompt"` // the assembled text
	PromptRef  string    `json:"prompt_ref"`
	Session    string    `json:"resume_session_id,omitempty"`
	ReadOnly   bool      `json:"read_only"`
	WatchdogMS int64     `json:"watchdog_ms"`
	Deadline   time.Time `json:"deadline"` // maximum turn age (SY-047)
	ModelUntil time.Time `json:"model_until"`
	Tokens     int64     `json:"tokens_left,omitempty"` // of the task's budget; 0 is no bound
	Pace       *Pace     `json:"pace,omitempty"`        // where an earlier run of the turn left off

	Agent   string            `json:"agent"`
	Model   string            `json:"model,omitempty"`
	Effort  string            `json:"effort,omitempty"`
	Argv    []string          `json:"argv,omitempty"` // agent "command": what to run
	Env     map[string]string `json:"env,omitempty"`  // declared, never a secret
	Network string            `json:"network"`        // open, none, allow:host,…
	Limits  Limits            `json:"limits,omitzero"`
	Host    bool              `json:"host_process,omitempty"`

	Tree     string   `json:"tree"`
	GitDir   string   `json:"gitdir"`
	Objects  string   `json:"objects"`
	Shared   string   `json:"shared"`
	State    string   `json:"state,omitempty"`
	Borrowed []string `json:"borrowed,omitempty"`
	Branch   string   `json:"branch"`
	Base     string   `json:"base"`
	Tip      string   `json:"tip"`
	Author   string   `json:"author"`           // Name <email> of commits the agent asks for
	Setup    string   `json:"setup,omitempty"`  // run once before the first turn
	Copy     []string `json:"copy,omitempty"`   // files copied from the checkout, relative
	Source   string   `json:"source,omitempty"` // checkout that Copy reads from
	Keep     []string `json:"keep,omitempty"`   // ignored paths that a checkpoint saves all the same
	Merge    *Merge   `json:"sync,omitempty"`
	// Own is the task's own branch as its remote has it, which a sync brings in
	// before Merge (SN-001).
	Own *Merge `json:"own,omitempty"`
}

// Merge asks the supervisor's broker to bring an upstream into the task branch
// before the agent runs (AG-005, CR-006).
type Merge struct {
	Remote   string `json:"remote,omitempty"`
	Upstream string `json:"upstream"` // commit
	Ref      string `json:"ref"`      // its name, for the record
}

// BeatIn is a supervisor's sign of life, every 15 s (WF-20).
type BeatIn struct {
	Turn     id.Turn `json:"turn_id"`
	Epoch    int64   `json:"epoch"`
	State    string  `json:"state"` // preparing, running, settling
	Phase    string  `json:"phase,omitempty"`
	Progress int64   `json:"progress"` // completed steps
	Retry    string  `json:"retry,omitempty"`
	// Usage is all that this run has spent so far, Readings the newest of each
	// credential.
	Usage    []model.Usage   `json:"usage,omitempty"`
	Readings []model.Reading `json:"readings,omitempty"`
	// Lost is the conversation that the agent's CLI does not have any more, set once
	// to ask for a handover.
	Lost string `json:"lost_session_id,omitempty"`
	// NoModel repeats why the last answer lets no model be called: from then on none
	// is (GN-03).
	NoModel string `json:"no_model,omitempty"`
}

// BeatOut is what rides back on a beat: nothing is long-polled (AG-029).
type BeatOut struct {
	Stop       string    `json:"stop"`
	Steer      []string  `json:"steer,omitempty"`
	ModelUntil time.Time `json:"model_until"`
	// NoModel says why no model may be called, a ground stop for one; it ends the
	// turn at its next call (SY-044).
	NoModel string `json:"no_model,omitempty"`
	// Tip is the recorded tip of the task's branch. It moves under a run when a
	// subtask is accepted into it; the broker goes on from there.
	Tip string `json:"tip,omitempty"`
	// Handover answers a beat with Lost: what a fresh conversation has to be told of
	// the one before.
	Handover string `json:"handover,omitempty"`
}

// TokenIn asks for the task's token anew: the one at hand was refused (MC-012).
type TokenIn struct {
	Turn  id.Turn `json:"turn_id"`
	Epoch int64   `json:"epoch"`
}

// TokenOut answers a TokenIn. A token whose record was lost keeps its text.
type TokenOut struct {
	TaskToken string `json:"task_token"`
	Issued    bool   `json:"issued"` // its record was made anew
}

// Ack answers a report once its row is durable (SY-049).
type Ack struct {
	Stored  bool `json:"stored"`
	History bool `json:"history"` // the run had been succeeded: kept, changes nothing
}

// GitIn asks for an internal git operation to be recorded (OT-019).
type GitIn struct {
	Op       string   `json:"op"` // merge, merge_abort, merge_commit, reset_head, turn_tag
	Target   string   `json:"target,omitempty"`
	Tag      string   `json:"tag,omitempty"`
	Commit   string   `json:"commit,omitempty"`
	Parent   string   `json:"parent,omitempty"`
	Tree     string   `json:"tree,omitempty"`
	Bundle   string   `json:"bundle,omitempty"` // where it lies, in the vault
	Unmerged []string `json:"unmerged,omitempty"`
}

// GitOut answers a GitIn with the recorded tip after it.
type GitOut struct {
	Tip     string `json:"tip"`
	Allowed bool   `json:"allowed"`
}
