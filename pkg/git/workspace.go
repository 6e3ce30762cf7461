package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Workspace is the recorded plan of a task's linked worktree. It was checked
// against git before any agent ran in it, and every later operation works from
// this record, never from what the workspace says of itself (GT-003, GT-024).
type Workspace struct {
	State    string   `json:"state"`   // the task's directory; no agent can write here
	Tree     string   `json:"tree"`    // the files
	GitDir   string   `json:"git_dir"` // this worktree's index, HEAD and merge state
	Objects  string   `json:"objects"` // the task's own object directory
	Shared   string   `json:"shared"`  // refs, config and objects of the repository
	Borrowed []string `json:"borrowed,omitempty"`
	Branch   string   `json:"branch"`
	Base     string   `json:"base"`
	Unfilled []string `json:"unfilled,omitempty"` // submodules whose files are not there, and why
}

// WorkspaceSpec says which workspace to make.
type WorkspaceSpec struct {
	StateDir  string // absolute; made when missing, outside any agent's reach
	TaskShort string // names the worktree, for example "3f2a9c1e"
	Branch    string // for example "lazy/fix-login"
	Base      string // commit the task starts from
	Tip       string // recorded tip of a branch that has commits already; "" is a fresh branch
}

var shortShape = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func (s WorkspaceSpec) check() error {
	switch {
	case !filepath.IsAbs(s.StateDir) || strings.ContainsAny(s.StateDir, "\n\r\x00"):
		return fault.Wrap(fault.Invalid, ErrBadName, "%q cannot hold a workspace", s.StateDir)
	case !shortShape.MatchString(s.TaskShort):
		return fault.Wrap(fault.Invalid, ErrBadName, "%q is not a short task id", s.TaskShort)
	}
	if err := CheckBranch(s.Branch); err != nil {
		return err
	}
	if s.Tip != "" {
		return shas(s.Base, s.Tip)
	}
	return shas(s.Base)
}

// planFile records a finished workspace. It is written last, so a workspace
// without it was never handed to an agent and can be made again.
const planFile = "workspace.json"

// CreateWorkspace makes the branch, the linked worktree and its own object
// directory. Called again it returns the recorded plan, or finishes what a crash
// interrupted. A branch of that name which is not this task's is ErrBranchExists.
func (r *Repo) CreateWorkspace(ctx context.Context, spec WorkspaceSpec) (Workspace, error) {
	if err := spec.check(); err != nil {
		return Workspace{}, err
	}
	if err := os.MkdirAll(spec.StateDir, 0o755); err != nil {
		return Workspace{}, fmt.Errorf("make workspace: %w", err)
	}
	// The agent's mounts have to be real paths: a link above them could be
	// turned elsewhere between the check and the mount.
	state, err := filepath.EvalSymlinks(spec.StateDir)
	if err != nil {
		return Workspace{}, fmt.Errorf("make workspace: %w", err)
	}
	common, err := filepath.EvalSymlinks(r.CommonDir)
	if err != nil {
		return Workspace{}, fmt.Errorf("make workspace: %w", err)
	}
	ws := Workspace{
		State: state, Tree: filepath.Join(state, "tree"), Objects: filepath.Join(state, "objects"),
		GitDir: filepath.Join(state, "worktrees", "lazy-"+spec.TaskShort),
		Shared: common, Branch: spec.Branch, Base: spec.Base,
	}
	if old, err := readPlan(state); err == nil {
		if old.GitDir != ws.GitDir || old.Branch != ws.Branch || old.Base != ws.Base {
			return Workspace{}, fault.Wrap(fault.Conflict, ErrPlan, "%s holds the workspace of branch %s", state, old.Branch)
		}
		return old, old.Check()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Workspace{}, err
	}
	tip := spec.Tip
	if tip == "" {
		tip = spec.Base
	}
	if err := r.claimBranch(ctx, spec, tip); err != nil {
		return Workspace{}, err
	}
	if err := r.discard(ws); err != nil { // leftovers of a crash
		return Workspace{}, err
	}
	r.crash("git.workspace.branch")
	if ws.Borrowed, err = borrowed(r.shared(), 5); err != nil {
		return Workspace{}, err
	}
	if err := r.layOut(ctx, ws); err != nil {
		return Workspace{}, err
	}
	r.crash("git.workspace.files")
	seen := make(chan error, 1) // git may look at the layout while it fills the tree
	go func() { seen <- r.verify(ctx, ws) }()
	if err := errors.Join(r.checkOut(ctx, ws, tip), <-seen); err != nil {
		return Workspace{}, err
	}
	ws.Unfilled = r.fillSubmodules(ctx, ws, tip)
	r.crash("git.workspace.checkout")
	return ws, writePlan(ws)
}

