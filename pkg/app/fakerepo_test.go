package app_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// fakeRepo is a repository of whole files: commits are immutable trees with
// parents, branches point at them, and a landing is a three-way pick per file.
type fakeRepo struct {
	mu       sync.Mutex
	commits  map[string]fakeCommit
	branches map[string]string
	current  string
	removed  []string
	// dirty, unmerged and overlap are what probes and landings find, by task id
	// and by target.
	dirty    map[string][]string
	unmerged map[string][]string
	overlap  map[string][]string
	absorbed map[string]bool // tasks whose work somebody has merged by hand
	failNext error
}

type fakeCommit struct {
	parents []string
	files   map[string]string
	subject string
}

func newFakeRepo() *fakeRepo {
	r := &fakeRepo{
		commits: map[string]fakeCommit{}, branches: map[string]string{}, current: "main",
		dirty: map[string][]string{}, unmerged: map[string][]string{}, overlap: map[string][]string{}, absorbed: map[string]bool{},
	}
	r.branches["main"] = r.add(fakeCommit{files: map[string]string{"README": "hello\n"}, subject: "first"})
	return r
}

func (r *fakeRepo) add(c fakeCommit) string {
	h := sha1.New()
	fmt.Fprint(h, c.parents, c.subject)
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		fmt.Fprint(h, name, "\x00", c.files[name], "\x00")
	}
	sha := hex.EncodeToString(h.Sum(nil))
	r.commits[sha] = c
	return sha
}

// branchFrom makes branch at the head of from, unless it exists, and returns its
// head.
func (r *fakeRepo) branchFrom(branch, from string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.branches[branch]; !ok {
		head, ok := r.branches[from]
		if !ok {
			head = r.branches[r.current]
		}
		r.branches[branch] = head
	}
	return r.branches[branch]
}

// commit adds a commit on parent that sets files, moves no branch, and returns it.
func (r *fakeRepo) commit(parent, subject string, files map[string]string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.commits[parent].files)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, files)
	return r.add(fakeCommit{parents: []string{parent}, files: all, subject: subject})
}

func (r *fakeRepo) failed() error {
	err := r.failNext
	r.failNext = nil
	return err
}

func (r *fakeRepo) Current(context.Context) (string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.branches[r.current], r.failed()
}

func (r *fakeRepo) Tip(_ context.Context, branch string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return "", err
	}
	sha, ok := r.branches[branch]
	if !ok {
		return "", fault.New(fault.NotFound, "no branch %s", branch)
	}
	return sha, nil
}

func (r *fakeRepo) Prepare(_ context.Context, t task.Task, branch, base string) (task.Workspace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return task.Workspace{}, err
	}
	if _, ok := r.branches[branch]; !ok {
		r.branches[branch] = base
	}
	at := "/work/" + t.ID.Short()
	return task.Workspace{Tree: at + "/tree", GitDir: at + "/gitdir", Objects: at + "/objects", Shared: "/repo/.git"}, nil
}

func (r *fakeRepo) Probe(_ context.Context, t task.Task) (app.Probe, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.unmerged[string(t.ID)]
	return app.Probe{Dirty: r.dirty[string(t.ID)], Unmerged: u, MidMerge: len(u) > 0}, r.failed()
}

