package agentcli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// exec is the first process of a sandbox. Its standard input is the listening
// socket it is reached by.
func (p Program) exec(ctx context.Context, args []string, getenv func(string) string, s Stdio) error {
	f := flags("exec", s)
	way := f.String("net", "", "socket of the way to the network")
	models := f.String("model", "", "socket of the model gateway")
	listen := f.String("listen", "", "in a container of its own: where to listen, in a directory that the agent's user cannot write")
	home := f.String("home", names.HostedHome, "with --listen: the home directory of the processes")
	as := f.Int("as", 0, "user that everything is started as; 0 is the helper's own")
	limits := f.String("limits", "", "what all processes inside may use together, as JSON")
	var writable []string
	f.Func("writable", "directory that disk is measured in; may be repeated", func(s string) error {
		writable = append(writable, s)
		return nil
	})
	if err := parse(f, args, false); err != nil {
		return err
	}
	l, err := listener(ctx, *listen, s.In)
	if err != nil {
		return err
	}
	log := logger(getenv, s)
	if err := box.Harden(); err != nil {
		log.Warn("harden", "err", err)
	}
	deafen()
	env := os.Environ()
	if *listen != "" {
		if env, err = p.inContainer(env, *home); err != nil {
			return err
		}
	}
	if *way != "" {
		at, err := bridge(ctx, *way)
		if err != nil {
			return err
		}
		env = append(env, proxied(at)...)
	}
	var gateway string
	if *models != "" {
		if gateway, err = bridge(ctx, *models); err != nil {
			return err
		}
	}
	h := &box.Server{
		Sentinel: p.sentinel(), Log: log, Env: env, Writable: writable, Gateway: gateway, Agent: *as,
		Scratch: []string{"/tmp", "/var/tmp", "/dev/shm", sandbox.HomeDir},
	}
	if *limits != "" {
		if err := json.Unmarshal([]byte(*limits), &h.Limits); err != nil {
			return fault.Wrap(fault.Invalid, err, "the limits cannot be understood")
		}
	}
	return h.Serve(ctx, l)
}

// listener is the socket that a supervisor handed over, or one of the helper's own
// that only its user can connect to.
func listener(ctx context.Context, path string, in io.Reader) (net.Listener, error) {
	if path != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("make socket directory: %w", err)
		}
		l, err := spool.Listen(ctx, path)
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, fmt.Errorf("close socket to others: %w", err)
		}
		return l, nil
	}
	f, ok := in.(*os.File)
	if !ok {
		return nil, fault.New(fault.Invalid, "lazy-agent exec is started by a supervisor")
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "lazy-agent exec is started by a supervisor, with its socket as standard input")
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("close inherited socket: %w", err)
	}
	return l, nil
}

// inContainer is an image's environment with what every agent needs on top: this
// program on its path, and a home that can be written.
func (p Program) inContainer(environ []string, home string) ([]string, error) {
	bin, err := p.self()
	if err != nil {
		return nil, err
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	env := []string{"HOME=" + home}
	for _, kv := range environ {
		switch name, v, _ := strings.Cut(kv, "="); name {
		case "PATH":
			path = v
		case "HOME", "USER", "LOGNAME":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "PATH="+filepath.Dir(bin)+":"+path), nil
}

// deafen takes every signal that a neighbor in the sandbox could send and drops
// it: the helper ends by its socket. A handler rather than SIG_IGN, which the
// agent's processes would inherit and could then not be ended by.
func deafen() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGABRT, syscall.SIGSEGV,
		syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGXCPU, syscall.SIGXFSZ)
}

// bridge listens on the sandbox's own loopback, the only network it has, and
// carries each connection to a socket of the trusted side. It returns the address.
func bridge(ctx context.Context, socket string) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen inside: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			go carry(ctx, down, socket)
		}
	}()
	return "http://" + l.Addr().String(), nil
}

// proxied are the variables that programs find a proxy by.
func proxied(at string) []string {
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		env = append(env, name+"="+at)
	}
	return append(env, "NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1")
}

func carry(ctx context.Context, down net.Conn, socket string) {
	defer down.Close()
	up, err := spool.Dial(ctx, socket)
	if err != nil {
		return // between turns nobody answers
	}
	defer up.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(up, down)
		_ = up.(*net.UnixConn).CloseWrite()
	})
	_, _ = io.Copy(down, up)
	_ = down.(*net.TCPConn).CloseWrite()
	both.Wait()
}
