package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Refresh makes the workspace's index and HEAD agree with next after its branch
// moved there by a commit that Prepare made: the files are there already. What
// the agent staged beyond that commit stays staged.
func (u *Untrusted) Refresh(ctx context.Context, next string) error {
	if err := shas(next); err != nil {
		return err
	}
	return u.repo.with(u.ws.scratch(), func(p *private) error {
		changes, err := p.diffTrees(ctx, u.tip, next)
		if err != nil {
			return err
		}
		if err := u.settleIndex(ctx, p, next, changes, nil); err != nil {
			return err
		}
		u.tip = next
		return nil
	})
}

// Advance brings the files, the index and HEAD from the recorded tip to next.
// Edits elsewhere stay; an edit in the way is an Overlap and nothing is written.
// Each file changes by one rename, and doing it again after a crash finishes it.
func (u *Untrusted) Advance(ctx context.Context, next string) error {
	if err := shas(next); err != nil {
		return err
	}
	return u.repo.with(u.ws.scratch(), func(p *private) error {
		changes, err := u.clear(ctx, p, next)
		if err != nil {
			return err
		}
		if err := u.write(ctx, p, next, changes); err != nil {
			return err
		}
		if err := u.settleIndex(ctx, p, next, changes, nil); err != nil {
			return err
		}
		u.tip = next
		return nil
	})
}

// clear returns what differs between the tip and next (a commit or a tree) after
// it found no edit in the way.
func (u *Untrusted) clear(ctx context.Context, p *private, next string) ([]change, error) {
	changes, err := p.diffTrees(ctx, u.tip, next)
	if err != nil {
		return nil, err
	}
	touched := make([]string, 0, len(changes))
	for _, c := range changes {
		if c.Old.Mode != modeRepo && c.New.Mode != modeRepo {
			touched = append(touched, c.Path)
		}
	}
	s, err := u.snapshot(ctx, p, touched, nil)
	if err != nil {
		return nil, err
	}
	if files := s.inTheWay(changes); len(files) > 0 {
		o := &Overlap{Path: u.ws.Tree, Files: files}
		return nil, fault.Wrap(fault.Conflict, o, "uncommitted edits in the workspace are in the way: %s", list(files)).
			WithNext("Commit or discard them, then try again.").WithDetail("files", files)
	}
	return changes, nil
}

// inTheWay lists paths whose content is neither the old nor the new one.
func (s *snapshot) inTheWay(changes []change) []string {
	touched := map[string]change{}
	for _, c := range changes {
		touched[c.Path] = c
	}
	bad := map[string]bool{}
	for _, c := range changes {
		if c.Old.Mode == modeRepo || c.New.Mode == modeRepo {
			continue
		}
		if is := s.entry(c.Path); is != c.Old && is != c.New {
			bad[c.Path] = true
			continue
		}
		if c.New.Mode == 0 {
			continue
		}
		// A directory where the file goes may hold only what goes away, and a
		// file where a directory goes has to go away itself.
		for p := range s.stats {
			if _, ours := touched[p]; !ours && strings.HasPrefix(p, c.Path+"/") {
				bad[p] = true
			}
		}
		for d := path.Dir(c.Path); d != "."; d = path.Dir(d) {
			if t, ours := touched[d]; ours && t.New.Mode == 0 {
				continue
			}
			if _, ok := s.stats[d]; ok || s.kept[d] {
				bad[d] = true
			}
		}
	}
	for _, e := range s.index {
		c, ok := touched[e.Path]
		if ok && e.Stage == 0 && !e.Intent && c.Old.Mode != modeRepo && e.Blob != c.Old && e.Blob != c.New {
			bad[e.Path] = true
		}
	}
	return sortedKeys(bad)
}

// write makes the changed files in the shadow tree, where git converts line
// endings, and moves their content into the workspace.
func (u *Untrusted) write(ctx context.Context, p *private, next string, changes []change) error {
	var make bytes.Buffer
	for _, c := range changes {
		if c.New.Mode != 0 && c.New.Mode != modeRepo {
			make.WriteString(c.Path)
			make.WriteByte(0)
		}
	}
	if make.Len() > 0 {
		if err := p.resetShadow(); err != nil {
			return err
		}
		if _, err := p.run(ctx, nil, "read-tree", next); err != nil {
			return err
		}
		if _, err := p.run(ctx, &make, "checkout-index", "-f", "-q", "-z", "--stdin"); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
	}
	root, err := os.OpenRoot(u.ws.Tree)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	return errors.Join(u.writeAll(ctx, p, root, changes), root.Close())
}

func (u *Untrusted) writeAll(ctx context.Context, p *private, root *os.Root, changes []change) error {
	for _, c := range changes { // deletions first: a directory may become a file
		if c.New.Mode != 0 || c.Old.Mode == modeRepo {
			continue
		}
		if err := removeFile(root, c.Path); err != nil {
			return fmt.Errorf("remove %q: %w", c.Path, err)
		}
	}
	for i, c := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.New.Mode == 0 {
			continue
		}
		if err := u.writeOne(p, root, c); err != nil {
			return fmt.Errorf("write %q: %w", c.Path, err)
		}
		if i == 0 {
			u.repo.crash("git.advance.file")
		}
	}
	u.repo.crash("git.advance.files")
	return nil
}

