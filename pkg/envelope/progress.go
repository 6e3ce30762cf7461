package envelope

import (
	"encoding/json"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Resume names the command by which a client comes back to an operation (WF-17).
const Resume = "awaitOperation"

// Phase is one narrated step of an operation as clients see it.
type Phase struct {
	N     int       `json:"n"`
	Of    int       `json:"of"`
	Name  string    `json:"name"`
	State string    `json:"state"` // planned, started, done, skipped, failed
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Progress is the state of an operation: what happened since a cursor and, once
// it is done, the answer its first call would have given, with the status it
// would have had (OT-048).
type Progress struct {
	Operation string          `json:"operation_id"`
	Done      bool            `json:"done"`
	Phases    []Phase         `json:"phases,omitempty"`
	Cursor    string          `json:"cursor,omitempty"`
	Resume    string          `json:"resume,omitempty"` // while it is open
	Status    int             `json:"status,omitempty"` // once it is done
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
}

// Fault returns the failure of an operation that is done, nil for none.
func (p Progress) Fault() *fault.Error {
	if p.Error == nil {
		return nil
	}
	return p.Error.fault(p.Status)
}