func (r *fakeRepo) Diff(_ context.Context, q app.DiffQuery) (app.Diff, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return app.Diff{}, err
	}
	var b strings.Builder
	var d app.Diff
	for _, name := range r.changed(q.Base, q.Tip) {
		if len(q.Paths) > 0 && !slices.ContainsFunc(q.Paths, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }) {
			continue
		}
		was, now := lines(r.commits[q.Base].files[name]), lines(r.commits[q.Tip].files[name])
		d.Files = append(d.Files, app.FileChange{Path: name, Added: len(now), Deleted: len(was)})
		fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", name, name)
		for _, l := range was {
			b.WriteString("-" + l + "\n")
		}
		for _, l := range now {
			b.WriteString("+" + l + "\n")
		}
	}
	text := b.String()
	text = text[min(q.Offset, len(text)):]
	if q.MaxBytes > 0 && len(text) > q.MaxBytes {
		text, d.Truncated, d.Next = text[:q.MaxBytes], true, q.Offset+q.MaxBytes
	}
	d.Text = text
	return d, nil
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func (r *fakeRepo) changed(base, tip string) []string {
	was, now := r.commits[base].files, r.commits[tip].files
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if old, ok := was[name]; !ok || old != now[name] {
			out = append(out, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[name]; !ok {
			out = append(out, name)
		}
	}
	return out
}

func (r *fakeRepo) Plan(_ context.Context, t task.Task) (app.Landing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return app.Landing{}, err
	}
	head, ok := r.branches[t.Target]
	if !ok {
		return app.Landing{}, fault.New(fault.NotFound, "no branch %s", t.Target)
	}
	ours, theirs := r.changed(t.Base, t.Tip), r.changed(t.Base, head)
	var clash []string
	for _, f := range ours {
		if slices.Contains(theirs, f) && r.commits[t.Tip].files[f] != r.commits[head].files[f] {
			clash = append(clash, f)
		}
	}
	if len(clash) > 0 {
		return app.Landing{}, &app.MergeConflict{Files: clash}
	}
	return app.Landing{Target: t.Target, TargetHead: head, Tip: t.Tip, Tree: "tree-" + t.Tip, Files: ours, Task: string(t.ID)}, nil
}

func (r *fakeRepo) Overlap(_ context.Context, l app.Landing) ([]string, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, f := range r.overlap[l.Target] {
		if slices.Contains(l.Files, f) {
			out = append(out, f)
		}
	}
	return out, "/repo", r.failed()
}

func (r *fakeRepo) Commit(_ context.Context, l app.Landing, message string, when time.Time) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return "", err
	}
	files := maps.Clone(r.commits[l.TargetHead].files)
	for _, f := range l.Files {
		files[f] = r.commits[l.Tip].files[f]
	}
	return r.add(fakeCommit{parents: []string{l.TargetHead}, files: files, subject: message + when.UTC().String()}), nil
}

func (r *fakeRepo) Land(_ context.Context, l app.Landing, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return err
	}
	switch r.branches[l.Target] {
	case commit:
		return nil
	case l.TargetHead:
		r.branches[l.Target] = commit
		return nil
	}
	return fault.New(fault.Conflict, "%s has moved", l.Target)
}

func (r *fakeRepo) Contains(_ context.Context, branch, commit string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	queue := []string{r.branches[branch]}
	for len(queue) > 0 {
		sha := queue[0]
		queue = queue[1:]
		if sha == commit {
			return true, r.failed()
		}
		if !seen[sha] {
			seen[sha] = true
			queue = append(queue, r.commits[sha].parents...)
		}
	}
	return false, r.failed()
}

func (r *fakeRepo) Finish(_ context.Context, t task.Task, parent, commit string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.commits[commit]; ok && r.branches[t.Branch] == parent {
		r.branches[t.Branch] = commit
	}
	return r.branches[t.Branch], r.failed()
}

func (r *fakeRepo) SaveRecovery(_ context.Context, t task.Task, kind string, when time.Time) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dirty[string(t.ID)]) == 0 {
		return "", r.failed()
	}
	return fmt.Sprintf(".lazy/recovery/%s-%d.patch", kind, when.Unix()), r.failed()
}

func (r *fakeRepo) Remove(_ context.Context, t task.Task, tip string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failed(); err != nil {
		return err
	}
	if r.branches[t.Branch] == tip {
		delete(r.branches, t.Branch)
	}
	r.removed = append(r.removed, string(t.ID))
	return nil
}

func (r *fakeRepo) Subjects(_ context.Context, base, tip string) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for sha := tip; sha != base && sha != ""; {
		c := r.commits[sha]
		out = append(out, c.subject)
		sha = ""
		if len(c.parents) > 0 {
			sha = c.parents[0]
		}
	}
	slices.Reverse(out)
	return out, r.failed()
}

// absorb puts a task's work on its target as a person would who merges by hand.
func (r *fakeRepo) absorb(t id.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absorbed[string(t)] = true
}

// Absorbed returns the target's head for a task that was absorbed.
func (r *fakeRepo) Absorbed(_ context.Context, t task.Task) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.absorbed[string(t.ID)] {
		return "", r.failed()
	}
	return r.branches[t.Target], r.failed()
}

func (r *fakeRepo) head(branch string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.branches[branch]
}