func (u *Untrusted) writeOne(p *private, root *os.Root, c change) error {
	if err := root.MkdirAll(path.Dir(c.Path), 0o755); err != nil {
		return err
	}
	if c.New.Mode == modeRepo {
		return root.MkdirAll(c.Path, 0o755)
	}
	if fi, err := root.Lstat(c.Path); err == nil && fi.IsDir() {
		if err := pruneEmpty(root, c.Path, 0); err != nil {
			return err
		}
	}
	from := filepath.Join(p.shadow, filepath.FromSlash(c.Path))
	sum := sha256.Sum256([]byte(c.Path))
	temp := path.Join(path.Dir(c.Path), fmt.Sprintf(".lazy-%x.tmp", sum[:6]))
	if c.New.Mode == modeLink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := ignoreMissing(root.Remove(temp)); err != nil {
			return err
		}
		if err := root.Symlink(target, temp); err != nil {
			return err
		}
		if err := root.Rename(temp, c.Path); err != nil {
			return errors.Join(err, root.Remove(temp))
		}
	} else {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o666)
		if c.New.Mode == modeExec {
			mode = 0o777
		}
		if err := errors.Join(replaceFile(root, c.Path, temp, mode, f), f.Close()); err != nil {
			return err
		}
	}
	fi, err := root.Lstat(c.Path)
	if err != nil {
		return err
	}
	u.stats[c.Path] = statOf(fi)
	return nil
}

// removeFile deletes a file and the directories that it leaves empty.
func removeFile(root *os.Root, name string) error {
	fi, err := root.Lstat(name)
	if err == nil && !fi.IsDir() {
		err = root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !notDir(err) {
		return err
	}
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		if root.Remove(d) != nil {
			break // not empty, or gone: both are fine
		}
	}
	return nil //nolint:nilerr // an error here says that the file was gone already
}

// pruneEmpty removes a directory that holds nothing but directories.
func pruneEmpty(parent *os.Root, name string, depth int) (err error) {
	if depth > maxDepth {
		return fault.New(fault.TooLarge, "%q is nested too deeply", name)
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	names, err := readNames(dir)
	for _, n := range names {
		if fi, lerr := dir.Lstat(n); lerr == nil && fi.IsDir() {
			err = errors.Join(err, pruneEmpty(dir, n, depth+1))
		}
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	return parent.Remove(name)
}

// resetShadow empties the private work tree.
func (p *private) resetShadow() error {
	if err := os.RemoveAll(p.shadow); err != nil {
		return err
	}
	return os.Mkdir(p.shadow, 0o700)
}

// settleIndex writes the agent's index: its own entries, with changes on top and
// extra (stages of a conflict) added. It also puts HEAD back on the branch and
// ends a merge unless there is one in extra.
func (u *Untrusted) settleIndex(ctx context.Context, p *private, next string, changes []change, extra []indexEntry) error {
	old, _, err := u.readIndex()
	if err != nil && !errors.Is(err, ErrIndex) {
		return err
	}
	byPath := map[string]indexEntry{}
	if old == nil {
		tree, err := p.listTree(ctx, next)
		if err != nil {
			return err
		}
		for path, b := range tree {
			byPath[path] = indexEntry{Path: path, Blob: b, Stat: u.stats[path]}
		}
	}
	for _, e := range old {
		if e.Stage == 0 {
			byPath[e.Path] = e
		}
	}
	for _, c := range changes {
		was, had := byPath[c.Path]
		switch {
		case c.New.Mode == 0:
			delete(byPath, c.Path)
		case had && was.Blob == c.New && was.Stat.Size != 0 && u.stats[c.Path] == (stat{}):
		default:
			byPath[c.Path] = indexEntry{Path: c.Path, Blob: c.New, Stat: u.stats[c.Path]}
		}
	}
	for _, e := range extra {
		delete(byPath, e.Path)
	}
	entries := make([]indexEntry, 0, len(byPath)+len(extra))
	for _, e := range byPath {
		entries = append(entries, e)
	}
	b, err := formatIndex(append(entries, extra...), u.idLen())
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(u.ws.GitDir)
	if err != nil {
		return fmt.Errorf("open workspace git directory: %w", err)
	}
	return errors.Join(u.writeMeta(ctx, root, b, len(extra) > 0), root.Close())
}

// waitUnlocked gives a git of the agent time to finish. A lock that stays
// protects nothing but the agent's own state, so it is overruled: waiting for
// ever would let a left-over file stop the task.
func waitUnlocked(ctx context.Context, root *os.Root, lock string) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for range lockTries {
		if _, err := root.Lstat(lock); err != nil {
			return ignoreMissing(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// How long a lock of another git is respected.
const (
	lockPoll  = 25 * time.Millisecond
	lockTries = 40
)

// mergeState are the files git keeps while a merge is under way.
var mergeState = []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE", "MERGE_RR", "CHERRY_PICK_HEAD", "REVERT_HEAD"}

func (u *Untrusted) writeMeta(ctx context.Context, root *os.Root, index []byte, merging bool) error {
	if err := waitUnlocked(ctx, root, "index.lock"); err != nil {
		return err
	}
	if err := replaceFile(root, "index", "index.lock", 0o666, bytes.NewReader(index)); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	head := "ref: refs/heads/" + u.ws.Branch + "\n"
	if b, _, err := readRegular(root, "HEAD", maxMeta); err != nil || string(b) != head {
		if err := replaceFile(root, "HEAD", "HEAD.lock", 0o666, strings.NewReader(head)); err != nil {
			return fmt.Errorf("write HEAD: %w", err)
		}
	}
	if merging {
		return nil
	}
	for _, name := range mergeState {
		if err := ignoreMissing(root.Remove(name)); err != nil {
			return fmt.Errorf("end merge: %w", err)
		}
	}
	return nil
}
