package app

import (
	"encoding/json"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Progress is what can be said of an operation: the phases since a cursor and,
// once it is done, the answer its first call would have given, refusals and
// failures included (OT-048).
type Progress struct {
	Operation string
	Done      bool
	Phases    []Phase
	Cursor    string
	Result    json.RawMessage
	Error     *fault.Error
}
