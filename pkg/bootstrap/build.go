package bootstrap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// refusal is why nothing could be built and what to do about it.
type refusal struct{ what, remedy string }

// outputDir is where the program of this source tree is kept. Two checkouts
// never share one.
func (l Launcher) outputDir(root string) (string, error) {
	sum := fnv.New64a()
	fmt.Fprint(sum, root)
	name := strconv.FormatUint(sum.Sum64(), 16)

	var problems []error
	if l.CacheDir != "" {
		dir := filepath.Join(l.CacheDir, "lazyplane", name)
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		problems = append(problems, err)
	}
	own := l.fallback()
	err := os.Mkdir(own, 0o700)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = private(own)
	}
	dir := filepath.Join(own, name)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", errors.Join(append(problems, err)...)
	}
	return dir, nil
}

// fallback is used by a user without a home directory.
func (l Launcher) fallback() string {
	return filepath.Join(l.TempDir, "lazyplane-"+strconv.Itoa(os.Getuid()))
}

// buildEnv is the caller's environment, with what Go cannot do without. The
// caller's workspace file is left aside, since it need not name this module.
func (l Launcher) buildEnv(dir string) []string {
	env := append([]string(nil), l.Environ...)
	// On the file system of the result Go renames it into place, so a build
	// never writes into a program that is running.
	env = append(env, "GOTMPDIR="+dir, "GOWORK=off")
	if l.env("HOME") == "" && l.CacheDir == "" {
		for name, below := range map[string]string{"GOCACHE": "go-build", "GOPATH": "go"} {
			if l.env(name) == "" {
				env = append(env, name+"="+filepath.Join(l.fallback(), below))
			}
		}
	}
	return env
}

// build runs go build, which does nothing when the program is up to date, and
// reports what it does meanwhile.
func (l Launcher) build(ctx context.Context, root, dir, path string) *refusal {
	tool, ok := l.goTool()
	if !ok {
		return &refusal{
			"the program must be built first, and there is no go command on the path",
			"Install Go 1.26 or later (https://go.dev/dl) and put its bin directory on the path.",
		}
	}
	p := &progress{out: l.Stderr, terminal: l.Terminal, quiet: l.Quiet, started: l.Now(), now: l.Now}
	p.last = p.started
	_, err := os.Stat(path)
	switch {
	case err != nil:
		p.announce()
	case len(l.Args) > 0 && l.Args[0] == "demo":
		// The demo promises its first line at once.
		p.say("lazy: checking that the program is up to date…")
	}

	// -v names each package as it is compiled; version control stamping would
	// link anew after every commit and fail in somebody else's checkout.
	cmd := exec.CommandContext(ctx, tool, "build", "-v", "-buildvcs=false", "-o", path, "./cmd/"+Full)
	cmd.Dir = root
	cmd.Env = l.buildEnv(dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return &refusal{fmt.Sprintf("cannot run %s: %v", tool, err), "Check the Go installation with `go version`."}
	}
	done := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		w.Close()
		done <- err
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines <- s.Text()
		}
		_, _ = io.Copy(io.Discard, r) // a line beyond the buffer must not block Go
	}()

	p.watch(lines, l.Patience)
	if err := <-done; err != nil {
		return &refusal{
			"building the program failed",
			"The lines above say why. The first build downloads modules, so the network or GOPROXY must be reachable;\n" +
				"      `go build ./cmd/" + Full + "` in " + root + " repeats it.",
		}
	}
	return nil
}

// progress tells the person what a build is doing: in place on a terminal, in
// whole lines elsewhere.
type progress struct {
	out       io.Writer
	terminal  bool
	quiet     time.Duration
	now       func() time.Time
	started   time.Time
	last      time.Time // of the last line written
	announced bool
	painted   bool // the terminal's current line is ours to overwrite
	compiled  int
	doing     string
}

func (p *progress) announce() {
	if !p.announced {
		p.announced = true
		p.say("lazy: building the control plane (the first time takes a minute or two)…")
	}
}

// watch reports until lines is closed.
func (p *progress) watch(lines <-chan string, patience time.Duration) {
	impatient := time.After(patience)
	every := p.quiet
	if p.terminal && every > 500*time.Millisecond {
		every = 500 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	defer p.clear()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return
			}
			p.line(line)
		case <-impatient:
			p.announce()
		case <-tick.C:
			if p.announced && (p.terminal || p.now().Sub(p.last) >= p.quiet-p.quiet/10) {
				p.paint()
			}
		}
	}
}

// line reports one line of Go's own output.
func (p *progress) line(line string) {
	switch {
	case isPackage(line):
		p.compiled++
		p.doing = line
		if p.terminal && p.announced {
			p.paint()
		}
	case strings.HasPrefix(line, "go: downloading "):
		p.announce()
		p.doing = strings.TrimPrefix(line, "go: ")
		if p.terminal {
			p.paint()
		} else {
			p.say("lazy: " + p.doing)
		}
	default:
		p.say(line)
	}
}

// paint shows how far the build is.
func (p *progress) paint() {
	text := fmt.Sprintf("lazy: still building (%d packages, %d s)", p.compiled, int(p.now().Sub(p.started).Seconds()))
	if !p.terminal {
		p.say(text)
		return
	}
	if p.doing != "" {
		text += " " + p.doing
	}
	if r := []rune(text); len(r) > 79 {
		text = string(r[:78]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K"+text)
	p.painted = true
}

func (p *progress) say(text string) {
	p.clear()
	fmt.Fprintln(p.out, text)
	p.last = p.now()
}

func (p *progress) clear() {
	if p.painted {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.painted = false
	}
}

// isPackage tells the package names of go build -v from messages.
func isPackage(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t:#\"'()")
}
