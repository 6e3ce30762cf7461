package depot_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	sealfile "github.com/lazyplane/lazyplane/pkg/seal/file"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wire/depot"
)

const (
	tenant  = "acme"
	project = "shop"
)

// bucket is a blob store that gives links, and holds whoever uses one to what it is
// for as S3 does.
type bucket struct {
	url string

	mu  sync.Mutex
	all map[string][]byte // guarded by mu
}

func (b *bucket) Put(_ context.Context, key string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[key] = bytes.Clone(data)
	return nil
}

func (b *bucket) Get(_ context.Context, key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if data, ok := b.all[key]; ok {
		return data, nil
	}
	return nil, blob.ErrNotFound
}

func (b *bucket) Delete(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, key)
	return nil
}

func (b *bucket) Upload(_ context.Context, key string, size int64, sum [32]byte) (blob.Link, error) {
	return blob.Link{Method: http.MethodPut, URL: b.url + "/" + key, Header: map[string]string{
		"X-Size": strconv.FormatInt(size, 10), "X-Sum": hex.EncodeToString(sum[:]),
	}}, nil
}

func (b *bucket) Download(_ context.Context, key string) (blob.Link, error) {
	return blob.Link{Method: http.MethodGet, URL: b.url + "/" + key}, nil
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/")
	have, ok := b.all[key]
	sum := sha256.Sum256(body)
	switch {
	case r.Method == http.MethodGet && ok:
		_, _ = w.Write(have)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	case ok:
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Header.Get("X-Size") != strconv.Itoa(len(body)) || r.Header.Get("X-Sum") != hex.EncodeToString(sum[:]):
		w.WriteHeader(http.StatusBadRequest)
	default:
		b.all[key] = body
	}
}

// keys lists what is in the bucket below a prefix.
func (b *bucket) keys(prefix string) (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.all {
		if strings.HasPrefix(k, prefix) {
			all = append(all, k)
		}
	}
	return all
}

// rig is a control plane with a depot, and a person's clone.
type rig struct {
	*app.App
	t      *testing.T
	db     store.Store
	bucket *bucket
	seal   interface {
		Seal(context.Context, string, string, []byte) ([]byte, error)
		Open(context.Context, string, string, []byte) ([]byte, error)
	}
	depot *depot.Depot
	clone string
	crash func(string)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	b := &bucket{all: map[string][]byte{}}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	b.url = srv.URL
	keys, err := sealfile.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, db: db, bucket: b, seal: keys, crash: func(string) {}}
	now := make(chan time.Time)
	close(now)
	r.App = app.New(app.Deps{
		Store: db, Blob: b, Seal: keys, Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, IDs: id.Gen{Rand: rand.Reader},
		Log: slog.New(slog.DiscardHandler), Hop: 30 * time.Second,
		After: func(time.Duration) <-chan time.Time { return now },
		// What is ordered is done at once; in an account the table's stream tells of it.
		Publish: func(k store.Key) { _ = r.Consume(context.WithoutCancel(t.Context()), k) },
		Repos:   func(tenant, project string, k task.Task) app.Repository { return r.depot.Of(tenant, project, k) },
	})
	r.depot = r.another()
	r.clone = filepath.Join(t.TempDir(), "clone")
	r.run("", "init", "-q", "-b", "main", r.clone)
	r.commit("README", "canary-of-the-repository\n")
	return r
}

