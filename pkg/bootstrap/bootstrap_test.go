package bootstrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/bootstrap"
)

// module writes a source tree with the real launcher and the given full program.
func module(t *testing.T, agent string) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module "+bootstrap.Module+"\n\ngo 1.26\n")
	write(t, filepath.Join(root, "cmd", bootstrap.Full, "main.go"), agent)
	for _, dir := range []string{"cmd/lazy", "pkg/bootstrap"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(root, dir, filepath.Base(f)), string(b))
		}
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const printer = `package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println("full program", os.Args)
	os.Exit(7)
}
`

// launch is a launcher of the tree at root that records what it would become.
type launch struct {
	bootstrap.Launcher
	out    *output
	became string
	argv   []string
}

func newLaunch(t *testing.T, root string, args ...string) *launch {
	t.Helper()
	l := &launch{out: &output{}}
	l.Launcher = bootstrap.Launcher{
		Args:       args,
		Environ:    os.Environ(),
		Stderr:     l.out,
		Executable: filepath.Join(t.TempDir(), "lazy"),
		Source:     filepath.Join(root, "cmd", "lazy", "main.go"),
		CacheDir:   t.TempDir(),
		TempDir:    t.TempDir(),
		Now:        time.Now,
		Patience:   time.Hour,
		Quiet:      time.Hour,
		Become: func(path string, argv, _ []string) (int, error) {
			l.became, l.argv = path, argv
			return 42, nil
		},
	}
	return l
}

// output is a writer that can be waited on.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	wake chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if o.wake != nil {
		close(o.wake)
		o.wake = nil
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await returns once want was written.
func (o *output) await(ctx context.Context, want string) error {
	for {
		o.mu.Lock()
		if strings.Contains(o.text.String(), want) {
			o.mu.Unlock()
			return nil
		}
		o.wake = make(chan struct{})
		wake := o.wake
		o.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestTheLauncherBuildsTheProgramAndBecomesIt(t *testing.T) {
	root := module(t, printer)
	lazy := filepath.Join(t.TempDir(), "lazy")
	if out, err := command(t, root, "go", "build", "-o", lazy, "./cmd/lazy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := command(t, t.TempDir(), lazy, "demo", "--repo", "a b", "")
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()

	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("got %v, want the program's exit code 7\n%s", err, stderr.String())
	}
	if got, want := stdout.String(), "full program [lazy demo --repo a b ]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.HasPrefix(stderr.String(), "lazy: building the control plane") {
		t.Errorf("the first line is %q", stderr.String())
	}
}

// command runs in dir with the ambient build cache.
func command(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "GOCACHE="+strings.TrimSpace(string(cache)), "GOWORK=off")
	return cmd
}

func TestAProgramThatIsUpToDateStartsWithoutAWord(t *testing.T) {
	root := module(t, printer)
	first := newLaunch(t, root, "version")
	if code := first.Run(t.Context()); code != 42 {
		t.Fatalf("got exit code %d\n%s", code, first.out)
	}
	was, err := os.Stat(first.became)
	if err != nil {
		t.Fatal(err)
	}

	second := newLaunch(t, root, "version")
	second.CacheDir = first.CacheDir
	second.Run(t.Context())
	if second.out.String() != "" {
		t.Errorf("it said %q", second.out)
	}
	is, err := os.Stat(second.became)
	if err != nil || second.became != first.became || !os.SameFile(is, was) {
		t.Errorf("the program was built again: %v", err)
	}

	demo := newLaunch(t, root, "demo")
	demo.CacheDir = first.CacheDir
	demo.Run(t.Context())
	if got := demo.out.String(); got != "lazy: checking that the program is up to date…\n" {
		t.Errorf("the demo's first line is %q", got)
	}
}

func TestAChangedSourceIsBuiltAgainWhileTheOldProgramRuns(t *testing.T) {
	root := module(t, strings.Replace(printer, "os.Exit(7)", "fmt.Scanln()", 1))
	l := newLaunch(t, root, "version")
	l.Run(t.Context())
	running := command(t, root, l.became)
	stdin, err := running.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "cmd", bootstrap.Full, "main.go"), strings.Replace(printer, "full program", "second edition", 1))

	if code := l.Run(t.Context()); code != 42 {
		t.Fatalf("got exit code %d\n%s", code, l.out)
	}
	stdin.Close()
	if err := running.Wait(); err != nil {
		t.Errorf("the old program: %v", err)
	}
	got, _ := command(t, root, l.became).Output()
	if !strings.HasPrefix(string(got), "second edition") {
		t.Errorf("got %q", got)
	}
}

