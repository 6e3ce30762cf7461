package box_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// TestMain is the helper when the tests start this program again as one.
func TestMain(m *testing.M) {
	if os.Getenv("BOX_TEST_HELPER") == "" {
		os.Exit(m.Run())
	}
	l, err := net.FileListener(os.Stdin)
	if err != nil {
		panic(err)
	}
	_ = os.Stdin.Close()
	if err := box.Harden(); err != nil {
		panic(err)
	}
	s := &box.Server{Sentinel: "lazy-agent ok test", Log: slog.New(slog.DiscardHandler), Env: os.Environ()}
	if err := s.Serve(context.Background(), l); err != nil {
		panic(err)
	}
}

// helper starts a helper process and returns a client and its box directory.
func helper(t *testing.T) (box.Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "box") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, spool.BoxSocket)
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	log, err := spool.LockBox(dir)
	if err != nil || log == nil {
		t.Fatal(err)
	}
	defer log.Close()
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BOX_TEST_HELPER=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_ = f.Close()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = box.End(context.WithoutCancel(t.Context()), dir, 5*time.Second, time.After)
		_ = cmd.Process.Kill()
		<-ended
	})
	i, err := spool.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := spool.Write(dir, spool.BoxFile, spool.Box{Ident: i, Socket: sock}); err != nil {
		t.Fatal(err)
	}
	return box.Client{Socket: sock}, dir
}

func sh(script string) box.Command {
	return box.Command{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/"}
}

func TestStreamsAndExitCodeComeBackExactly(t *testing.T) {
	c, _ := helper(t)
	big := strings.Repeat("0123456789abcdef", 1<<18) // 4 MB, more than any pipe holds
	var out, errs bytes.Buffer
	x, err := c.Run(t.Context(), sh("cat; echo oops >&2; exit 7"), strings.NewReader(big), &out, &errs)
	if err != nil || x.Code != 7 {
		t.Fatalf("exit %+v, %v", x, err)
	}
	if out.String() != big {
		t.Errorf("stdout has %d bytes, want the %d of stdin", out.Len(), len(big))
	}
	if errs.String() != "oops\n" {
		t.Errorf("stderr = %q", errs.String())
	}
}

func TestAMissingProgramIsNamed(t *testing.T) {
	req.Covers(t, "AG-004")
	c, _ := helper(t)
	for _, name := range []string{"no-such-agent", "./no/such", "/no/such"} {
		cmd := sh("")
		cmd.Argv = []string{name}
		_, err := c.Run(t.Context(), cmd, nil, io.Discard, io.Discard)
		if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), name) {
			t.Errorf("run %s: %v", name, err)
		}
		if err := c.Look(t.Context(), name, "/", cmd.Env); fault.KindOf(err) != fault.NotFound {
			t.Errorf("look %s: %v", name, err)
		}
	}
	if err := c.Look(t.Context(), "sh", "/", sh("").Env); err != nil {
		t.Errorf("look sh: %v", err)
	}
}

