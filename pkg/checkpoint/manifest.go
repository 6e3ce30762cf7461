// Package checkpoint makes a workspace survive its container (UW-008, UW-011): it
// saves what differs from the recorded commit as raw bytes, incrementally by
// digest, encrypted and written once, and lays it out again byte for byte. What
// it reads may be an agent's: directories are entered through os.Root, only
// regular files are read, and everything is bounded (GT-027).
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Bounds of one checkpoint. What is beyond is left out and named in Manifest.Left.
const (
	MaxFile    = 1 << 30
	MaxTotal   = 4 << 30
	MaxEntries = 1_000_000
	maxDepth   = 512
	maxLeft    = 200

	chunkSize = 1 << 20  // what is shared between checkpoints
	packSize  = 16 << 20 // what is uploaded at once
	// maxObjects is how many objects a restore fetches at most: beyond it, a
	// checkpoint is written anew, so that a long task does not end as thousands of
	// pieces.
	maxObjects = 128
)

// ErrDamaged means that stored bytes are not what the pointer or manifest says.
// Nothing was restored from them.
var ErrDamaged = errors.New("checkpoint: the stored bytes are damaged")

// Pointer names the checkpoint in force.
type Pointer = turn.Checkpoint

// Name returns the name of an object of a checkpoint, below its task.
func Name(epoch, seq int64, what string) string { return turn.ObjectName(epoch, seq, what) }

const manifestName = "manifest"

// Depot is where checkpoints of one task are kept: objects that are written once
// and a pointer that refuses what is older or of another epoch.
type Depot interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string) ([]byte, error)
	Point(ctx context.Context, p Pointer) error
}

// Path is a file name as the system has it: it need not be UTF-8.
type Path string

const escaped = "\x00" // in no file name

// MarshalJSON keeps the bytes of names that are no UTF-8.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(escaped + base64.StdEncoding.EncodeToString([]byte(p)))
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Path) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(s, escaped); ok {
		raw, err := base64.StdEncoding.DecodeString(rest)
		*p = Path(raw)
		return err
	}
	*p = Path(s)
	return nil
}

// Kind is what an entry is.
type Kind string

// The kinds. Pipes, sockets and devices are nothing a restore could bring back.
const (
	File Kind = "file"
	Dir  Kind = "dir"
	Link Kind = "link"
)

// Entry is one path of a part.
type Entry struct {
	Path   Path     `json:"path"`
	Kind   Kind     `json:"kind"`
	Mode   uint32   `json:"mode,omitempty"` // permission bits
	Size   int64    `json:"size,omitempty"`
	Chunks []string `json:"chunks,omitempty"`
	Target Path     `json:"target,omitempty"`
	// Base says that the content is the base's and only the mode is not.
	Base bool `json:"base,omitempty"`
}

// Saved is the content of one part, against its base.
type Saved struct {
	Entries []Entry `json:"entries,omitempty"`
	Gone    []Path  `json:"gone,omitempty"` // of the base
}

// Place is where a chunk lies.
type Place struct {
	Object int   `json:"o"`
	At     int64 `json:"at"`
	Size   int64 `json:"n"`
}

// Manifest describes a checkpoint as a whole.
type Manifest struct {
	V       int              `json:"v"`
	Epoch   int64            `json:"epoch"`
	Seq     int64            `json:"seq"`
	Base    string           `json:"base"`
	Parts   map[string]Saved `json:"parts"`
	Objects []string         `json:"objects"`
	Chunks  map[string]Place `json:"chunks"`
	Left    []Path           `json:"left,omitempty"` // not saved: unreadable or beyond the bounds
}

const version = 1

// Load fetches the manifest that p names and checks that it is that one.
func Load(ctx context.Context, d Depot, c Cipher, p Pointer) (Manifest, error) {
	name := Name(p.Epoch, p.Seq, manifestName)
	sealed, err := d.Get(ctx, name)
	if err != nil {
		return Manifest{}, fmt.Errorf("fetch checkpoint %d/%d: %w", p.Epoch, p.Seq, err)
	}
	b, err := c.Open(name, sealed)
	if err != nil {
		return Manifest{}, err
	}
	if digest(b) != p.Digest {
		return Manifest{}, fmt.Errorf("%w: the manifest is not the recorded one", ErrDamaged)
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.V != version || m.Epoch != p.Epoch || m.Seq != p.Seq || m.Base != p.Base {
		return Manifest{}, fmt.Errorf("%w: the manifest is of another checkpoint or version", ErrDamaged)
	}
	return m, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
