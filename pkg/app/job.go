package app

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
)

// JobKind is what an outbox row asks for.
type JobKind string

// The kinds of outbox jobs. Each is idempotent by (task, version).
const (
	StartFlow   JobKind = "start_flow"   // start execution Flow/Exec
	AnswerToken JobKind = "answer_token" // answer the task token in force
	Answered    JobKind = "answered"     // do what follows from a stored report
	EndRun      JobKind = "end_run"      // stop a run and confirm it gone
	Clean       JobKind = "clean"        // remove runner, workspace and branch of a task that ended
	Notify      JobKind = "notify"       // write a notice on the parent task
)

// Job is an outbox row: work that follows from a commit and is retried with
// back-off until it is done (SY-021).
type Job struct {
	Kind     JobKind   `json:"kind"`
	Name     string    `json:"name,omitempty"`
	Tenant   string    `json:"tenant"`
	Project  string    `json:"project"`
	Task     id.Task   `json:"task"`
	Version  int64     `json:"version"`
	Flow     string    `json:"flow,omitempty"`
	Exec     string    `json:"exec,omitempty"`
	Turn     string    `json:"turn,omitempty"` // turn or operation id
	N        int       `json:"n,omitempty"`
	Epoch    int64     `json:"epoch,omitempty"`
	Text     string    `json:"text,omitempty"`
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	After    time.Time `json:"after,omitzero"`
}
