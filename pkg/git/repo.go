package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Repo is a person's repository. Its fields are facts read when it was opened.
type Repo struct {
	Root      string // top of the checkout it was opened in
	CommonDir string // refs, config and the shared object store
	Format    string // "sha1" or "sha256"

	git   tool
	crash func(string)
	core  map[string]string // settings that decide how bytes become blobs

	mu       sync.Mutex
	settings []setting   // guarded by mu; the repository's configuration file
	read     os.FileInfo // guarded by mu; of the file when it was read
}

// Option changes how a Repo works.
type Option func(*Repo)

// WithCrashPoint calls f at every point where a crash leaves other state than
// at the point before. Tests kill the process there.
func WithCrashPoint(f func(point string)) Option { return func(r *Repo) { r.crash = f } }

// Person is the author of a commit.
type Person struct {
	Name  string
	Email string
}

var hexSHA = pattern.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// IsSHA reports whether s is a full object id.
func IsSHA(s string) bool { return hexSHA.MatchString(s) }

// Open finds the repository that dir is in. It refuses, each with its remedy, a
// missing git, a directory outside any repository, a bare one, and one without
// a commit.
func Open(ctx context.Context, dir string, opts ...Option) (*Repo, error) {
	t, err := findTool()
	if err != nil {
		return nil, err
	}
	if err := t.checkVersion(ctx); err != nil {
		return nil, err
	}
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, fault.Wrap(fault.Invalid, errors.Join(ErrNotRepository, err), "%q is not a directory", dir)
	}
	r := &Repo{git: t, crash: func(string) {}}
	for _, o := range opts {
		o(r)
	}
	out, err := t.run(ctx, invocation{dir: dir, env: t.owner, args: quiet(
		"rev-parse", "--path-format=absolute", "--is-bare-repository",
		"--git-common-dir", "--show-object-format", "--show-toplevel")})
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	switch {
	case err == nil:
	case len(lines) >= 3 && lines[0] == "true":
		return nil, fault.Wrap(fault.Invalid, ErrUnsupported, "%q is a bare repository", dir).
			WithNext("Open a checkout of it: git clone or git worktree add.")
	case strings.Contains(stderrOf(err), "dubious ownership"):
		return nil, fault.Wrap(fault.Denied, errors.Join(ErrNotRepository, err), "the repository at %q belongs to another user, and git does not trust it", dir).
			WithNext("If you do: git config --global --add safe.directory " + strconv.Quote(dir))
	case strings.Contains(stderrOf(err), "not a git repository"):
		return nil, fault.Wrap(fault.Invalid, errors.Join(ErrNotRepository, err), "%q is not in a git repository", dir).
			WithNext("Run git init there, or go to a checkout.")
	default:
		return nil, fault.Wrap(fault.Invalid, errors.Join(ErrNotRepository, err), "git cannot open %q", dir)
	}
	if len(lines) != 4 {
		return nil, fault.Wrap(fault.Invalid, ErrUnsupported, "the path of the repository at %q has a line break", dir)
	}
	r.CommonDir, r.Format, r.Root = lines[1], lines[2], lines[3]
	if err := r.checkKind(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// checkKind refuses repositories whose storage the rest of the package would
// misread, and keeps the settings that decide how a file becomes a blob.
func (r *Repo) checkKind(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(r.CommonDir, "reftable")); err == nil {
		return fault.Wrap(fault.Invalid, ErrUnsupported, "the repository stores its refs as a reftable, which is not supported").
			WithNext("Run git refs migrate --ref-format=files.")
	}
	conf, err := r.localConfig(ctx)
	if err != nil {
		return err
	}
	r.core = map[string]string{}
	for _, kv := range conf {
		switch {
		case kv.key == "extensions.partialclone":
			return fault.Wrap(fault.Invalid, ErrUnsupported, "the repository is a partial clone; objects it lacks would be fetched in the middle of work").
				WithNext("Make it whole: git config --unset extensions.partialclone && git fetch --refetch --unshallow, or clone again without --filter.")
		case blobSettings[kv.key]:
			r.core[kv.key] = kv.value
		}
	}
	if _, err := r.Resolve(ctx, "HEAD"); err != nil {
		if errors.Is(err, ErrUnknownRev) {
			return fault.Wrap(fault.Invalid, ErrNoCommit, "the repository at %q has no commit yet", r.Root).
				WithNext("Make a first commit: git commit --allow-empty -m start")
		}
		return err
	}
	return nil
}

// blobSettings are the local settings a private git directory inherits. Each is
// data for git itself; none names a program or a file.
var blobSettings = map[string]bool{
	"core.filemode": true, "core.symlinks": true, "core.ignorecase": true,
	"core.precomposeunicode": true, "core.autocrlf": true, "core.eol": true,
}

type setting struct{ key, value string }

