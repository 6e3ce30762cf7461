// Package box is the inside of a sandbox: the helper that is its first process,
// starts the agent's processes, collects orphans and lives across turns, and the
// client by which the supervisor outside tells it what to run. They speak over
// one unix socket that the helper inherits already listening, so that nothing in
// the sandbox can see, open or replace it. One connection is one request; when
// the supervisor's end closes, what it started is ended (AG-002, AG-006).
package box

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// A frame is one byte of kind, four of length, and that many of content.
type kind byte

const (
	kindRequest kind = 'R' // to the helper, first and once: JSON of request
	kindInput   kind = 'I' // to the helper: bytes for stdin
	kindClose   kind = 'C' // to the helper: stdin ends
	kindSignal  kind = 'S' // to the helper: one byte, the signal for the process group
	kindStarted kind = 'P' // from the helper: the process runs
	kindOut     kind = 'O' // from the helper: bytes of stdout
	kindErr     kind = 'E' // from the helper: bytes of stderr
	kindDone    kind = 'D' // from the helper, last: JSON of Exit
	kindFault   kind = 'F' // from the helper, last: JSON of refused
	kindHealth  kind = 'H' // from the helper, last: JSON of Health
)

// frameMax bounds a frame, so that a hostile peer cannot make us allocate more.
const frameMax = 8 << 20

// The operations of a request.
const (
	opRun    = "run"
	opLook   = "look"
	opHealth = "health"
	opWrite  = "write"
	opAside  = "aside"
	opEnd    = "end"
)

type request struct {
	Op string `json:"op"`
	Command
	File  *File  `json:"file,omitempty"`
	Aside *Aside `json:"aside,omitempty"`
}

// File is a file to write inside, where only the helper can: its directory is
// made when missing, and it is replaced as a whole through no link.
type File struct {
	Dir  string      `json:"dir"`
	Name string      `json:"name"`
	Mode fs.FileMode `json:"mode"`
	Data []byte      `json:"data"`
}

// Command is a process to run in the sandbox.
type Command struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env"` // added to the helper's own environment
	Dir  string   `json:"dir"`
	// Main marks the agent itself, of which one runs at a time; a second one
	// waits for an earlier supervisor's to have ended.
	Main bool `json:"main,omitempty"`
}

// Exit is how a process ended.
type Exit struct {
	Code   int `json:"code"` // 128 + signal for a killed one
	Signal int `json:"signal,omitempty"`
	// Limit says which limit of the sandbox ended it.
	Limit string `json:"limit,omitempty"`
}

// Health is what a helper says of itself.
type Health struct {
	Sentinel string  `json:"sentinel"` // "lazy-agent ok <version>" (WF-11)
	Running  int     `json:"running"`  // processes started by a supervisor
	Home     string  `json:"home"`
	Gateway  string  `json:"gateway,omitempty"` // where the model gateway is reached inside
	Moved    []Moved `json:"moved,omitempty"`   // in answer to Aside
}

type refused struct {
	Kind fault.Kind `json:"kind"`
	Text string     `json:"text"`
}

func writeFrame(w io.Writer, k kind, b []byte) error {
	for len(b) > frameMax {
		if err := writeFrame(w, k, b[:frameMax]); err != nil {
			return err
		}
		b = b[frameMax:]
	}
	buf := make([]byte, 5+len(b))
	buf[0] = byte(k)
	binary.BigEndian.PutUint32(buf[1:], uint32(len(b)))
	copy(buf[5:], b)
	_, err := w.Write(buf)
	return err
}

func writeJSON(w io.Writer, k kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > frameMax {
		return fault.New(fault.TooLarge, "a command of %d bytes cannot be handed to the sandbox", len(b))
	}
	return writeFrame(w, k, b)
}

func readFrame(r io.Reader) (kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > frameMax {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, fmt.Errorf("cut frame: %w", err)
	}
	return kind(head[0]), b, nil
}