func TestASignalReachesAProcessThatNeverReadsItsInput(t *testing.T) {
	c, _ := helper(t)
	read, write := io.Pipe()
	p, err := c.Start(t.Context(), sh("echo up; exec sleep 1000"), strings.NewReader(strings.Repeat("x", 8<<20)), write, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(read, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if x, err := p.Exit(); err != nil || x.Code != 143 {
		t.Errorf("exit %+v, %v", x, err)
	}
}

// A server that the agent leaves running keeps the streams of its parent; the
// next turn must find it alive, even when it goes on printing.
func TestAServerSurvivesTheProcessThatStartedItAndItsOutput(t *testing.T) {
	req.Covers(t, "AG-006")
	c, dir := helper(t)
	mark := filepath.Join(dir, "alive")
	var out bytes.Buffer
	x, err := c.Run(t.Context(), sh(`(while :; do echo tick; echo tock >&2; echo x >> `+mark+`; sleep 0.01; done) & echo $!`), nil, &out, io.Discard)
	if err != nil || x.Code != 0 {
		t.Fatalf("exit %+v, %v", x, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(strings.ReplaceAll(out.String(), "tick\n", ""), "\n", 2)[0]))
	if err != nil {
		t.Fatalf("output %q", out.String())
	}
	size := func() int64 {
		fi, err := os.Stat(mark)
		if err != nil {
			return 0
		}
		return fi.Size()
	}
	before := size()
	for size() < before+20 { // it prints on, and nobody listens
		if syscall.Kill(pid, 0) != nil {
			t.Fatal("the server died with its parent")
		}
	}
	if err := box.End(t.Context(), dir, 5*time.Second, time.After); err != nil {
		t.Fatal(err)
	}
	if i, err := spool.Identify(pid); err == nil {
		t.Errorf("process %+v survived the end of the sandbox", i)
	}
}

func TestTheEndOfTheSandboxTakesEvenWhatIgnoresBeingAsked(t *testing.T) {
	req.Covers(t, "AG-007")
	c, dir := helper(t)
	var out bytes.Buffer
	_, err := c.Run(t.Context(), sh(`setsid sh -c 'trap "" TERM; echo $$; exec 1>&- 2>&-; while :; do sleep 1; done' & wait -n 2>/dev/null; sleep 0.1`), nil, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatalf("output %q", out.String())
	}
	i, err := spool.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.End(t.Context(), dir, 10*time.Second, time.After); err != nil {
		t.Fatal(err)
	}
	if i.Alive() {
		t.Error("it is still there")
	}
	if err := box.End(t.Context(), dir, time.Second, time.After); err != nil {
		t.Errorf("ending it again: %v", err)
	}
}

func TestWhatALostSupervisorStartedIsKilledBeforeItsSuccessorStarts(t *testing.T) {
	c, _ := helper(t)
	ctx, die := context.WithCancel(t.Context())
	read, write := io.Pipe()
	first := sh("trap '' TERM; echo $$; while :; do sleep 1; done")
	first.Main = true
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, first, nil, write, io.Discard)
		done <- err
	}()
	line := make([]byte, 16)
	n, err := read.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	old, err := spool.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	die()
	<-done
	next := sh("exit 0")
	next.Main = true
	if x, err := c.Run(t.Context(), next, nil, io.Discard, io.Discard); err != nil || x.Code != 0 {
		t.Fatalf("successor: %+v, %v", x, err)
	}
	if old.Alive() {
		t.Error("the successor ran while its predecessor did")
	}
}

func TestTheHelperCannotBeReadOrTracedByWhatItStarts(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may read every process here; only the flags are checked")
	}
	c, dir := helper(t)
	var b spool.Box
	if _, err := spool.Read(dir, spool.BoxFile, &b); err != nil {
		t.Fatal(err)
	}
	if h, err := c.Health(t.Context()); err != nil || h.Sentinel != "lazy-agent ok test" {
		t.Fatalf("health %+v, %v", h, err)
	}
	fi, err := os.Stat("/proc/" + strconv.Itoa(b.PID) + "/mem")
	if err != nil {
		t.Skip("no /proc here")
	}
	_ = fi
	var out bytes.Buffer
	if _, err := c.Run(t.Context(), sh("grep -E '^(NoNewPrivs|CoreDumping)' /proc/self/status; ulimit -c"), nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "NoNewPrivs:\t1") || !strings.HasSuffix(out.String(), "\n0\n") {
		t.Errorf("a process of the agent has %q", out.String())
	}
}

func FuzzTheHelperSurvivesAnyFrame(f *testing.F) {
	f.Add([]byte("R\x00\x00\x00\x02{}"))
	f.Add([]byte("R\xff\xff\xff\xff"))
	f.Add([]byte(`R` + "\x00\x00\x00\x0c" + `{"op":"run"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &box.Server{Sentinel: "x", Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		dir, err := os.MkdirTemp("", "box") //nolint:usetesting // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, l) }()
		conn, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(b)
		_ = conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