// localConfig reads the repository's own configuration file, includes left out,
// again only after it changed.
func (r *Repo) localConfig(ctx context.Context) ([]setting, error) {
	is, err := os.Stat(filepath.Join(r.CommonDir, "config"))
	if err != nil {
		return nil, fmt.Errorf("read repository configuration: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read != nil && os.SameFile(is, r.read) && is.ModTime().Equal(r.read.ModTime()) && is.Size() == r.read.Size() {
		return r.settings, nil
	}
	out, err := r.ref(ctx, "config", "--file", filepath.Join(r.CommonDir, "config"), "--no-includes", "-z", "--list")
	if err != nil {
		return nil, fmt.Errorf("read repository configuration: %w", err)
	}
	var all []setting
	for _, rec := range splitZ(out) {
		k, v, _ := strings.Cut(rec, "\n")
		all = append(all, setting{k, v})
	}
	r.settings, r.read = all, is
	return all, nil
}

// ref runs a command on refs and history of the shared repository. It has no
// work tree, so nothing in one is read.
func (r *Repo) ref(ctx context.Context, args ...string) ([]byte, error) {
	i := invocation{dir: r.CommonDir, args: quiet(args...)}
	i.env = append(append([]string(nil), r.git.owner...), "GIT_DIR="+r.CommonDir)
	return r.git.run(ctx, i)
}

// Head returns the branch and commit of the checkout the Repo was opened in.
// A detached HEAD has no branch.
func (r *Repo) Head(ctx context.Context) (branch, sha string, err error) {
	at := func(args ...string) (string, error) {
		out, err := r.git.run(ctx, invocation{dir: r.Root, env: r.git.owner, args: quiet(args...)})
		return strings.TrimSuffix(string(out), "\n"), err
	}
	if sha, err = at("rev-parse", "--verify", "-q", "HEAD^{commit}"); err != nil {
		return "", "", fmt.Errorf("read HEAD: %w", err)
	}
	full, err := at("symbolic-ref", "-q", "HEAD")
	if err != nil {
		if exitCode(err) == 1 {
			return "", sha, nil
		}
		return "", "", fmt.Errorf("read HEAD: %w", err)
	}
	return strings.TrimPrefix(full, "refs/heads/"), sha, nil
}

// Resolve returns the commit a revision names. "HEAD" is the checkout's own.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\x00\n") {
		return "", fault.Wrap(fault.Invalid, ErrUnknownRev, "%q is not a revision", rev)
	}
	args := []string{"rev-parse", "--verify", "-q", "--end-of-options", rev + "^{commit}"}
	var out []byte
	var err error
	if rev == "HEAD" || strings.HasPrefix(rev, "HEAD~") || strings.HasPrefix(rev, "HEAD^") {
		out, err = r.git.run(ctx, invocation{dir: r.Root, env: r.git.owner, args: quiet(args...)})
	} else {
		out, err = r.ref(ctx, args...)
	}
	if err != nil {
		if exitCode(err) >= 0 {
			return "", fault.Wrap(fault.NotFound, errors.Join(ErrUnknownRev, err), "no commit %q in this repository", rev)
		}
		return "", err
	}
	// --end-of-options is echoed by some versions.
	f := strings.Fields(string(out))
	if len(f) == 0 || !IsSHA(f[len(f)-1]) {
		return "", fault.Wrap(fault.NotFound, ErrUnknownRev, "no commit %q in this repository", rev)
	}
	return f[len(f)-1], nil
}

// Contains reports whether commit sha is in the history of rev. A commit that
// the repository does not have is in no history.
func (r *Repo) Contains(ctx context.Context, rev, sha string) (bool, error) {
	tip, err := r.Resolve(ctx, rev)
	if err != nil {
		return false, err
	}
	if _, err := r.Resolve(ctx, sha); err != nil {
		if errors.Is(err, ErrUnknownRev) {
			return false, nil
		}
		return false, err
	}
	_, err = r.ref(ctx, "merge-base", "--is-ancestor", sha, tip)
	if err == nil {
		return true, nil
	}
	if exitCode(err) == 1 {
		return false, nil
	}
	return false, fmt.Errorf("look for %s in %s: %w", sha, rev, err)
}

// MergeBase returns the best common ancestor, "" when the histories share none.
func (r *Repo) MergeBase(ctx context.Context, a, b string) (string, error) {
	if err := shas(a, b); err != nil {
		return "", err
	}
	out, err := r.ref(ctx, "merge-base", a, b)
	if err != nil {
		if exitCode(err) == 1 {
			return "", nil
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// CountCommits returns how many commits tip has that base has not. A task with
// none has not been merged; it has not begun (B12).
func (r *Repo) CountCommits(ctx context.Context, base, tip string) (int, error) {
	if err := shas(base, tip); err != nil {
		return 0, err
	}
	out, err := r.ref(ctx, "rev-list", "--count", base+".."+tip, "--")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// Identity returns who the person is to git. Empty values are not set.
func (r *Repo) Identity(ctx context.Context) (Person, error) {
	out, err := r.git.run(ctx, invocation{dir: r.Root, env: r.git.owner, args: quiet(
		"config", "-z", "--get-regexp", `^user\.(name|email)$`)})
	if err != nil && exitCode(err) != 1 {
		return Person{}, fmt.Errorf("read git identity: %w", err)
	}
	var p Person
	for _, rec := range splitZ(out) {
		k, v, _ := strings.Cut(rec, "\n")
		switch k {
		case "user.name":
			p.Name = v
		case "user.email":
			p.Email = v
		}
	}
	return p, nil
}

// Branch is one branch and where it stands.
type Branch struct {
	Name string
	Tip  string
	When time.Time // committer date of the tip
}

// Branches lists the local branches whose name starts with prefix.
func (r *Repo) Branches(ctx context.Context, prefix string) ([]Branch, error) {
	out, err := r.ref(ctx, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)", "refs/heads/")
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	var all []Branch
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 3 {
			return nil, fmt.Errorf("list branches: read %q", line)
		}
		name := strings.TrimPrefix(f[0], "refs/heads/")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		sec, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("list branches: %w", err)
		}
		all = append(all, Branch{Name: name, Tip: f[1], When: time.Unix(sec, 0).UTC()})
	}
	return all, nil
}

// shas refuses anything that is not a full object id, so that no argument can
// be taken for a switch or a moving name.
func shas(all ...string) error {
	for _, s := range all {
		if !IsSHA(s) {
			return fault.Wrap(fault.Invalid, ErrUnknownRev, "%q is not a commit id", s)
		}
	}
	return nil
}
