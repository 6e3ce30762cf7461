// Package depot keeps the repositories of hosted projects that no forge has:
// branches are rows of the table, and commits are git bundles in the blob store,
// sealed with a key of the project. Whoever needs git itself works on a copy on its
// own disk, brought up to date from the packs it lacks; nothing on that copy is
// true, it is only quick.
package depot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Tasks are the use cases that know what a task's own branch holds.
type Tasks interface {
	LoadTask(ctx context.Context, tenant string, t id.Task) (task.Task, bool, error)
	CommitsOf(ctx context.Context, t task.Task) (*turn.Vault, error)
	LastResponse(ctx context.Context, t task.Task) (turn.Response, bool, error)
}

// Config is what a Depot is made from.
type Config struct {
	Store   store.Store
	Blob    blob.Store // that gives links
	Seal    seal.Sealer
	Tasks   func() Tasks // asked for when there is something to do
	Scratch string       // folder of this process alone, for copies of repositories
	// Place says where a task's run has its workspace, and its copy of the repository.
	Place func(short string) (state, shared string)
	Now   func() time.Time
	Crash func(point string) // told of each point at which a death is interesting; nil for none
}

// Depot serves the repositories of all hosted projects. It is safe for concurrent
// use.
type Depot struct {
	c       Config
	signer  blob.Signer
	storage client.Storage

	mu     sync.Mutex
	copies map[string]*copied // guarded by mu; by tenant and project
}

// copied is a repository's copy on this disk. What is durable lies in one of its
// two parts and nothing else does: the other borrows from it and has all that is
// only being worked on, so that nothing can come to build on what nobody else has.
type copied struct {
	mu    sync.Mutex // one at a time
	held  *git.Repo
	repo  *git.Repo
	packs int64 // how many of the project's packs are held
}

// New returns a Depot.
func New(c Config) (*Depot, error) {
	s, ok := c.Blob.(blob.Signer)
	if !ok {
		return nil, fault.New(fault.Internal, "the blob store gives no links, so it cannot keep repositories")
	}
	if c.Crash == nil {
		c.Crash = func(string) {}
	}
	return &Depot{c: c, signer: s, storage: client.NewStorage(), copies: map[string]*copied{}}, nil
}

// Of returns the repository of a project for work on t, which may be none.
func (d *Depot) Of(tenant, project string, t task.Task) app.Repository {
	return &repository{Depot: d, tenant: tenant, project: project, task: t}
}

// repository is one project's.
type repository struct {
	*Depot
	tenant, project string
	task            task.Task // whose commits may be asked about; zero for none
}

var _ app.Depot = (*repository)(nil)

// meta is the row of a repository.
type meta struct {
	Main    string `json:"main"` // the first branch that was pushed
	Format  string `json:"format"`
	Sealed  []byte `json:"sealed"` // the key of its packs
	Packs   int64  `json:"packs"`
	Version int64  `json:"version"`
}

// ref is the row of a branch. The branch of a task stands where the task's own row
// says.
type ref struct {
	Branch  string         `json:"branch"`
	Head    string         `json:"head"`
	Task    id.Task        `json:"task,omitempty"`
	By      identity.Actor `json:"by,omitzero"`
	At      time.Time      `json:"at"`
	Version int64          `json:"version"`
}

// pack is the row of a bundle of the repository. In the order of their numbers
// each builds on those before it.
type pack struct {
	Name   string    `json:"name"`
	Commit string    `json:"commit"`
	Why    string    `json:"why"`
	Size   int64     `json:"size"`
	At     time.Time `json:"at"`
}

// sealed is what the key of a repository is sealed for.
const sealed = "repository"

func (r *repository) part() store.Partition { return store.For(r.tenant).Project(r.project) }

func load[T any](ctx context.Context, s store.Store, k store.Key) (v T, ok bool, err error) {
	it, err := s.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("read repository: %w", err)
	}
	if err := json.Unmarshal(it.Doc, &v); err != nil {
		return v, false, fmt.Errorf("read %s: %w", k, err)
	}
	return v, true, nil
}

