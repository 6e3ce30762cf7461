package box

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// Server is the helper.
type Server struct {
	Sentinel string
	Log      *slog.Logger
	// Env is what every process gets, with what its command adds on top.
	Env []string
	// Gateway is where the model gateway is reached inside; "" is nowhere.
	Gateway string
	// Agent is the user and group that everything is started as, and that owns what
	// is written for it; 0 is the helper's own. A helper that is somebody else than
	// the agent is out of its reach in every way that a system call offers (AG-026).
	Agent int
	// Limits are what all inside may use together; Writable are the directories
	// that disk is measured in, Scratch the file systems that are memory.
	Limits   sandbox.Limits
	Writable []string
	Scratch  []string

	kids kids
	main chan struct{} // held while the agent of one supervisor runs
	live sync.WaitGroup
	end  context.CancelFunc
}

const (
	// drain is how long output is still forwarded after a process has ended
	// while descendants keep its streams open.
	drain = 200 * time.Millisecond
	// endGrace is what descendants get between SIGTERM and SIGKILL at the end.
	endGrace = 2 * time.Second
)

// Serve answers on l until it is told to end or ctx is done; then everything in
// the sandbox has ended. As the first process of its process namespace it also
// collects orphans.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	s.main = make(chan struct{}, 1)
	if err := s.settle(); err != nil {
		return err
	}
	s.kids.agent = s.Agent
	s.kids.start(ctx)
	s.guard(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			break
		}
		if err != nil {
			return err
		}
		s.live.Go(func() {
			defer conn.Close()
			s.answer(ctx, conn)
		})
	}
	s.kids.endAll(endGrace)
	s.live.Wait()
	return nil
}

func (s *Server) answer(ctx context.Context, conn net.Conn) {
	k, b, err := readFrame(conn)
	if err != nil || k != kindRequest {
		return
	}
	var req request
	if err := json.Unmarshal(b, &req); err != nil {
		return
	}
	switch req.Op {
	case opHealth:
		s.agree(conn, nil)
	case opAside:
		if req.Aside == nil {
			return
		}
		moved, err := aside(*req.Aside)
		s.tell(conn, moved, err)
	case opLook:
		if len(req.Argv) == 1 {
			_, err = look(req.Argv[0], req.Dir, merge(s.Env, req.Env))
		}
		s.agree(conn, err)
	case opWrite:
		if req.File == nil {
			return
		}
		s.agree(conn, s.write(*req.File))
	case opEnd:
		s.end()
		s.agree(conn, nil)
	case opRun:
		s.run(ctx, conn, req.Command)
	}
}

func (s *Server) agree(conn net.Conn, err error) { s.tell(conn, nil, err) }

func (s *Server) tell(conn net.Conn, moved []Moved, err error) {
	if err != nil {
		refuse(conn, err)
		return
	}
	h := Health{Sentinel: s.Sentinel, Running: s.kids.count(), Gateway: s.Gateway, Moved: moved}
	for _, kv := range s.Env {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			h.Home = v
		}
	}
	_ = writeJSON(conn, kindHealth, h)
}

// merge lays variables over others.
func merge(base, over []string) []string {
	set := map[string]bool{}
	for _, kv := range over {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	all := slices.Clone(over)
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); !set[name] {
			all = append(all, kv)
		}
	}
	return all
}

func refuse(conn net.Conn, err error) {
	e := fault.Of(err)
	_ = writeJSON(conn, kindFault, refused{Kind: e.Kind, Text: e.Public})
}

// look finds a program as a shell would, with the PATH it will run under.
func look(name, dir string, env []string) (string, error) {
	try := func(p string) bool {
		fi, err := os.Stat(p)
		return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
	}
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		if try(at) {
			return at, nil
		}
	} else {
		path := ""
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, "PATH="); ok {
				path = v
			}
		}
		for _, d := range filepath.SplitList(path) {
			if at := filepath.Join(d, name); d != "" && try(at) {
				return at, nil
			}
		}
	}
	return "", fault.New(fault.NotFound, "there is no program %q in the sandbox", name)
}

// run starts one process and carries its streams until it has ended. The
// connection is its lease: when it closes, the process group is killed.
func (s *Server) run(ctx context.Context, conn net.Conn, c Command) {
	if len(c.Argv) == 0 {
		refuse(conn, fault.New(fault.Invalid, "no command to run"))
		return
	}
	env := merge(s.Env, c.Env)
	path, err := look(c.Argv[0], c.Dir, env)
	if err != nil {
		refuse(conn, err)
		return
	}
	in := newInlet()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		in.listen(conn)
	}()
	if c.Main {
		select {
		case s.main <- struct{}{}:
			defer func() { <-s.main }()
		case <-lost:
			return
		case <-ctx.Done():
			return
		}
	}
	pipes, err := openPipes()
	if err != nil {
		refuse(conn, fault.Wrap(fault.Internal, err, "the sandbox has no pipes left"))
		return
	}
	defer pipes.closeOurs()
	kid, err := s.kids.spawn(ctx, path, c.Argv, env, c.Dir, pipes.theirs())
	pipes.closeTheirs()
	if err != nil {
		refuse(conn, startFault(c.Argv[0], err))
		return
	}
	var mu sync.Mutex // one writer of frames at a time
	send := func(k kind, b []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return writeFrame(conn, k, b)
	}
	_ = send(kindStarted, nil) // a lost supervisor is noticed below
	pipes.reading.Go(func() { pump(pipes.out, kindOut, send) })
	pipes.reading.Go(func() { pump(pipes.err, kindErr, send) })
	go in.feed(pipes.in)
	go in.signal(kid)
	select {
	case <-kid.done:
	case <-lost:
		kid.kill(syscall.SIGKILL)
		<-kid.done
	case <-ctx.Done():
		<-kid.done // endAll sees to it
	}
	in.close()
	flushed := make(chan struct{})
	go func() {
		pipes.reading.Wait()
		close(flushed)
	}()
	t := time.NewTimer(drain)
	defer t.Stop()
	select {
	case <-flushed:
	case <-t.C:
		// Servers the agent left running hold the streams; they go on being read,
		// because a closed pipe would kill them (AG-006).
		pipes.keep()
	}
	b, _ := json.Marshal(kid.exit)
	_ = send(kindDone, b)
}

func startFault(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.NotFound, err, "%q cannot be started: its interpreter or directory does not exist", name)
	}
	return fault.Wrap(fault.Failed, err, "%q cannot be started: %v", name, err)
}

// pump forwards a stream to its end. Once nobody takes it any more it is read
// and dropped.
func pump(r io.Reader, k kind, send func(kind, []byte) error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && send(k, buf[:n]) != nil {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		if err != nil {
			return
		}
	}
}
