package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// snapshot is what an agent's workspace would be as a commit on the recorded
// tip. It lives in a private git directory; the agent's files were only copied.
type snapshot struct {
	p        *private
	tip      string
	tree     map[string]blob // of the tip
	index    []indexEntry    // the agent's own; nil when unreadable
	changed  map[string]blob // against the tip; the zero blob is a deletion
	stats    map[string]stat // of the files that were read
	kept     map[string]bool // tracked files that did not have to be read
	embedded []string
}

// entry returns what the workspace has at a tracked or read path.
func (s *snapshot) entry(p string) blob {
	if b, ok := s.changed[p]; ok {
		return b
	}
	return s.tree[p]
}

// unmerged lists the paths whose merge the agent has not resolved.
func (s *snapshot) unmerged() []string { return unmergedIn(s.index) }

func unmergedIn(index []indexEntry) []string {
	var all []string
	for _, e := range index {
		if e.Stage > 0 && (len(all) == 0 || all[len(all)-1] != e.Path) {
			all = append(all, e.Path)
		}
	}
	return all
}

// snapshot stages the workspace privately. Paths in force are looked at even
// when ignored; want, when not nil, leaves every other path as it is in the tip.
func (u *Untrusted) snapshot(ctx context.Context, p *private, force []string, want func(string) bool) (*snapshot, error) {
	tree, err := p.listTree(ctx, u.tip)
	if err != nil {
		return nil, err
	}
	index, written, err := u.readIndex()
	if err != nil && !errors.Is(err, ErrIndex) {
		return nil, err
	}
	sc := &scan{p: p, tip: tree, written: written, want: want, force: map[string]bool{}}
	if index != nil {
		sc.index = make(map[string]indexEntry, len(index))
		for _, e := range index {
			sc.index[e.Path] = e
		}
	}
	for _, f := range force {
		sc.force[f] = true
	}
	root, err := os.OpenRoot(u.ws.Tree)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	if err := errors.Join(sc.run(ctx, root), root.Close()); err != nil {
		return nil, fmt.Errorf("read workspace: %w", err)
	}
	s := &snapshot{p: p, tip: u.tip, tree: tree, index: index, stats: sc.stats, kept: sc.keep, embedded: sc.embedded}
	if err := s.stage(ctx, sc); err != nil {
		return nil, err
	}
	return s, nil
}

