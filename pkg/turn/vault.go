package turn

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
)

// Vault is what a hosted run needs so that its workspace outlives its container
// (UW-008, UW-010): the task's key, the checkpoint in force, and the commits that
// were made so far. It is handed out with the credentials and kept in memory.
type Vault struct {
	Key        []byte      `json:"key"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	Bundles    []Bundle    `json:"bundles,omitempty"` // in the order to apply them
	// Repository is nil where the container has the repository already.
	Repository *Repository `json:"repository,omitempty"`
}

// Repository is what a run makes its container's copy of a hosted project's
// repository from.
type Repository struct {
	Key    []byte   `json:"key"`
	Format string   `json:"format"` // of its objects
	Packs  []Bundle `json:"packs"`  // in the order to apply them
}

// Checkpoint names a checkpoint. It is moved by a write on condition that its
// epoch is the task's and that its sequence number grows (UW-011).
type Checkpoint struct {
	Epoch  int64  `json:"epoch"`
	Seq    int64  `json:"seq"`
	Digest string `json:"digest"` // of the manifest
	Base   string `json:"base"`   // commit that it lies on
}

// Newer reports whether c may replace old.
func (c Checkpoint) Newer(old Checkpoint) bool {
	return c.Epoch > old.Epoch || c.Epoch == old.Epoch && c.Seq > old.Seq
}

// Bundle is where a commit of the broker lies.
type Bundle struct {
	Name   string `json:"name"`
	Parent string `json:"parent"`
	Commit string `json:"commit"`
}

// The most bytes of objects in the vault.
const (
	CheckpointObjectMost = 20 << 20
	BundleMost           = 512 << 20
	// VaultLinks is how many links one call asks for at most.
	VaultLinks = 64
)

// BundleObject is the last part of a bundle's name.
const BundleObject = "bundle"

// ObjectName returns the name of an object in a task's vault. Names are written
// once: a second try has another number.
func ObjectName(epoch, n int64, what string) string {
	return fmt.Sprintf("%08d/%08d/%s", epoch, n, what)
}

// ParseObject takes a name apart and refuses what is none.
func ParseObject(name string) (epoch, n int64, what string, err error) {
	p := strings.Split(name, "/")
	if len(p) == 3 && p[2] != "" && len(p[2]) <= 16 && strings.Trim(p[2], "abcdefghijklmnopqrstuvwxyz0123456789-") == "" {
		epoch, err = strconv.ParseInt(p[0], 10, 64)
		if err == nil {
			n, err = strconv.ParseInt(p[1], 10, 64)
		}
		if err == nil && epoch >= 0 && n >= 0 && ObjectName(epoch, n, p[2]) == name {
			return epoch, n, p[2], nil
		}
	}
	return 0, 0, "", fmt.Errorf("%q is no name of an object", name)
}

// IsPack reports whether name is that of a pack of a repository: what made it, and
// the commit it leads to or the push it came by.
func IsPack(name string) bool {
	kind, of, ok := strings.Cut(name, "/")
	return ok && kind != "" && len(kind) <= 16 && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz") == "" &&
		len(of) >= 32 && len(of) <= 64 && strings.Trim(of, "0123456789abcdef") == ""
}

// UploadIn asks for links into the task's vault, or moves the checkpoint pointer.
type UploadIn struct {
	Put   []Parcel    `json:"put,omitempty"`
	Get   []string    `json:"get,omitempty"`
	Point *Checkpoint `json:"point,omitempty"`
	// Packs asks for links to packs of the project's repository, by name, Repository
	// for a new list of them.
	Packs      []string `json:"packs,omitempty"`
	Repository bool     `json:"repository,omitempty"`
	// Of is whose vault Get names objects of, "" the run's own task's. Only the broker
	// of an accept may name another: one whose commits its landing builds on.
	Of id.Task `json:"of,omitempty"`
	// PutPacks asks for links to store packs of a landing under, which only the broker
	// of an accept may.
	PutPacks []Parcel `json:"put_packs,omitempty"`
}

// Parcel is an object about to be stored; a link is for exactly these bytes.
type Parcel struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 []byte `json:"sha256"`
}

// UploadOut answers with a link for each that was asked for, in order.
type UploadOut struct {
	Put []Link `json:"put,omitempty"`
	Get []Link `json:"get,omitempty"`

	Packs      []Link      `json:"packs,omitempty"`
	Repository *Repository `json:"repository,omitempty"`
	PutPacks   []Link      `json:"put_packs,omitempty"`
}

// Link lets a run do one thing with one object for a short time.
type Link struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"`
	Until  time.Time         `json:"until"`
}
