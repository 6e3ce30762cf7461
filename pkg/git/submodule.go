package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// submoduleLimit bounds how long filling the submodules of a workspace may take.
const submoduleLimit = time.Minute

// fillSubmodules lays the files of the workspace's submodules where they belong,
// from what the person's repository already holds of them (B19). Nothing is
// fetched, and no address that a commit names is ever used. Which store belongs to
// which path is read from the base, which people own. A submodule is
// content here, not a repository: the agent reads it, and its pin stays as it is.
// What cannot be filled is named; the task starts all the same.
func (r *Repo) fillSubmodules(ctx context.Context, ws Workspace, tip string) (unfilled []string) {
	pins, err := r.pins(ws, tip)
	if err == nil && len(pins) > 0 {
		ctx, cancel := context.WithTimeout(ctx, submoduleLimit)
		defer cancel()
		err = r.with(ws.scratch(), func(p *private) error {
			stores, err := p.stores(ctx, ws.Base)
			if err != nil {
				return err
			}
			for _, m := range pins {
				if err := p.fillSubmodule(ctx, ws, m, stores[m.path]); err != nil {
					unfilled = append(unfilled, m.path+": "+err.Error())
				}
			}
			return nil
		})
	}
	if err != nil {
		unfilled = append(unfilled, "the submodules could not be listed: "+err.Error())
	}
	return unfilled
}

// pin is a submodule as a tree records it.
type pin struct{ path, commit string }

// pins lists the submodules of a workspace that was checked out at tip and that no
// agent has seen, from the index that git has just written: to ask git takes as long
// as it takes to start.
func (r *Repo) pins(ws Workspace, tip string) (all []pin, err error) {
	u, err := r.Untrusted(ws, tip)
	if err != nil {
		return nil, err
	}
	entries, _, err := u.readIndex()
	for _, e := range entries {
		if e.Blob.Mode == modeRepo && filepath.IsLocal(e.Path) {
			all = append(all, pin{e.Path, e.Blob.ID})
		}
	}
	return all, err
}

// stores maps the path of each submodule to the name git keeps its objects under.
func (p *private) stores(ctx context.Context, base string) (map[string]string, error) {
	out, err := p.run(ctx, nil, "ls-tree", "-z", "--full-tree", base, ".gitmodules")
	if err != nil || !bytes.HasPrefix(out, []byte("100")) {
		return nil, err
	}
	out, err = p.run(ctx, nil, "config", "--blob", base+":.gitmodules", "-z", "--get-regexp", `^submodule\..*\.path$`)
	if err != nil {
		return nil, nil //nolint:nilerr // a file that git cannot read names nothing
	}
	names := map[string]string{}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		key, path, ok := strings.Cut(rec, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		if ok && filepath.IsLocal(name) {
			names[path] = name
		}
	}
	return names, nil
}

// fillSubmodule checks one submodule out into its directory.
func (p *private) fillSubmodule(ctx context.Context, ws Workspace, m pin, name string) error {
	if name == "" {
		return fmt.Errorf("the base does not say where it comes from")
	}
	objects := filepath.Join(ws.Shared, "modules", name, "objects")
	if real, err := filepath.EvalSymlinks(objects); err != nil || real != objects {
		return fmt.Errorf("it was never initialised in the repository; `git submodule update --init` does that")
	}
	env := []string{
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + envPath(objects),
		"GIT_WORK_TREE=" + filepath.Join(ws.Tree, m.path), "GIT_INDEX_FILE=" + filepath.Join(p.dir, "submodule"),
	}
	if _, err := p.r.git.run(ctx, p.invocation(nil, []string{"cat-file", "-e", m.commit + "^{tree}"}, env...)); err != nil {
		return fmt.Errorf("the repository does not have its commit %s; `git submodule update` gets it", short(m.commit))
	}
	if err := os.Remove(filepath.Join(p.dir, "submodule")); err != nil && !os.IsNotExist(err) {
		return err
	}
	root, err := os.OpenRoot(ws.Tree)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(m.path, 0o755); err != nil { // follows nothing out of the tree
		return err
	}
	i := p.invocation(nil, []string{"read-tree", "-m", "-u", m.commit}, env...)
	i.dir = filepath.Join(ws.Tree, m.path)
	if _, err := p.r.git.run(ctx, i); err != nil {
		return fmt.Errorf("its files cannot be laid out: %w", err)
	}
	return nil
}