// stage brings the copies into the private index and learns what differs.
func (s *snapshot) stage(ctx context.Context, sc *scan) error {
	s.changed = map[string]blob{}
	var gone, add bytes.Buffer
	zero := s.p.r.none()
	for p, b := range s.tree {
		if sc.keep[p] || (sc.want != nil && !sc.want(p)) {
			continue
		}
		if _, read := sc.stats[p]; read {
			continue
		}
		e, tracked := sc.index[p]
		// A sparse checkout leaves files out; a submodule that is not filled
		// in has no directory. Neither is a deletion while the index has it.
		if tracked && (e.Skip || b.Mode == modeRepo) || (sc.index == nil && b.Mode == modeRepo) {
			continue
		}
		fmt.Fprintf(&gone, "0 %s\t%s\x00", zero, p)
	}
	for p := range sc.stats {
		add.WriteString(p)
		add.WriteByte(0)
	}
	if gone.Len() == 0 && add.Len() == 0 {
		return nil
	}
	if _, err := s.p.run(ctx, nil, "read-tree", s.tip); err != nil {
		return fmt.Errorf("stage workspace: %w", err)
	}
	if gone.Len() > 0 {
		if _, err := s.p.run(ctx, &gone, "update-index", "-z", "--index-info"); err != nil {
			return fmt.Errorf("stage workspace: %w", err)
		}
	}
	if add.Len() > 0 {
		if err := s.p.add(ctx, add.Bytes()); err != nil {
			return fmt.Errorf("stage workspace: %w", err)
		}
	}
	out, err := s.p.run(ctx, nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", s.tip)
	if err != nil {
		return fmt.Errorf("stage workspace: %w", err)
	}
	changes, err := parseRaw(out)
	if err != nil {
		return err
	}
	for _, c := range changes {
		s.changed[c.Path] = c.New
	}
	return nil
}

// add stages the named copies. Attributes that ask for an encoding a file is not
// in, or that this machine does not have, are left out for all of them: files are
// then stored as they are, and a workspace never stops being readable by them.
func (p *private) add(ctx context.Context, paths []byte) error {
	args := []string{"update-index", "--add", "--replace", "-z", "--stdin"}
	_, err := p.run(ctx, bytes.NewReader(paths), args...)
	if !strings.Contains(stderrOf(err), "working-tree-encoding") && !strings.Contains(stderrOf(err), "failed to encode") {
		return err
	}
	info := filepath.Join(p.dir, "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(info, "attributes"), []byte("* !working-tree-encoding\n"), 0o600); err != nil {
		return err
	}
	_, err = p.run(ctx, bytes.NewReader(paths), args...)
	return err
}

// change is one line of a raw diff.
type change struct {
	Path     string
	Old, New blob
}

// parseRaw reads raw, NUL-terminated diff output without renames.
func parseRaw(out []byte) ([]change, error) {
	f := splitZ(out)
	var all []change
	for i := 0; i+1 < len(f); i += 2 {
		w := strings.Fields(strings.TrimPrefix(f[i], ":"))
		if len(w) != 5 {
			return nil, fmt.Errorf("read raw diff: %q", f[i])
		}
		c := change{Path: f[i+1]}
		for j, side := range []*blob{&c.Old, &c.New} {
			mode, err := strconv.ParseUint(w[j], 8, 32)
			if err != nil {
				return nil, fmt.Errorf("read raw diff: %w", err)
			}
			if mode != 0 {
				*side = blob{Mode: uint32(mode), ID: w[2+j]}
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// listTree returns every entry of a commit's tree.
func (p *private) listTree(ctx context.Context, commit string) (map[string]blob, error) {
	out, err := p.run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, fmt.Errorf("list tree of %s: %w", short(commit), err)
	}
	recs := splitZ(out)
	all := make(map[string]blob, len(recs))
	for _, rec := range recs {
		meta, name, ok := strings.Cut(rec, "\t")
		w := strings.Fields(meta)
		if !ok || len(w) != 3 {
			return nil, fmt.Errorf("list tree of %s: read %q", short(commit), rec)
		}
		mode, err := strconv.ParseUint(w[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("list tree of %s: %w", short(commit), err)
		}
		all[name] = blob{Mode: uint32(mode), ID: w[2]}
	}
	return all, nil
}

// diffTrees lists what differs between two commits or trees of the shared store.
func (p *private) diffTrees(ctx context.Context, from, to string) ([]change, error) {
	out, err := p.run(ctx, nil, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", from, to)
	if err != nil {
		return nil, fmt.Errorf("compare %s with %s: %w", short(from), short(to), err)
	}
	return parseRaw(out)
}

// readIndex reads the agent's index. The error is ErrIndex when its content is
// not usable; a missing one is that too.
func (u *Untrusted) readIndex() (entries []indexEntry, written stat, err error) {
	root, err := os.OpenRoot(u.ws.GitDir)
	if err != nil {
		return nil, stat{}, fmt.Errorf("open workspace git directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	b, fi, err := readRegular(root, "index", maxIndex)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrUnsafeFile):
		return nil, stat{}, fmt.Errorf("%w: %w", ErrIndex, err)
	case err != nil:
		return nil, stat{}, err
	}
	entries, err = parseIndex(b, u.idLen())
	if err != nil {
		return nil, stat{}, err
	}
	if entries == nil {
		entries = []indexEntry{}
	}
	return entries, statOf(fi), nil
}

func (u *Untrusted) idLen() int {
	if u.repo.Format == "sha256" {
		return 32
	}
	return 20
}

func sortedKeys[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	sort.Strings(all)
	return all
}
