// Package raise holds what agents file for others to decide: raised items, and
// beside them the two kinds of notes on a task, which must never be confused.
// Comments are delivered into the next prompt; journal entries are looked up.
package raise

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
)

// Item is a raised item (RI-001 to RI-013).
type Item struct {
	ID         string         `json:"id"`
	Seq        int64          `json:"seq"`
	Task       id.Task        `json:"task_id"`
	Turn       id.Turn        `json:"turn_id,omitempty"`
	Title      string         `json:"title"`
	Content    string         `json:"content,omitempty"` // inline up to 1 KB, else a body row
	Body       string         `json:"body,omitempty"`
	Proposed   string         `json:"proposed_prompt,omitempty"`
	ProposedIn string         `json:"proposed_body,omitempty"` // body row of a longer proposal
	Blocking   bool           `json:"blocking"`
	State      string         `json:"state"` // open, resolved
	Resolution *Resolution    `json:"resolution,omitempty"`
	Actor      identity.Actor `json:"by"`
	At         time.Time      `json:"at"`
	Version    int64          `json:"version"`
}

// Resolution is how an item was decided: one of four ways (RI-004).
type Resolution struct {
	Action   string         `json:"action"` // respond, promote_subtask, promote_peer, dismiss
	Response string         `json:"response,omitempty"`
	Task     id.Task        `json:"task_id,omitempty"` // the promoted task
	Actor    identity.Actor `json:"by"`
	At       time.Time      `json:"at"`
}

// Comment is an instruction that travels with the next work prompt (CR-014).
type Comment struct {
	ID        string         `json:"id"`
	Seq       int64          `json:"seq"`
	Text      string         `json:"text,omitempty"`
	Body      string         `json:"body,omitempty"`
	Actor     identity.Actor `json:"by"`
	At        time.Time      `json:"at"`
	Shown     time.Time      `json:"shown,omitzero"` // a prompt carried it: the text is fixed
	ShownTurn id.Turn        `json:"shown_turn,omitempty"`
	Delivered time.Time      `json:"delivered,omitzero"` // a turn that saw it ended normally
	System    bool           `json:"system,omitempty"`   // lazy's own record, never delivered
	Version   int64          `json:"version"`
}

// Entry is a journal entry: append-only, index never shifts (JR-006).
type Entry struct {
	Index int64          `json:"index"`
	Text  string         `json:"text,omitempty"`
	Body  string         `json:"body,omitempty"`
	Actor identity.Actor `json:"by"`
	Turn  id.Turn        `json:"turn_id,omitempty"`
	At    time.Time      `json:"created_at"`
}
