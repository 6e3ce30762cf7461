// Package event holds what the control plane tells others of: domain events.
// Each says by ids what happened, never in whose words, and is told at least
// once: whoever listens knows a repetition by Event.ID. The shape of each lies in
// events/, as a schema with a sample.
package event

import (
	"encoding/json"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// Source is who tells of all events.
const Source = "lazyplane"

// TypeTaskMoved is the type of TaskMoved.
const TypeTaskMoved = "Task Moved"

// Event is one that is ready to be published.
type Event struct {
	ID     string // of what happened, the same each time it is told
	Type   string // for example TypeTaskMoved
	At     time.Time
	Detail []byte // a JSON object
}

// TaskMoved tells that a task's status changed. It is a history row without the
// words that people wrote: (Task, Version, Place) names that row, and is never
// used twice. Fields are only ever added.
type TaskMoved struct {
	V       int           `json:"v"` // 1
	ID      string        `json:"id"`
	Tenant  string        `json:"tenant"`
	Project string        `json:"project"`
	Task    id.Task       `json:"task"`
	Version int64         `json:"version"`        // of the task after the change
	Place   int           `json:"place"`          // among the moves of that one change, from 0
	From    task.Status   `json:"from,omitempty"` // absent for a task that was made
	To      task.Status   `json:"to"`
	Trigger task.Trigger  `json:"trigger"`
	By      identity.Role `json:"by"`
	Turn    string        `json:"turn,omitempty"`
	At      time.Time     `json:"at"`
}

// Moved words the row h, which is the one at place of its version.
func Moved(tenant, project string, t id.Task, place int, h task.History) TaskMoved {
	return TaskMoved{
		V: 1, ID: h.ID, Tenant: tenant, Project: project, Task: t, Version: h.Version, Place: place,
		From: h.From, To: h.To, Trigger: h.Trigger, By: h.Actor.Role, Turn: h.Turn, At: h.At.UTC(),
	}
}

// Event makes it ready to be published.
func (m TaskMoved) Event() Event {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // texts and numbers
	}
	return Event{ID: m.ID, Type: TypeTaskMoved, At: m.At, Detail: b}
}
