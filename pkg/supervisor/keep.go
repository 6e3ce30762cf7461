package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The parts of a workspace that a checkpoint holds.
const (
	partTree    = "tree"
	partGit     = "git" // index, HEAD, merge state, submodules
	partObjects = "objects"
	partHome    = "home" // the agent CLI's session files
)

// keeper makes a hosted run's workspace outlive its container (UW-008): commits
// as bundles before they are recorded, everything else as checkpoints. A run whose
// workspace is directories that outlive it has none.
type keeper struct {
	r      *run
	depot  *depot
	vault  *turn.Vault
	cipher checkpoint.Cipher
	last   *checkpoint.Manifest
	saver  *checkpoint.Saver // used under the broker's lock
	stored int64             // bundles of this run; used under the broker's lock
	patch  string            // what an older checkpoint was kept as
}

// newKeeper returns the run's keeper, nil when the control plane handed out no
// vault.
func newKeeper(r *run, v *turn.Vault) (*keeper, error) {
	if v == nil {
		return nil, nil
	}
	c, err := checkpoint.NewCipher(v.Key)
	if err != nil {
		return nil, err
	}
	return &keeper{r: r, depot: newDepot(r.link), vault: v, cipher: c}, nil
}

// reopen lays out the workspace of the task if this container has none yet: the
// recorded tip with every commit before it, and on it the checkpoint in force, all
// of it before the agent starts (UW-011).
func (k *keeper) reopen(ctx context.Context, v *turn.Vault) error {
	r := k.r
	repo, err := k.repository(ctx, v)
	if err != nil {
		return err
	}
	if err := k.commits(ctx, repo, v.Bundles); err != nil {
		return err
	}
	if v.Checkpoint != nil {
		m, err := checkpoint.Load(ctx, k.depot, k.cipher, *v.Checkpoint)
		if err != nil {
			return unusable(err)
		}
		k.last = &m
	}
	if r.workspace().Check() == nil {
		return nil // the container is warm: what is there is newer than any checkpoint
	}
	if err := k.layOut(ctx, repo, v.Bundles); err != nil {
		return err
	}
	if k.last == nil {
		return nil
	}
	if err := k.restore(ctx, repo, *k.last); err != nil {
		return unusable(err)
	}
	if r.cmd.Merge != nil { // what the workspace was told to merge lay beside it
		if err := spool.Write(r.boxDir(), mergeFile, *r.cmd.Merge); err != nil {
			return err
		}
	}
	r.log.Info("restored", "checkpoint", fmt.Sprintf("%d/%d", k.last.Epoch, k.last.Seq), "patch", k.patch)
	return nil
}

// unusable parks a task whose checkpoint cannot be restored: nothing starts from
// a partial tree (UW-012).
func unusable(err error) error {
	if errors.Is(err, checkpoint.ErrDamaged) {
		return fault.Wrap(fault.Failed, err, "the saved workspace is damaged, so nothing was restored from it and the agent was not started").
			WithNext("Its commits are safe. Reject the task, or close it and start it again: edits that were never committed are lost.")
	}
	return err
}

// commits brings the task's commits into the repository.
func (k *keeper) commits(ctx context.Context, repo *git.Repo, bundles []turn.Bundle) error {
	for _, b := range bundles {
		if repo.Has(ctx, b.Commit) {
			continue
		}
		err := k.bring(ctx, repo, k.cipher, b, func(ctx context.Context) (turn.Link, error) {
			out, err := k.depot.link.upload(ctx, turn.UploadIn{Get: []string{b.Name}})
			return one(out.Get, err)
		})
		if err != nil {
			return err
		}
	}
	if !repo.Has(ctx, k.r.cmd.Tip) {
		return fault.New(fault.Unavailable, "the recorded commit %.7s is in neither the repository nor the task's bundles", k.r.cmd.Tip)
	}
	return nil
}