// claimBranch makes the branch at tip, or finds it there.
func (r *Repo) claimBranch(ctx context.Context, spec WorkspaceSpec, tip string) error {
	err := r.MoveRef(ctx, "refs/heads/"+spec.Branch, tip, "")
	if err == nil {
		return nil
	}
	at, terr := r.BranchTip(ctx, spec.Branch)
	if terr != nil {
		return errors.Join(fmt.Errorf("make branch %s: %w", spec.Branch, err), ignoreUnknown(terr))
	}
	if at == tip {
		return nil
	}
	return fault.Wrap(fault.Conflict, errors.Join(ErrBranchExists, err), "branch %s exists at %s and is not this task's", spec.Branch, short(at)).
		WithNext("Give the task another code, or rename that branch.").WithDetail("at", at)
}

func ignoreUnknown(err error) error {
	if errors.Is(err, ErrUnknownRev) {
		return nil
	}
	return err
}

// layOut writes the linked worktree's metadata as gitrepository-layout(5) has
// it, twice. The agent's git directory lies with the task: what its index and HEAD
// name may be in the task's own objects only, and a repository in whose worktrees
// git finds an object that it cannot read refuses to fetch, to collect garbage and
// to list its history. What is registered there is ours alone: it says where the
// branch is checked out, so that nobody deletes it or checks it out again.
func (r *Repo) layOut(ctx context.Context, ws Workspace) error {
	for _, d := range []string{ws.Tree, ws.GitDir, ws.register(), ws.nothing(), filepath.Join(ws.Objects, "info")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	conf, err := r.publicConfig(ctx)
	if err != nil {
		return err
	}
	for name, text := range ws.metadata() {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	head := "ref: refs/heads/" + ws.Branch + "\n"
	reg := ws.register()
	for name, text := range map[string]string{
		filepath.Join(reg, "locked"):                lockedText, // git worktree prune leaves it alone
		filepath.Join(reg, "commondir"):             "../..\n",
		filepath.Join(reg, "gitdir"):                filepath.Join(ws.Tree, ".git") + "\n",
		filepath.Join(reg, "HEAD"):                  head,
		filepath.Join(ws.GitDir, "config.worktree"): "",
		filepath.Join(ws.GitDir, "HEAD"):            head,
		ws.config():                                 conf,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("make workspace: %w", err)
		}
	}
	return nil
}

// register is where the repository keeps the worktree of the branch registered.
// No agent can write it.
func (ws Workspace) register() string {
	return filepath.Join(ws.Shared, "worktrees", filepath.Base(ws.GitDir))
}

// nothing is an empty directory, shown to the agent in place of the repository's
// worktrees: those of other tasks and of the person are none of its business.
func (ws Workspace) nothing() string { return filepath.Join(ws.State, "nothing") }

// metadata are the files that say where a workspace's parts are, with their
// content. No agent may change them; Check compares them again.
func (ws Workspace) metadata() map[string]string {
	info := alternate(filepath.Join(ws.Shared, "objects")) + "\n"
	return map[string]string{
		filepath.Join(ws.Tree, ".git"):                  "gitdir: " + ws.GitDir + "\n",
		filepath.Join(ws.GitDir, "commondir"):           ws.Shared + "\n",
		filepath.Join(ws.GitDir, "gitdir"):              filepath.Join(ws.Tree, ".git") + "\n",
		filepath.Join(ws.Objects, "info", "alternates"): info,
	}
}

// lockedText is the reason git shows for a worktree that it must not prune.
const lockedText = "lazy task\n"

func (ws Workspace) config() string { return filepath.Join(ws.State, "config") }

// scratch is where private files of operations on this workspace live.
func (ws Workspace) scratch() string { return filepath.Join(ws.State, "scratch") }

// checkOut fills the tree from a private git directory, so that neither hooks
// nor filters of any configuration run.
func (r *Repo) checkOut(ctx context.Context, ws Workspace, tip string) error {
	return r.with(ws.scratch(), func(p *private) error {
		i := p.invocation(nil, []string{"read-tree", "-m", "-u", tip},
			"GIT_WORK_TREE="+ws.Tree, "GIT_INDEX_FILE="+filepath.Join(ws.GitDir, "index"))
		i.dir = ws.Tree
		if _, err := r.git.run(ctx, i); err != nil {
			return fmt.Errorf("check out workspace: %w", err)
		}
		return nil
	})
}

// verify asks git where it sees the parts of the workspace, once, before any
// agent was in it.
func (r *Repo) verify(ctx context.Context, ws Workspace) error {
	env := append(append([]string(nil), r.git.owner...), "GIT_OBJECT_DIRECTORY="+ws.Objects)
	out, err := r.git.run(ctx, invocation{dir: ws.Tree, env: env, args: quiet(
		"rev-parse", "--path-format=absolute", "--git-common-dir", "--git-dir", "--git-path", "objects", "--show-toplevel", "--symbolic-full-name", "HEAD")})
	if err != nil {
		return fmt.Errorf("check workspace: %w", err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	want := []string{ws.Shared, ws.GitDir, ws.Objects, ws.Tree, "refs/heads/" + ws.Branch}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			return fault.Wrap(fault.Internal, fmt.Errorf("%w: git sees %q, the plan says %q", ErrPlan, got, want), "the workspace cannot be laid out at %s", ws.State)
		}
	}
	return nil
}

// Check compares the workspace with its plan without running git in it: it is
// still a linked worktree whose files point where they were told to (GT-003).
func (ws Workspace) Check() error {
	bad := func(name string, err error) error {
		return fault.Wrap(fault.Conflict, errors.Join(ErrPlan, err), "the workspace at %s is not what was recorded: %s differs", ws.State, name).
			WithNext("Close the task and start it again; its branch is kept.")
	}
	if filepath.Dir(ws.GitDir) != filepath.Join(ws.State, "worktrees") || filepath.Dir(ws.Tree) != ws.State || filepath.Dir(ws.Objects) != ws.State {
		return bad("its plan", nil)
	}
	for _, d := range []string{ws.Tree, ws.GitDir, ws.Objects, filepath.Join(ws.Objects, "info")} {
		if fi, err := os.Lstat(d); err != nil || !fi.IsDir() {
			return bad(d, err)
		}
	}
	for name, want := range ws.metadata() {
		root, err := os.OpenRoot(filepath.Dir(name))
		if err != nil {
			return bad(name, err)
		}
		got, _, err := readRegular(root, filepath.Base(name), maxMeta)
		if err = errors.Join(err, root.Close()); err != nil || string(got) != want {
			return bad(name, err)
		}
	}
	return nil
}

func readPlan(state string) (Workspace, error) {
	b, err := os.ReadFile(filepath.Join(state, planFile))
	if err != nil {
		return Workspace{}, err
	}
	var ws Workspace
	if err := json.Unmarshal(b, &ws); err != nil {
		return Workspace{}, fmt.Errorf("read workspace plan: %w", err)
	}
	return ws, nil
}

func writePlan(ws Workspace) error {
	b, err := json.MarshalIndent(ws, "", "\t")
	if err != nil {
		return err
	}
	name := filepath.Join(ws.State, planFile)
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return fmt.Errorf("record workspace: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("record workspace: %w", err)
	}
	return nil
}

// RemoveWorkspace deletes the files, the object directory and the worktree's
// metadata. The branch stays. What is gone already is no error.
func (r *Repo) RemoveWorkspace(ctx context.Context, ws Workspace) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.discard(ws); err != nil {
		return err
	}
	for _, name := range []string{ws.config(), filepath.Join(ws.State, planFile)} {
		if err := ignoreMissing(os.Remove(name)); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
	}
	if err := ignoreMissing(os.Remove(ws.State)); err != nil && !notEmpty(err) {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return nil
}

func notEmpty(err error) bool {
	return errors.Is(err, fs.ErrExist) || strings.Contains(err.Error(), "not empty")
}

// discard removes every part of a workspace but its record. Deletion goes
// through os.Root, because processes an agent left behind may swap directories
// for links while it runs.
func (r *Repo) discard(ws Workspace) error {
	common, err := filepath.EvalSymlinks(r.CommonDir)
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if ws.Shared != common || filepath.Dir(ws.GitDir) != filepath.Join(ws.State, "worktrees") || !strings.HasPrefix(filepath.Base(ws.GitDir), "lazy-") ||
		filepath.Dir(ws.Tree) != ws.State || filepath.Dir(ws.Objects) != ws.State {
		return fault.Wrap(fault.Invalid, ErrPlan, "%s is not a workspace of this repository", ws.State)
	}
	// The tree goes as a whole first: a crash half-way through its files must not
	// leave something that reads as a person's or an agent's deletions.
	gone := filepath.Join(ws.State, "gone")
	if err := removeAll(gone); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if err := ignoreMissing(os.Rename(ws.Tree, gone)); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	for _, path := range []string{gone, ws.Objects, ws.scratch(), filepath.Dir(ws.GitDir), ws.nothing(), ws.register()} {
		if err := removeAll(path); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
	}
	return nil
}

// removeAll deletes path and what is below it, directories that refuse to be
// entered included.
func removeAll(path string) (err error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	name := filepath.Base(path)
	if err := root.RemoveAll(name); err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := openUp(root, name, 0); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// openUp gives the owner all rights on a directory and those below it.
func openUp(parent *os.Root, name string, depth int) (err error) {
	fi, err := parent.Lstat(name)
	if err != nil || !fi.IsDir() || depth > maxDepth {
		return ignoreMissing(err)
	}
	if err := parent.Chmod(name, 0o700); err != nil {
		return ignoreMissing(err)
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := openUp(dir, n, depth+1); err != nil {
			return err
		}
	}
	return nil
}
