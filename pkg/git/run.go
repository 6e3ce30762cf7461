package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// killGrace is how long a canceled git may hold its pipes before they are closed.
const killGrace = 5 * time.Second

// oldest is the first version whose merge-tree writes trees.
var oldest = [2]int{2, 38}

// tool is the git binary and the environment every process of it starts from.
type tool struct {
	path  string
	owner []string // the person's environment without GIT_*; for their own repository
}

// invocation is one git process.
type invocation struct {
	dir  string
	env  []string
	in   io.Reader
	args []string
}

// failure is a git process that ended with a status other than 0.
type failure struct {
	args   []string
	code   int // -1 when it did not exit by itself
	stderr string
	err    error
}

func (f *failure) Error() string {
	text := strings.TrimSpace(f.stderr)
	if text == "" {
		text = f.err.Error()
	}
	return fmt.Sprintf("git %s: %s", f.args[0], text)
}

func (f *failure) Unwrap() error { return f.err }

// exitCode returns the status of a failed git process, -1 for any other error.
func exitCode(err error) int {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return -1
}

func stderrOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.stderr
	}
	return ""
}

// findTool looks git up once, with the environment of this process.
func findTool() (tool, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return tool{}, fault.Wrap(fault.Unavailable, errors.Join(ErrNoGit, err), "git is not installed, or not on the PATH").
			WithNext("Install git 2.38 or newer and try again.")
	}
	return tool{path: path, owner: ownerEnv(os.Environ())}, nil
}

// ownerEnv drops every GIT_* variable: an inherited environment never decides
// where or with which rights git runs (GT-011).
func ownerEnv(environ []string) []string {
	env := make([]string, 0, len(environ)+4)
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "GIT_") || name == "LC_ALL" || name == "LANGUAGE" || name == "LANG" {
			continue
		}
		env = append(env, kv)
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1")
}

// quiet are the switches that go before every command on the person's own
// repository: nothing it configures may start a program of its own.
func quiet(args ...string) []string {
	return append([]string{
		"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false",
		"-c", "log.showSignature=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"--no-pager", "--literal-pathspecs",
	}, args...)
}

// command prepares one process. The caller owns its pipes.
func (t tool) command(ctx context.Context, i invocation) *exec.Cmd {
	c := exec.CommandContext(ctx, t.path, i.args...)
	c.Dir, c.Env, c.Stdin = i.dir, i.env, i.in
	c.WaitDelay = killGrace
	// A git that is asked to end removes its lock files; one that is killed leaves
	// them, and every later command on that ref or index is refused.
	c.Cancel = func() error {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			return c.Process.Kill()
		}
		return nil
	}
	return c
}

// run returns what the process printed. On failure the output so far is
// returned too, because some commands answer with a status.
func (t tool) run(ctx context.Context, i invocation) ([]byte, error) {
	var out bytes.Buffer
	err := t.stream(ctx, i, &out)
	return out.Bytes(), err
}

func (t tool) stream(ctx context.Context, i invocation, out io.Writer) error {
	c := t.command(ctx, i)
	errs := &tail{max: 64 << 10}
	c.Stdout, c.Stderr = out, errs
	if err := c.Run(); err != nil {
		return wrapExit(ctx, i.args, errs.String(), err)
	}
	return nil
}

func wrapExit(ctx context.Context, args []string, stderr string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", verb(args)[0], ctx.Err())
	}
	code := -1
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		code = x.ExitCode()
	}
	return &failure{args: verb(args), code: code, stderr: stderr, err: err}
}

// verb skips the switches before a git command, for texts.
func verb(args []string) []string {
	for i := 0; i < len(args); i++ {
		if args[i] == "-c" || args[i] == "-C" {
			i++
			continue
		}
		if !strings.HasPrefix(args[i], "-") {
			return args[i:]
		}
	}
	return args
}

// checkVersion refuses a git that cannot merge without a work tree.
func (t tool) checkVersion(ctx context.Context) error {
	out, err := t.run(ctx, invocation{env: t.owner, args: []string{"version"}})
	if err != nil {
		return err
	}
	f := strings.Fields(string(out))
	if len(f) < 3 {
		return fmt.Errorf("read git version from %q", out)
	}
	parts := strings.SplitN(f[2], ".", 3)
	if len(parts) < 2 {
		return fmt.Errorf("read git version from %q", out)
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("read git version from %q: %w", out, err)
	}
	if major < oldest[0] || (major == oldest[0] && minor < oldest[1]) {
		return fault.Wrap(fault.Unavailable, ErrNoGit, "git %s is too old: %d.%d or newer is needed", f[2], oldest[0], oldest[1]).
			WithNext("Install a newer git and try again.")
	}
	return nil
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	b   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - t.max; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

// splitZ splits NUL-terminated records.
func splitZ(b []byte) []string {
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}
