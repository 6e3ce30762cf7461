package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// Paths is where one project's state lies. Nothing of it is in the repository.
type Paths struct {
	Home string // $LAZY_HOME, shared by all projects of the person
	Root string // root of the repository, links resolved
	Dir  string // this project's state
}

// Home returns the directory all state lies in: $LAZY_HOME, else ~/.lazy.
func Home(getenv func(string) string) (string, error) {
	if dir := getenv(names.EnvHome); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fault.Wrap(fault.Invalid, err, "%s=%s cannot be used", names.EnvHome, dir)
		}
		return abs, nil
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if dir := getenv(name); filepath.IsAbs(dir) {
			return filepath.Join(dir, ".lazy"), nil
		}
	}
	return "", fault.New(fault.Invalid, "there is no home directory to keep state in").
		WithNext("Set " + names.EnvHome + " to a directory you can write to.")
}

// PathsFor returns where the state of the project at root lies.
func PathsFor(root string, getenv func(string) string) (Paths, error) {
	home, err := Home(getenv)
	if err != nil {
		return Paths{}, err
	}
	return PathsIn(home, root)
}

// PathsIn is PathsFor with the state directory given.
func PathsIn(home, root string) (Paths, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return Paths{}, fmt.Errorf("resolve %s: %w", root, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return Paths{}, fmt.Errorf("resolve %s: %w", root, err)
	}
	sum := sha256.Sum256([]byte(real))
	name := folder(filepath.Base(real)) + "-" + hex.EncodeToString(sum[:4])
	return Paths{Home: home, Root: real, Dir: filepath.Join(home, "projects", name)}, nil
}

// folder keeps a repository's name readable inside a path without trusting it.
func folder(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, ".-")
	if len(clean) > 40 {
		clean = clean[:40]
	}
	if clean == "" {
		return "project"
	}
	return clean
}

// Config is the project's lazy.toml.
func (p Paths) Config() string { return filepath.Join(p.Root, File) }

// DB is the table.
func (p Paths) DB() string { return filepath.Join(p.Dir, "lazy.db") }

// Plane is the file in which a running control plane says where it listens.
func (p Paths) Plane() string { return filepath.Join(p.Dir, "plane.json") }

// Token holds the owner's credential, mode 0600.
func (p Paths) Token() string { return filepath.Join(p.Dir, "owner.token") }

// Key holds the key that token texts are derived with, mode 0600.
func (p Paths) Key() string { return filepath.Join(p.Dir, "key") }

// Blobs is the blob store.
func (p Paths) Blobs() string { return filepath.Join(p.Dir, "blobs") }

// Log is the control plane's log.
func (p Paths) Log() string { return filepath.Join(p.Dir, "logs", "plane.log") }

// StartLock is held by the one command that is starting a control plane.
func (p Paths) StartLock() string { return filepath.Join(p.Dir, "start.lock") }

// Task is the workspace state of a task, by its short id.
func (p Paths) Task(short string) string { return filepath.Join(p.Dir, "tasks", short) }

// Run is the protocol directory of one run's supervisor.
func (p Paths) Run(short string, epoch int64) string {
	return filepath.Join(p.Dir, "runs", short, strconv.FormatInt(epoch, 10))
}

// Bin is where copies of the agent's program lie.
func (p Paths) Bin() string { return filepath.Join(p.Home, "bin") }

// GroundStop is the file that stops the project by being there: {"reason": "…"}.
func (p Paths) GroundStop() string { return filepath.Join(p.Dir, "ground-stop.json") }

// Credentials is where the person's model credentials lie, sealed, for all their
// projects.
func (p Paths) Credentials() string { return CredentialsIn(p.Home) }

// CredentialsIn is Credentials of a state directory.
func CredentialsIn(home string) string { return filepath.Join(home, "credentials") }

// FindRoot walks up from dir to the root of a repository and requires a
// lazy.toml there. A linked worktree leads to the repository it belongs to,
// since one control plane serves one repository.
func FindRoot(dir string) (string, error) {
	root, err := GitRoot(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(root, File)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fault.New(fault.Invalid, "%s has no %s, so lazy does not work on it yet", root, File).
				WithNext("Run `lazy init` there.")
		}
		return "", fault.Wrap(fault.Invalid, err, "%s cannot be read", filepath.Join(root, File))
	}
	return root, nil
}

// GitRoot walks up from dir to the top of a git work tree.
func GitRoot(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	for at := abs; ; at = filepath.Dir(at) {
		info, err := os.Stat(filepath.Join(at, ".git"))
		if err == nil {
			if info.IsDir() {
				return at, nil
			}
			return mainTree(at), nil
		}
		if at == filepath.Dir(at) {
			return "", fault.New(fault.Invalid, "%s is not inside a git repository", abs).
				WithNext("Go to a repository, or make one: `git init`, then a first commit, then `lazy init`.")
		}
	}
}

// mainTree returns the work tree of the repository that a linked worktree at
// root belongs to; root itself for a submodule and anything unusual.
func mainTree(root string) string {
	b, err := os.ReadFile(filepath.Join(root, ".git"))
	if err != nil {
		return root
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if !ok {
		return root
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if filepath.Base(filepath.Dir(filepath.Clean(dir))) != "worktrees" {
		return root
	}
	common := filepath.Dir(filepath.Dir(filepath.Clean(dir))) // …/.git/worktrees/<name>
	if b, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil && filepath.IsAbs(strings.TrimSpace(string(b))) {
		common = filepath.Clean(strings.TrimSpace(string(b))) // the workspace of a task
	}
	if filepath.Base(common) != ".git" {
		return root
	}
	main := filepath.Dir(common)
	if _, err := os.Stat(filepath.Join(main, File)); err != nil {
		return root
	}
	return main
}