func row(k store.Key, typ string, version int64, v any, conds ...store.Cond) (store.Write, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return store.Write{}, fmt.Errorf("write %s: %w", k, err)
	}
	return store.Write{Act: store.Put, If: conds, Item: store.Item{
		Key: k, Doc: doc, Attr: store.Attr{store.AttrType: typ, store.AttrVersion: version, "schema": int64(1)},
	}}, nil
}

// meta reads the repository's row. One that was never pushed to has none.
func (r *repository) meta(ctx context.Context) (meta, bool, error) {
	return load[meta](ctx, r.c.Store, r.part().Git())
}

// found makes the row of the first push, or finds it.
func (r *repository) found(ctx context.Context, main, format string) (meta, error) {
	m, ok, err := r.meta(ctx)
	if err != nil || ok {
		return m, err
	}
	key := make([]byte, checkpoint.KeySize)
	_, _ = rand.Read(key) // never fails: the runtime ends the program instead
	m = meta{Main: main, Format: format, Version: 1}
	if m.Sealed, err = r.c.Seal.Seal(ctx, r.tenant, sealed+" "+r.project, key); err != nil {
		return m, err
	}
	w, err := row(r.part().Git(), "repository", m.Version, m, store.Absent())
	if err != nil {
		return m, err
	}
	err = r.c.Store.Transact(ctx, w)
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		m, _, err = r.meta(ctx)
	}
	return m, err
}

func (r *repository) key(ctx context.Context, m meta) ([]byte, error) {
	key, err := r.c.Seal.Open(ctx, r.tenant, sealed+" "+r.project, m.Sealed)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the key of this project's repository cannot be opened")
	}
	return key, nil
}

func (r *repository) cipher(ctx context.Context, m meta) (checkpoint.Cipher, error) {
	key, err := r.key(ctx, m)
	if err != nil {
		return checkpoint.Cipher{}, err
	}
	return checkpoint.NewCipher(key)
}

// empty refuses what needs commits where there are none.
func empty() error { return refusal.Of(refusal.NoRepository) }

// open returns a copy of the repository that has the commits named, and what gives
// it back. Packs are fetched only while one is missing.
func (r *repository) open(ctx context.Context, commits ...string) (_ *git.Repo, _ func(), err error) {
	m, ok, err := r.meta(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, empty()
	}
	d := r.Depot
	d.mu.Lock()
	name := r.tenant + "/" + r.project
	c := d.copies[name]
	if c == nil {
		c = &copied{}
		d.copies[name] = c
	}
	d.mu.Unlock()
	c.mu.Lock()
	defer func() {
		if err != nil {
			c.mu.Unlock()
		}
	}()
	if c.repo == nil {
		at := filepath.Join(r.c.Scratch, r.tenant, r.project)
		if c.held, err = git.InitBare(ctx, filepath.Join(at, "held"), m.Format); err != nil {
			return nil, nil, err
		}
		c.packs = 0
		if c.repo, err = borrowing(ctx, filepath.Join(at, "work"), m.Format, c.held); err != nil {
			return nil, nil, err
		}
	}
	lacks := func() string {
		for _, sha := range commits {
			if sha != "" && !c.repo.Has(ctx, sha) {
				return sha
			}
		}
		return ""
	}
	if lacks() == "" {
		return c.repo, c.mu.Unlock, nil
	}
	if err := r.catchUp(ctx, c, m); err != nil {
		return nil, nil, err
	}
	if lacks() != "" {
		if err := r.chain(ctx, c.repo, r.task); err != nil {
			return nil, nil, err
		}
	}
	if sha := lacks(); sha != "" {
		return nil, nil, fault.New(fault.NotFound, "commit %.12s is not in this project's repository", sha)
	}
	return c.repo, c.mu.Unlock, nil
}

