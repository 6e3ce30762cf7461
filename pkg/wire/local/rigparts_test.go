package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// fuse is the store of one life of the plane. Once blown, the process it stands
// for is dead: it reads and writes nothing more.
type fuse struct {
	store.Store
	blown sync.Once
	dead  chan struct{}

	hold string // Get of a row under this prefix takes a second

	mu     sync.Mutex
	writes int                                                // transactions so far
	hook   func(n int, ws []store.Write) (before, after bool) // whether to blow around the nth
}

// table is the real one, which knows when nothing in it can be due.
type table struct {
	*sqlite.Store
	changed atomic.Bool // since it was last asked
}

func (r *table) Transact(ctx context.Context, ws ...store.Write) error {
	defer r.changed.Store(true)
	return r.Store.Transact(ctx, ws...)
}

// due is when the first row will be due, as far as the rows of now tell.
func (r *table) due(ctx context.Context) time.Time {
	const far = 10_000 * time.Hour
	now := time.Now()
	first := now.Add(far)
	for shard := range store.Shards {
		page, err := store.DueRows(ctx, r.Store, shard, now.Add(far), 1, "")
		if err != nil {
			return now
		}
		for _, it := range page.Items {
			if at, ok := store.DueTime(it.Index[store.Due]); !ok || at.Before(first) {
				first = at
			}
		}
	}
	return first
}

var errDead = errors.New("rig: the control plane is dead")

func (f *fuse) setHook(h func(n int, ws []store.Write) (before, after bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

func (f *fuse) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func (f *fuse) blow() { f.blown.Do(func() { close(f.dead) }) }

func (f *fuse) isDead() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

func (f *fuse) Get(ctx context.Context, k store.Key) (store.Item, error) {
	if f.isDead() {
		return store.Item{}, errDead
	}
	if f.hold != "" && strings.HasPrefix(k.SK, f.hold) {
		time.Sleep(time.Second)
	}
	return f.Store.Get(ctx, k)
}

func (f *fuse) Query(ctx context.Context, q store.Query) (store.Page, error) {
	if f.isDead() {
		return store.Page{}, errDead
	}
	return f.Store.Query(ctx, q)
}

func (f *fuse) Transact(ctx context.Context, ws ...store.Write) error {
	if f.isDead() {
		return errDead
	}
	f.mu.Lock()
	f.writes++
	var before, after bool
	if f.hook != nil {
		before, after = f.hook(f.writes, ws)
	}
	f.mu.Unlock()
	if before {
		f.blow()
		return errDead
	}
	err := f.Store.Transact(ctx, ws...)
	if after {
		f.blow()
		return errDead
	}
	return err
}

// git runs git as the person.
func (r *rig) git(args ...string) string {
	r.t.Helper()
	out, err := r.tryGit(args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func (r *rig) tryGit(args ...string) (string, error) { return gitAt(r.dir, args...) }

func gitAt(dir string, args ...string) (string, error) {
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=@1690000000 +0000", "GIT_COMMITTER_DATE=@1690000000 +0000")
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := writeFile(r.dir, name, text); err != nil {
		r.t.Fatal(err)
	}
}

func writeFile(dir, name, text string) error {
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(text), 0o644)
}

func (r *rig) commitAll(msg string) string {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", msg)
	return r.git("rev-parse", "HEAD")
}

// file is a file at the head of a branch, "" when there is none.
func (r *rig) file(branch, name string) string {
	out, err := r.tryGit("show", branch+":"+name)
	if err != nil {
		return ""
	}
	return out
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func idOf(s string) id.Task { return id.Task(s) }
