package bootstrap_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary stand in for the go command: it prints what
// FAKE_GO names and then waits until the test hangs up.
func TestMain(m *testing.M) {
	if lines, ok := os.LookupEnv("FAKE_GO"); ok {
		os.Exit(fakeGo(lines))
	}
	os.Exit(m.Run())
}

func fakeGo(lines string) int {
	fmt.Fprintln(os.Stderr, lines)
	for _, name := range []string{"GOCACHE", "GOPATH", "GOTMPDIR", "GOWORK"} {
		fmt.Fprintf(os.Stderr, "# %s=%s\n", name, os.Getenv(name))
	}
	if addr := os.Getenv("FAKE_GO_WAIT"); addr != "" {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return 3
		}
		io.Copy(io.Discard, c)
	}
	out := os.Args[slices.Index(os.Args, "-o")+1]
	if os.WriteFile(out, []byte("built"), 0o755) != nil {
		return 4
	}
	return 0
}

// withFakeGo puts the test binary on the path as go. The returned function lets
// its build end.
func withFakeGo(t *testing.T, l *launch, lines string) (finish func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, exe("go"))); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	t.Setenv("PATH", dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	end := make(chan struct{})
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		<-end
		c.Close()
	}()
	l.Environ = []string{"FAKE_GO=" + lines, "FAKE_GO_WAIT=" + ln.Addr().String()}
	return sync.OnceFunc(func() { close(end) })
}

func TestALongBuildIsReportedInWholeLinesWhenPiped(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	finish := withFakeGo(t, l, "go: downloading example.com/x v1.2.3\nexample.com/x\nexample.com/y")
	l.Quiet = time.Millisecond
	code := make(chan int)
	go func() { code <- l.Run(t.Context()) }()
	for _, want := range []string{"lazy: downloading example.com/x v1.2.3\n", "lazy: still building (2 packages, 0 s)\n"} {
		if err := l.out.await(t.Context(), want); err != nil {
			t.Fatalf("%q never came in %q", want, l.out)
		}
	}
	finish()
	if got := <-code; got != 42 {
		t.Errorf("got exit code %d\n%s", got, l.out)
	}
	s := bufio.NewScanner(strings.NewReader(l.out.String()))
	for s.Scan() {
		if strings.ContainsAny(s.Text(), "\r\x1b") || s.Text() == "example.com/x" {
			t.Errorf("line %q", s.Text())
		}
	}
}

func TestALongBuildRepaintsOneLineOnATerminal(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	finish := withFakeGo(t, l, "example.com/x")
	l.Terminal, l.Quiet = true, time.Millisecond
	code := make(chan int)
	go func() { code <- l.Run(t.Context()) }()
	if err := l.out.await(t.Context(), "\r\x1b[Klazy: still building (1 packages, 0 s) example.com/x"); err != nil {
		t.Fatalf("no repainting in %q", l.out)
	}
	finish()
	<-code
	// What follows the last clearing of the line is what stays on the screen.
	painted := strings.Split(l.out.String(), "\r\x1b[K")
	if left := painted[len(painted)-1]; strings.Contains(left, "still building") {
		t.Errorf("the line is left behind: %q", l.out)
	}
}

func TestABuildThatChangesNothingIsAnnouncedWhenItTakesLong(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	withFakeGo(t, l, "")()
	l.Run(t.Context()) // so that there is a program
	l.out = &output{}
	l.Stderr, l.Patience = l.out, 0
	finish := withFakeGo(t, l, "")
	code := make(chan int)
	go func() { code <- l.Run(t.Context()) }()
	if err := l.out.await(t.Context(), "lazy: building the control plane"); err != nil {
		t.Fatal(err)
	}
	finish()
	if got := <-code; got != 42 {
		t.Errorf("got exit code %d", got)
	}
}

func TestAnInterruptedBuildStartsNothing(t *testing.T) {
	l := newLaunch(t, module(t, printer), "list")
	withFakeGo(t, l, "go: downloading example.com/x v1.2.3")
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- l.Run(ctx) }()
	if err := l.out.await(t.Context(), "downloading"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-code; got != 130 || l.became != "" {
		t.Errorf("got code %d and became %q", got, l.became)
	}
	if got := l.out.String(); !strings.Contains(got, "interrupted while building; nothing was started") {
		t.Errorf("it said %q", got)
	}
}