// borrowing is a repository that has what another one has, and keeps what it gets
// to itself.
func borrowing(ctx context.Context, dir, format string, from *git.Repo) (*git.Repo, error) {
	repo, err := git.InitBare(ctx, dir, format)
	if err != nil {
		return nil, err
	}
	info := filepath.Join(dir, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	if err := os.WriteFile(filepath.Join(info, "alternates"), []byte(filepath.Join(from.CommonDir, "objects")+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("make repository: %w", err)
	}
	return repo, nil
}

// quarantine calls f with a repository that has all that is durable and nothing
// else, and that is gone afterwards: what is imported there has shown that it needs
// nothing that others lack.
func (r *repository) quarantine(ctx context.Context, m meta, f func(*git.Repo) error) (err error) {
	_, done, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	r.mu.Lock()
	c := r.copies[r.tenant+"/"+r.project]
	r.mu.Unlock()
	if err := r.catchUp(ctx, c, m); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.c.Scratch, "import-")
	if err != nil {
		return fmt.Errorf("make scratch folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo, err := borrowing(ctx, dir, m.Format, c.held)
	if err != nil {
		return err
	}
	return f(repo)
}

// catchUp brings in the packs that a copy lacks.
func (r *repository) catchUp(ctx context.Context, c *copied, m meta) error {
	if c.packs >= m.Packs {
		return nil
	}
	key, err := r.cipher(ctx, m)
	if err != nil {
		return err
	}
	all, err := r.packs(ctx, c.packs)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !c.held.Has(ctx, p.Commit) {
			if err := r.bring(ctx, c.held, key, app.PackKey(r.tenant, r.project, p.Name), p.Name, p.Commit); err != nil {
				return err
			}
		}
		c.packs++
	}
	return nil
}

// packs lists the packs after the first n.
func (r *repository) packs(ctx context.Context, n int64) (all []pack, err error) {
	var bad error
	err = store.All(ctx, r.c.Store, store.Query{PK: r.part().PK, From: r.part().Pack(n + 1).SK, To: "PCK$", Limit: 1000}, func(it store.Item) bool {
		var p pack
		if bad = json.Unmarshal(it.Doc, &p); bad == nil {
			all = append(all, p)
		}
		return bad == nil
	})
	return all, errors.Join(err, bad)
}

// chain brings in what the runs of a task, and before it those of the tasks that it
// was cut from, have committed so far.
func (r *repository) chain(ctx context.Context, repo *git.Repo, t task.Task) error {
	if t.ID == "" {
		return nil
	}
	all, err := r.chainOf(ctx, t)
	if err != nil {
		return err
	}
	for _, c := range all {
		key, err := checkpoint.NewCipher(c.Key)
		if err != nil {
			return err
		}
		of := task.Task{Tenant: t.Tenant, ID: c.Task}
		for _, b := range c.Bundles {
			if repo.Has(ctx, b.Commit) {
				continue
			}
			if err := r.bring(ctx, repo, key, app.VaultKey(of, b.Name), b.Name, b.Commit); err != nil {
				return err
			}
		}
	}
	return nil
}

// bring imports a sealed bundle. Nothing of it is held in memory.
func (r *repository) bring(ctx context.Context, repo *git.Repo, key checkpoint.Cipher, at, name, commit string) error {
	tip := ""
	err := r.scratchFiles(func(shut, open string) error {
		if err := r.fetch(ctx, at, shut, turn.BundleMost+turn.BundleMost/1000); err != nil {
			return err
		}
		if err := unseal(key, name, shut, open); err != nil {
			return err
		}
		var err error
		tip, err = repo.UnbundleFile(ctx, open)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.Wrap(fault.Unavailable, err, "the project's repository cannot be read: pack %s", name)
	}
	if tip != commit {
		return fault.New(fault.Internal, "pack %s holds %.12s, not %.12s", name, tip, commit)
	}
	return nil
}

// scratchFiles calls f with the names of two files that are gone afterwards.
func (d *Depot) scratchFiles(f func(a, b string) error) (err error) {
	if err := os.MkdirAll(d.c.Scratch, 0o700); err != nil {
		return fmt.Errorf("make scratch folder: %w", err)
	}
	dir, err := os.MkdirTemp(d.c.Scratch, "parcel-")
	if err != nil {
		return fmt.Errorf("make scratch folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
}

func unseal(key checkpoint.Cipher, name, from, to string) error {
	return through(from, to, func(in, out *os.File) error { return key.OpenStream(name, out, in) })
}

func reseal(key checkpoint.Cipher, name, from, to string) error {
	return through(from, to, func(in, out *os.File) error { return key.SealStream(name, out, in) })
}

func through(from, to string, f func(in, out *os.File) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f(in, out), out.Close())
}