// another is a depot of another process: it has nothing on its disk.
func (r *rig) another() *depot.Depot {
	r.t.Helper()
	d, err := depot.New(depot.Config{
		Store: r.db, Blob: r.bucket, Seal: r.seal, Tasks: func() depot.Tasks { return r.App }, Scratch: r.t.TempDir(),
		Place: func(short string) (string, string) { return "/lazy/work/" + short, "/lazy/work/shared" }, Now: time.Now, Crash: func(p string) { r.crash(p) },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *rig) run(dir string, args ...string) string {
	r.t.Helper()
	return runWith(r.t, dir, nil, args...)
}

func runWith(t *testing.T, dir string, in []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes a file in the clone and commits it.
func (r *rig) commit(name, text string) (head string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.clone, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.run(r.clone, "add", "-A")
	r.run(r.clone, "commit", "-q", "-m", "write "+name)
	return r.run(r.clone, "rev-parse", "HEAD")
}

func (r *rig) caller(tenant, project string) app.Call {
	return app.Call{Who: identity.Caller{Kind: identity.User, Tenant: tenant, Project: project, Subject: "ada@example.com", Email: "ada@example.com", Name: "Ada"}}
}

// bundle makes a bundle of a commit of the clone.
func (r *rig) bundle(head string, have ...string) []byte {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "bundle")
	r.run(r.clone, "update-ref", "refs/heads/out", head)
	r.run(r.clone, append([]string{"bundle", "create", "-q", file, "refs/heads/out", "--not"}, have...)...)
	b, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func push(branch, head, expect string, b []byte) app.PushIn {
	sum := sha256.Sum256(b)
	return app.PushIn{Branch: branch, Head: head, Expect: expect, Size: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
}

// upload uses a link as it is given.
func (r *rig) upload(l *turn.Link, b []byte) error {
	file := filepath.Join(r.t.TempDir(), "up")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		r.t.Fatal(err)
	}
	err := client.NewStorage().Put(r.t.Context(), *l, file)
	if errors.Is(err, client.ErrStored) {
		return nil
	}
	return err
}

// bring pushes a bundle whole.
func (r *rig) bring(in app.PushIn, b []byte) (app.Transferred, error) {
	r.t.Helper()
	c := r.caller(tenant, project)
	out, err := r.PushBranch(r.t.Context(), c, in)
	if err != nil || out.Link == nil {
		return out, err
	}
	if err := r.upload(out.Link, b); err != nil {
		return out, err
	}
	return r.FinishPush(r.t.Context(), c, out.ID)
}

// pushed brings a commit of the clone to a branch, which must go well.
func (r *rig) pushed(branch, head, expect string, have ...string) {
	r.t.Helper()
	b := r.bundle(head, have...)
	out, err := r.bring(push(branch, head, expect, b), b)
	if err != nil || out.State != "done" || r.head(branch) != head {
		r.t.Fatalf("pushing %s: %+v, %v; it is at %s", branch, out, err, r.head(branch))
	}
}

// head is where a branch stands, "" nowhere.
func (r *rig) head(branch string) string {
	r.t.Helper()
	list, err := r.ListBranches(r.t.Context(), r.caller(tenant, project))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, b := range list.Branches {
		if b.Name == branch {
			return b.Head
		}
	}
	return ""
}

// pulled takes a branch into a clone and returns its head there.
func (r *rig) pulled(into, branch string, have ...string) string {
	r.t.Helper()
	out, err := r.PullBranch(r.t.Context(), r.caller(tenant, project), branch, have)
	if err != nil || out.State != "done" {
		r.t.Fatalf("pulling %s: %+v, %v", branch, out, err)
	}
	if out.Link == nil {
		return out.Head
	}
	var b bytes.Buffer
	if err := client.NewStorage().Get(r.t.Context(), *out.Link, &b, 1<<30); err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "down")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.run(into, "fetch", "-q", file, "+refs/heads/lazy:refs/heads/pulled")
	return r.run(into, "rev-parse", "pulled")
}

// row puts a task's row as use cases would leave it.
func (r *rig) row(t task.Task) {
	r.t.Helper()
	w, err := encode(t)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.db.Transact(r.t.Context(), w); err != nil {
		r.t.Fatal(err)
	}
}

func taskID(n int) id.Task { return id.Task(fmt.Sprintf("%08d-ac96-474b-bcce-b302099a8057", n)) }