// layOut makes the workspace at the recorded tip.
func (k *keeper) layOut(ctx context.Context, repo *git.Repo, bundles []turn.Bundle) error {
	c := k.r.cmd
	if at, err := repo.BranchTip(ctx, c.Branch); err == nil && at != c.Tip {
		// The run before died between the durable row and the ref (UW-013).
		for _, b := range bundles {
			if b.Commit == c.Tip {
				if err := repo.FinishCommit(ctx, "refs/heads/"+c.Branch, b.Parent, b.Commit); err != nil {
					return err
				}
			}
		}
	}
	ws, err := repo.CreateWorkspace(ctx, git.WorkspaceSpec{
		StateDir: c.State, TaskShort: strings.TrimPrefix(filepath.Base(c.GitDir), "lazy-"), Branch: c.Branch, Base: c.Base, Tip: c.Tip,
	})
	if err != nil {
		return fmt.Errorf("lay out workspace: %w", err)
	}
	if ws.Tree != c.Tree || ws.GitDir != c.GitDir || ws.Objects != c.Objects {
		return fault.New(fault.Internal, "the workspace lies at %s, and was recorded at %s", ws.Tree, c.Tree)
	}
	return nil
}

// restore lays a checkpoint over its own base. Over a newer tip it is never laid:
// the difference is kept as a recovery patch, and the turn says so (UW-014).
func (k *keeper) restore(ctx context.Context, repo *git.Repo, m checkpoint.Manifest) error {
	c := k.r.cmd
	home, err := k.r.agentHome()
	if err != nil {
		return err
	}
	scratch := filepath.Join(k.r.Dir, "restore")
	into := map[string]checkpoint.Target{partHome: {Dir: home}}
	base, err := repo.Files(ctx, m.Base)
	if err != nil {
		return fmt.Errorf("list files of checkpoint's commit: %w", err)
	}
	raw := func(ctx context.Context, id string, w io.Writer) error { return repo.Content(ctx, id, w) }
	if m.Base == c.Tip {
		if err := emptied(c.Tree, base); err != nil {
			return err
		}
		into[partTree] = checkpoint.Target{Dir: c.Tree, Base: blobs(base), Raw: raw}
		into[partGit] = checkpoint.Target{Dir: c.GitDir, Drop: []string{"index"}}
		into[partObjects] = checkpoint.Target{Dir: c.Objects}
		return checkpoint.Restore(ctx, k.depot, k.cipher, m, scratch, into)
	}
	if err := checkpoint.Restore(ctx, k.depot, k.cipher, m, scratch, into); err != nil {
		return err
	}
	k.patch, err = repo.PatchOf(ctx, m.Base, func(tree string) error {
		return checkpoint.Restore(ctx, k.depot, k.cipher, m, scratch, map[string]checkpoint.Target{
			partTree: {Dir: tree, Base: blobs(base), Raw: raw},
		})
	}, git.Recovery{Dir: filepath.Join(c.State, "recovery"), When: k.r.Now()}, "checkpoint")
	return err
}

// emptied takes the files out of submodules that a checkout filled: a checkpoint
// holds all of theirs.
func emptied(tree string, base map[string]git.Entry) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	for path, f := range base {
		if f.Submodule {
			if err := root.RemoveAll(path); err != nil {
				return fmt.Errorf("empty submodule: %w", err)
			}
		}
	}
	return nil
}

func blobs(files map[string]git.Entry) map[string]checkpoint.Blob {
	all := make(map[string]checkpoint.Blob, len(files))
	for path, f := range files {
		all[path] = checkpoint.Blob{ID: f.ID, Exec: f.Exec, Link: f.Link, Dir: f.Submodule}
	}
	return all
}

