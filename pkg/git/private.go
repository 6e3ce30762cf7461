package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// private is a git directory of our own making, for one operation. git finds
// nothing else: no configuration but what is written here, no index, hooks or
// attributes of anyone, and a work tree (shadow) that holds copies made by us.
// It has no remote, no filter, no driver and no protocol, so nothing that a
// repository's content says can start a program or reach a network.
type private struct {
	r       *Repo
	dir     string
	shadow  string // the work tree: copies, in a place no agent can write
	objects string // objects made here; the shared store is the alternate
	env     []string
}

// newPrivate makes one under parent, which no agent can write.
func (r *Repo) newPrivate(parent string) (*private, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	dir, err := os.MkdirTemp(parent, "git-")
	if err != nil {
		return nil, fmt.Errorf("make scratch directory: %w", err)
	}
	p := &private{r: r, dir: dir, shadow: filepath.Join(dir, "work"), objects: filepath.Join(dir, "objects")}
	if err := p.fill(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.env = p.environ()
	return p, nil
}

func (p *private) close() error { return os.RemoveAll(p.dir) }

// fill makes the least git takes for a repository: creating files is the
// slowest part of most operations, so settings travel as variables.
func (p *private) fill() error {
	for _, d := range []string{p.shadow, p.objects, filepath.Join(p.dir, "refs")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fmt.Errorf("make scratch repository: %w", err)
		}
	}
	files := map[string]string{"HEAD": "ref: refs/heads/none\n"}
	if p.r.Format == "sha256" {
		files["config"] = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("make scratch repository: %w", err)
		}
	}
	return nil
}

// settings are all the configuration there is.
func (p *private) settings() [][2]string {
	all := [][2]string{
		{"core.bare", "false"},
		{"core.hooksPath", os.DevNull},
		{"core.fsmonitor", "false"},
		{"core.attributesFile", os.DevNull},
		// The person's own excludes apply to a task as to them; the file is
		// theirs alone.
		{"core.excludesFile", filepath.Join(p.r.CommonDir, "info", "exclude")},
		{"core.untrackedCache", "false"},
		{"core.splitIndex", "false"},
		{"core.sparseCheckout", "false"},
		{"core.protectHFS", "true"},
		{"core.protectNTFS", "true"},
		{"core.logAllRefUpdates", "false"},
		{"core.safecrlf", "false"},
		{"protocol.allow", "never"},
		{"submodule.recurse", "false"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"checkout.workers", "0"},
	}
	for _, k := range sortedKeys(p.r.core) {
		all = append(all, [2]string{k, p.r.core[k]})
	}
	return all
}

func (p *private) environ() []string {
	env := []string{
		"GIT_DIR=" + p.dir,
		"GIT_WORK_TREE=" + p.shadow,
		"GIT_INDEX_FILE=" + filepath.Join(p.dir, "index"),
		"GIT_OBJECT_DIRECTORY=" + p.objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + envPath(p.r.shared()),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_ALLOW_PROTOCOL=", "GIT_PROTOCOL_FROM_USER=0", "GIT_TERMINAL_PROMPT=0", "GIT_LITERAL_PATHSPECS=1",
		"GIT_CEILING_DIRECTORIES=" + filepath.Dir(p.dir), "GIT_PAGER=cat", "GIT_EDITOR=:",
		"HOME=" + p.dir, "XDG_CONFIG_HOME=" + filepath.Join(p.dir, "none"),
		"PATH=" + filepath.Dir(p.r.git.path), "LC_ALL=C",
	}
	if shallow := filepath.Join(p.r.CommonDir, "shallow"); exists(shallow) {
		env = append(env, "GIT_SHALLOW_FILE="+shallow) // where the history of a shallow clone ends
	}
	settings := p.settings()
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(settings)))
	for i, kv := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// envPath quotes a path for a list of them in a variable.
func envPath(path string) string {
	if strings.ContainsAny(path, ":\n") {
		return quoteC(path)
	}
	return alternate(path)
}

func (p *private) invocation(in io.Reader, args []string, more ...string) invocation {
	return invocation{dir: p.shadow, env: append(append([]string(nil), p.env...), more...), in: in, args: args}
}

// run works on the private objects; nothing reaches the shared store.
func (p *private) run(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	return p.r.git.run(ctx, p.invocation(in, args))
}

// runShared writes what it makes into the shared store. Only commands whose
// input is already there may use it: their output is as trusted as the input.
func (p *private) runShared(ctx context.Context, in io.Reader, args ...string) ([]byte, error) {
	args = append([]string{"-c", "core.fsync=objects,derived-metadata"}, args...)
	return p.r.git.run(ctx, p.invocation(in, args, "GIT_OBJECT_DIRECTORY="+p.r.shared()))
}

// shared is the object store of the person's repository.
func (r *Repo) shared() string { return filepath.Join(r.CommonDir, "objects") }

// with runs f in a private git directory under parent.
func (r *Repo) with(parent string, f func(*private) error) (err error) {
	p, err := r.newPrivate(parent)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return f(p)
}

// scratch is where operations that belong to no workspace keep private files.
func (r *Repo) scratch() string { return filepath.Join(r.CommonDir, "lazy", "scratch") }

// alternate quotes a path for objects/info/alternates.
func alternate(path string) string {
	if !strings.HasPrefix(path, `"`) && !strings.HasPrefix(path, "#") && !strings.ContainsAny(path, "\n") {
		return path
	}
	return quoteC(path)
}

func quoteC(path string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(path) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
