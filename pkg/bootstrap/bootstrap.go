// Package bootstrap turns the small lazy launcher into the full program. It
// imports the standard library only: Go prints nothing while it compiles, so
// whatever is to speak first must be quick to compile.
//
// The full program is lazy-agent. Installed, it lies beside the launcher; in a
// checkout the launcher builds it into the user's cache and says what it is
// doing meanwhile.
package bootstrap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Module is the path of the module whose source tree the launcher may build.
const Module = "github.com/lazyplane/lazyplane"

// Full is the name of the full program, and the package below cmd/ it is built
// from.
const Full = "lazy-agent"

// Exit codes of the launcher itself; every other code is the full program's.
const (
	exitFailed = 1
	exitSignal = 130
)

// Launcher holds everything the launcher touches.
type Launcher struct {
	Args       []string // without the program's own name
	Environ    []string
	Stderr     io.Writer
	Terminal   bool // Stderr is a terminal: repaint one line in place
	Executable string
	Source     string // cmd/lazy/main.go as the compiler saw it; may not exist
	CacheDir   string // "" when the user has none
	TempDir    string
	GoRoots    []string // where Go may be when it is not on the path
	Now        func() time.Time
	// Patience is how long a build that changes nothing may take unannounced.
	Patience time.Duration
	// Quiet is the silence after which a build that is not on a terminal says
	// that it still goes on.
	Quiet time.Duration
	// Become replaces this process by the program at path. It returns only when
	// it could not, or with the exit code where a process cannot be replaced.
	Become func(path string, argv, environ []string) (int, error)
}

// Run finds or builds the full program and becomes it. The result is the exit
// code when that failed, or where a process cannot be replaced.
func (l Launcher) Run(ctx context.Context) int {
	if path, ok := l.beside(); ok {
		return l.become(path)
	}
	root, ok := l.root()
	if !ok {
		return l.fail("the full program, %s, is not beside %s, and the source tree it could be built from is not there either",
			"Run `go install ./cmd/...` in a checkout, or `go run ./cmd/lazy` there.", exeName(Full), l.Executable)
	}
	dir, err := l.outputDir(root)
	if err != nil {
		return l.fail("there is no place to build the program in: %v",
			"Set XDG_CACHE_HOME or TMPDIR to a directory you can write to.", err)
	}
	path := filepath.Join(dir, exeName(Full))
	if err := l.build(ctx, root, dir, path); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(l.Stderr, "lazy: interrupted while building; nothing was started")
			return exitSignal
		}
		return l.fail("%v; nothing was started", err.remedy, err.what)
	}
	return l.become(path)
}

func (l Launcher) become(path string) int {
	code, err := l.Become(path, append([]string{"lazy"}, l.Args...), l.Environ)
	if err != nil {
		return l.fail("cannot start %s: %v", "Check that the file may be executed, or build it again.", path, err)
	}
	return code
}

// fail prints what is wrong and the remedy.
func (l Launcher) fail(what, remedy string, args ...any) int {
	fmt.Fprintf(l.Stderr, "lazy: "+what+".\n      "+remedy+"\n", args...)
	return exitFailed
}

// beside looks for the full program next to the launcher, also behind the link
// the launcher may have been started by.
func (l Launcher) beside() (string, bool) {
	if l.Executable == "" {
		return "", false
	}
	dirs := []string{filepath.Dir(l.Executable)}
	if real, err := filepath.EvalSymlinks(l.Executable); err == nil {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, exeName(Full))
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if runtime.GOOS == "windows" || info.Mode().Perm()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// root is the source tree the launcher was compiled from. The working directory
// is never searched: a repository that somebody cloned must not get its own code
// run by naming its module like ours.
func (l Launcher) root() (string, bool) {
	if !filepath.IsAbs(l.Source) {
		return "", false // compiled with -trimpath
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(l.Source)))
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", false
	}
	for line := range bytes.Lines(mod) {
		if f := strings.Fields(string(line)); len(f) == 2 && f[0] == "module" {
			return root, f[1] == Module
		}
	}
	return "", false
}

// goTool finds the go command. `go run` does not add its own directory to the
// path, so the usual places follow it.
func (l Launcher) goTool() (string, bool) {
	if path, err := exec.LookPath("go"); err == nil {
		return path, true
	}
	for _, dir := range append([]string{l.env("GOROOT")}, l.GoRoots...) {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, "bin", exeName("go"))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
	}
	return "", false
}

// env returns the last value of a variable, as the operating system does.
func (l Launcher) env(name string) string {
	value := ""
	for _, kv := range l.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}

func exeName(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}