func TestTheProgramBesideTheLauncherIsPreferredToBuilding(t *testing.T) {
	installed := t.TempDir()
	full := filepath.Join(installed, exe(bootstrap.Full))
	write(t, full, "")
	write(t, filepath.Join(installed, exe("lazy")), "")
	if err := os.Chmod(full, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "lazy")
	if err := os.Symlink(filepath.Join(installed, exe("lazy")), link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	for _, executable := range []string{filepath.Join(installed, exe("lazy")), link} {
		l := newLaunch(t, module(t, printer), "list", "-x")
		l.Executable = executable
		if code := l.Run(t.Context()); code != 42 {
			t.Errorf("got exit code %d", code)
		}
		resolved, err := filepath.EvalSymlinks(l.became)
		want, _ := filepath.EvalSymlinks(full)
		if err != nil || resolved != want {
			t.Errorf("from %s it became %q, want %q", executable, l.became, full)
		}
		if got := l.argv; !slices.Equal(got, []string{"lazy", "list", "-x"}) {
			t.Errorf("got arguments %q", got)
		}
	}
}

func TestAFileThatMayNotBeExecutedIsNotTheProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permission")
	}
	l := newLaunch(t, t.TempDir())
	write(t, filepath.Join(filepath.Dir(l.Executable), bootstrap.Full), "")
	if code := l.Run(t.Context()); code != 1 || l.became != "" {
		t.Errorf("got code %d and became %q", code, l.became)
	}
}

func exe(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func TestWithoutProgramAndSourceTheRemedyIsNamed(t *testing.T) {
	foreign := module(t, printer)
	write(t, filepath.Join(foreign, "go.mod"), "module example.com/other\n")
	for name, source := range map[string]string{
		"gone":     filepath.Join(t.TempDir(), "cmd", "lazy", "main.go"),
		"trimmed":  bootstrap.Module + "/cmd/lazy/main.go",
		"foreign":  filepath.Join(foreign, "cmd", "lazy", "main.go"),
		"unstated": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(module(t, printer)) // ours by name, yet never trusted
			l := newLaunch(t, "", "list")
			l.Source = source
			if code := l.Run(t.Context()); code != 1 || l.became != "" {
				t.Errorf("got code %d and became %q", code, l.became)
			}
			if got := l.out.String(); !strings.Contains(got, "go install ./cmd/...") {
				t.Errorf("it said %q", got)
			}
		})
	}
}

func TestWithoutGoTheRemedyIsToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	l := newLaunch(t, module(t, printer), "list")
	l.Environ = nil
	if code := l.Run(t.Context()); code != 1 {
		t.Errorf("got exit code %d", code)
	}
	if got := l.out.String(); !strings.Contains(got, "no go command") || !strings.Contains(got, "Install Go 1.26") {
		t.Errorf("it said %q", got)
	}
}

func TestABuildThatFailsSaysWhyAndStartsNothing(t *testing.T) {
	l := newLaunch(t, module(t, "package main\n\nfunc main() { missing() }\n"), "list")
	if code := l.Run(t.Context()); code != 1 || l.became != "" {
		t.Errorf("got code %d and became %q", code, l.became)
	}
	got := l.out.String()
	for _, want := range []string{"undefined: missing", "building the program failed; nothing was started"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestWithoutAHomeEverythingLiesInAPrivateTemporaryDirectory(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	withFakeGo(t, l, "")()
	l.CacheDir = ""
	if code := l.Run(t.Context()); code != 42 {
		t.Fatalf("got exit code %d\n%s", code, l.out)
	}
	own := filepath.Join(l.TempDir, fmt.Sprintf("lazyplane-%d", os.Getuid()))
	if !strings.HasPrefix(l.became, own+string(filepath.Separator)) {
		t.Errorf("became %s, which is not below %s", l.became, own)
	}
	for _, want := range []string{"# GOCACHE=" + own, "# GOPATH=" + own, "# GOTMPDIR=" + own, "# GOWORK=off"} {
		if !strings.Contains(l.out.String(), want) {
			t.Errorf("%q is not in %q", want, l.out)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if code := l.Run(t.Context()); code != 1 || !strings.Contains(l.out.String(), "may write to it") {
		t.Errorf("a directory anybody may write to gave code %d and %q", code, l.out)
	}
}

func TestTheCallersGoSettingsAreKept(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	withFakeGo(t, l, "")()
	l.CacheDir = ""
	l.Environ = append(l.Environ, "GOCACHE=/c", "GOPATH=/p", "GOWORK=/somebody/go.work")
	l.Run(t.Context())
	for _, want := range []string{"# GOCACHE=/c\n", "# GOPATH=/p\n", "# GOWORK=off\n"} {
		if !strings.Contains(l.out.String(), want) {
			t.Errorf("%q is not in %q", want, l.out)
		}
	}
}

func TestAProgramThatCannotBeStartedIsNamed(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	withFakeGo(t, l, "")()
	l.Become = func(string, []string, []string) (int, error) { return 0, errors.New("no such luck") }
	if code := l.Run(t.Context()); code != 1 || !strings.Contains(l.out.String(), "no such luck") {
		t.Errorf("got code %d and %q", code, l.out)
	}
}
