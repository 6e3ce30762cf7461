// Package spool is the directory a run of a supervisor lives in: what its
// launcher hands it, what it writes about itself, and the answer it keeps until
// the control plane has taken it (AG-003). Launcher and supervisor are different
// processes that both may die at any point, so everything they must agree on
// lies here, one small file per fact, each replaced as a whole.
package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The files of a run.
const (
	StartFile    = "start.json"    // launcher: what to do; the launch's intent
	PidFile      = "pid.json"      // launcher: who it spawned
	SelfFile     = "self.json"     // supervisor, first thing: who it is
	HelloFile    = "hello.json"    // supervisor: the key its hello is repeated with
	LockFile     = "run.lock"      // held by the supervisor for its whole life
	StopFile     = "stop.json"     // launcher: why it is about to be ended
	TokenFile    = "token.json"    // supervisor: the run's credentials
	CommandFile  = "command.json"  // supervisor: its command, without credentials
	ResponseFile = "response.json" // supervisor: its answer
	AckedFile    = "acked.json"    // supervisor: the answer was taken
	ExitFile     = "exit.json"     // whoever saw the end
	LogFile      = "supervisor.log"
	AgentLog     = "agent.log" // the agent's own output
)

// The files of a task's box directory. The log is also the sandbox's lock: every
// process of it holds it open.
const (
	BoxFile   = "box.json"
	BoxLog    = "box.log"
	SealedBox = "sealed" // below it: the directory of a read-only turn's own sandbox
	BoxSocket = "exec.sock"
)

// Start is what a launcher hands a supervisor. The nonce is its only secret.
type Start struct {
	Target  string  `json:"target"`
	Plane   string  `json:"plane,omitempty"` // file to read for a target that moved (MC-018)
	Nonce   string  `json:"nonce"`
	Tenant  string  `json:"tenant"`
	Project string  `json:"project"`
	Task    id.Task `json:"task_id"`
	Turn    id.Turn `json:"turn_id"`
	Epoch   int64   `json:"epoch"`
	Host    bool    `json:"host_process,omitempty"`
}

// Hello marks the hello of a run. It is written before the first one is sent, so
// that a hello whose answer was lost can be sent again as the same.
type Hello struct {
	Key string `json:"key"`
}

// Ident is a process: a pid alone is reused by the system, so its start mark is
// part of its name (SY-043).
type Ident struct {
	PID  int    `json:"pid"`
	Mark string `json:"started"`
}

// Stop says why a run is about to be ended.
type Stop struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Exit is how a supervisor ended.
type Exit struct {
	Code   int       `json:"exit_code"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// Token holds a run's credentials, in a file only its owner reads.
type Token struct {
	Runner string `json:"runner_token"`
	Task   string `json:"task_token"`
}

// Acked records that the control plane took the answer, or will never take it.
type Acked struct {
	turn.Ack
	Refused string `json:"refused,omitempty"`
}

// Box is the sandbox of a task, which outlives its turns (AG-006).
type Box struct {
	Ident
	Helper Ident  `json:"helper,omitzero"`  // its first process of ours, as seen from outside
	Socket string `json:"socket"`           // where the helper listens
	Digest string `json:"digest,omitempty"` // of what it was made from
}

// Dir returns the directory of a run under the state directory of a project.
func Dir(state string, task id.Task, epoch int64) string {
	return filepath.Join(TaskDir(state, task), strconv.FormatInt(epoch, 10))
}

// TaskDir returns the directory of all runs of a task.
func TaskDir(state string, task id.Task) string {
	return filepath.Join(state, "runs", task.Short())
}

// BoxDir returns the directory of the task's sandbox, beside its runs.
func BoxDir(run string) string { return filepath.Join(filepath.Dir(run), "box") }

// Write replaces a file as a whole; a reader sees the old or the new content.
func Write(dir, name string, v any) error { return write(dir, name, v, false) }

// WriteSync is Write that survives the machine as well as the process.
func WriteSync(dir, name string, v any) error { return write(dir, name, v, true) }

func write(dir, name string, v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	f, err := os.CreateTemp(dir, "."+name+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err == nil && sync {
		err = syncDir(dir)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Read fills v from a file; ok is false when there is none.
func Read(dir, name string, v any) (ok bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return true, nil
}

// Unposted reports whether the run left an answer the control plane has not taken.
func Unposted(dir string) bool { return exists(dir, ResponseFile) && !exists(dir, AckedFile) }

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}
