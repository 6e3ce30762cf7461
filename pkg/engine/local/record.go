package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// The kinds of rows of the flow partition. An open execution and a closed one
// have different keys, so that a restart reads the open ones only, however many
// have ended.
const (
	openPrefix = "OPEN#"
	donePrefix = "DONE#"
	defPrefix  = "DEF#"
	schema     = 1
)

// nameKept is how long a closed execution blocks its name, as on AWS.
const nameKept = 90 * 24 * time.Hour

// visitsKept bounds the list of visited states, and maxInput the input, so that
// both always fit the row of a closed execution.
const (
	visitsKept = 500
	maxInput   = 32 << 10
)

// record is everything that is durable about an execution: where it stands, never
// how far the process got with it.
type record struct {
	Machine string          `json:"machine"`
	Name    string          `json:"name"`
	Def     string          `json:"def"`
	Input   json.RawMessage `json:"input"`
	Started time.Time       `json:"started"`

	State engine.State    `json:"state"`
	At    string          `json:"at"`
	Data  json.RawMessage `json:"data,omitempty"`
	// Visit counts the states entered; with the state's name it is the key under
	// which a retry is the same attempt at the same work (SY-038).
	Visit   int64     `json:"visit"`
	Entered time.Time `json:"entered"`
	Visited []string  `json:"visited,omitempty"`

	Retries []int     `json:"retries,omitempty"` // used, per retrier of this state
	Wake    time.Time `json:"wake,omitzero"`     // end of a Wait, or start of the next attempt

	Token    string    `json:"token,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"` // of the token
	// Submitted says that the step call behind the token has returned, so that a
	// restart waits for the answer and does not call again.
	Submitted bool    `json:"submitted,omitempty"`
	Answer    *answer `json:"answer,omitempty"`

	Output  json.RawMessage `json:"output,omitempty"`
	Error   string          `json:"error,omitempty"`
	Cause   string          `json:"cause,omitempty"`
	Stopped time.Time       `json:"stopped,omitzero"`
}

// answer is what a task token was answered with while the step call that handed
// it out was still running.
type answer struct {
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Cause  string          `json:"cause,omitempty"`
}

func (r record) open() bool { return r.State == engine.Running }

func (r record) attempts() int {
	n := 0
	for _, used := range r.Retries {
		n += used
	}
	return n
}

func (r record) execution() engine.Execution {
	return engine.Execution{
		Machine: r.Machine,
		Name:    r.Name,
		State:   r.State,
		Input:   r.Input,
		Output:  r.Output,
		Error:   r.Error,
		Cause:   r.Cause,
		Started: r.Started,
		Stopped: r.Stopped,
	}
}

// errTooLarge is answered for a record that no row can hold. A record without
// data and answer always fits.
var errTooLarge = errors.New("local engine: the execution's data do not fit its row")

// item encodes the record as the row k.
func (r record) item(k store.Key, version int64) (store.Item, error) {
	doc, err := json.Marshal(r)
	if err != nil {
		return store.Item{}, fmt.Errorf("encode execution %s of %s: %w", r.Name, r.Machine, err)
	}
	if len(doc) > store.MaxItem {
		return store.Item{}, errTooLarge
	}
	it := store.Item{
		Key: k,
		Attr: store.Attr{
			store.AttrType:    "flow",
			"schema":          int64(schema),
			store.AttrStatus:  string(r.State),
			store.AttrVersion: version,
		},
		Doc: doc,
	}
	if !r.Stopped.IsZero() {
		it.Expires = r.Stopped.Add(nameKept)
	}
	return it, nil
}

func decode(it store.Item) (record, error) {
	var r record
	if n := it.Int("schema"); n != schema {
		return r, fmt.Errorf("read execution %s: its schema is %d, this program knows %d", it.Key, n, schema)
	}
	if err := json.Unmarshal(it.Doc, &r); err != nil {
		return r, fmt.Errorf("read execution %s: %w", it.Key, err)
	}
	return r, nil
}