// attach makes the broker's commits durable outside the container before they
// are recorded, and saves the workspace on the new base before they are answered
// (UW-010, UW-013).
func (k *keeper) attach(b *broker) {
	k.saver = checkpoint.NewSaver(k.depot, k.cipher, k.r.cmd.Epoch, k.last, k.r.Now)
	b.bundle = func(ctx context.Context, parent, commit string) (string, error) {
		k.stored++ // another try has another name
		name := turn.ObjectName(k.r.cmd.Epoch, k.stored, turn.BundleObject)
		if err := k.carry(ctx, b.repo, name, parent, commit); err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "the commit could not be stored outside the run. Nothing was committed.").
				WithNext("Call lazy_commit again in a moment.")
		}
		return name, nil
	}
	if k.vault.Repository != nil {
		b.fetch = func(ctx context.Context, commit string) error { return k.fetch(ctx, b.repo, commit) }
	}
	b.kept = func(ctx context.Context) {
		if err := k.save(ctx); err != nil {
			k.r.log.Warn("save workspace on the new commit", "err", err)
		}
	}
}

// period saves the workspace every 30 s while the agent works on it.
func (k *keeper) period(ctx context.Context) {
	each(ctx, names.CheckpointPeriod, func() {
		if err := k.saveNow(ctx); err != nil && ctx.Err() == nil {
			k.r.log.Warn("save workspace", "err", err)
		}
	})
}

// each calls f once a period until ctx is done, never two at a time.
func each(ctx context.Context, period time.Duration, f func()) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f()
		}
	}
}

// watch begins to save periodically and returns what ends it.
func (k *keeper) watch(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.period(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// saveMost bounds the last save of a run that is being ended.
const saveMost = 75 * time.Second

// end saves what a turn left, whatever ended it.
func (k *keeper) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveMost)
	defer cancel()
	if err := k.saveNow(ctx); err != nil {
		k.r.log.Error("save workspace at the end of the turn", "err", err)
	}
	k.r.Crash("saved")
}

func (k *keeper) saveNow(ctx context.Context) error {
	b := k.r.broker
	if b == nil || k.saver == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return k.save(ctx)
}

// save writes a checkpoint if anything changed. The broker's lock is held, so
// that no commit moves the base meanwhile.
func (k *keeper) save(ctx context.Context) error {
	c, b := k.r.cmd, k.r.broker
	s, err := b.tree.Survey(ctx)
	if err != nil {
		return err
	}
	parts := []checkpoint.Part{
		{Name: partTree, Dir: c.Tree, Base: blobs(s.Files), Skip: unkept(s.Ignored, c.Keep)},
		{Name: partGit, Dir: c.GitDir, Skip: func(p string, _ bool) bool {
			return p == "commondir" || p == "gitdir" || p == "config.worktree" || p == "locked" || strings.HasSuffix(p, ".lock")
		}},
		{Name: partObjects, Dir: c.Objects, Skip: func(p string, _ bool) bool {
			return p == "info" || strings.HasPrefix(filepath.Base(p), "tmp_")
		}},
	}
	if k.r.home != "" && !c.Host {
		parts = append(parts, checkpoint.Part{Name: partHome, Dir: k.r.home, Skip: func(p string, _ bool) bool {
			return p == ".cache" || p == ".npm" || p == ".lazy"
		}})
	}
	p, st, changed, err := k.saver.Save(ctx, b.tip, parts)
	if err != nil {
		return err
	}
	if changed {
		k.r.log.Info("saved", "seq", p.Seq, "entries", st.Entries, "read", st.Read, "stored", st.Stored)
	}
	return nil
}

// unkept leaves out the repository link and what git ignores, but for what the
// project wants kept, and the directories on the way there.
func unkept(ignored map[string]bool, keep []string) func(string, bool) bool {
	on := map[string]bool{}
	for _, k := range keep {
		for d := filepath.Dir(filepath.Clean(k)); d != "." && d != "/"; d = filepath.Dir(d) {
			on[d] = true
		}
	}
	return func(p string, dir bool) bool {
		if p == ".git" {
			return true
		}
		out := false
		for d := p; d != "." && !out; d = filepath.Dir(d) {
			out = ignored[d]
		}
		if !out || dir && on[p] {
			return false
		}
		for _, k := range keep {
			if k = filepath.Clean(k); p == k || strings.HasPrefix(p, k+"/") {
				return false
			}
		}
		return true
	}
}
