package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// link is the way to the control plane. Its address may change while the run
// lives: a local control plane that was started again may have another port, and
// writes it where every dial looks (MC-018, SY-040).
type link struct {
	base  string // address as launched; dials go to the present one
	plane string
	http  *http.Client
	log   *slog.Logger

	mu     sync.Mutex
	addr   string // guarded by mu; host:port to dial
	runner string // guarded by mu
	task   string // guarded by mu
	healed int    // guarded by mu; how often the task's token was issued anew

	heal sync.Mutex // one asks for it at a time
}

func newLink(s spool.Start, log *slog.Logger) *link {
	l := &link{base: s.Target, plane: s.Plane, log: log}
	l.http = &http.Client{Transport: homing{l, &http.Transport{
		// A connection for each call: a kept one may be of a control plane that is
		// gone, and then nothing tells a call that was not sent from one that was.
		DisableKeepAlives: true, DialContext: l.dial, ResponseHeaderTimeout: 0,
	}}}
	return l
}

func (l *link) close() { l.http.CloseIdleConnections() }

// use sets the run's credentials.
func (l *link) use(runner, task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runner, l.task = runner, task
}

func (l *link) tokens() (runner, task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runner, l.task
}

// present is the task's token with how often it was issued anew.
func (l *link) present() (task string, healed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.task, l.healed
}

// refresh gets the task's token anew after one of the given count was refused, and
// reports whether the call is worth repeating. All calls of a run share the token,
// so that one refresh heals them all (MC-014); nothing of the refused call's own
// answer is used (MC-013).
func (l *link) refresh(ctx context.Context, s spool.Start, used int) bool {
	l.heal.Lock()
	defer l.heal.Unlock()
	was, n := l.present()
	if n != used {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, callMost)
	defer cancel()
	out, err := l.client(0).TaskToken(ctx, turn.TokenIn{Turn: s.Turn, Epoch: s.Epoch})
	if err != nil || out.TaskToken == "" || out.TaskToken == was && !out.Issued {
		l.log.Warn("the task's token was refused and there is no other", "err", err)
		return false
	}
	l.mu.Lock()
	l.task, l.healed = out.TaskToken, n+1
	l.mu.Unlock()
	l.log.Info("the task's token was issued anew")
	return true
}

// errAway means that the control plane of this run does not run. Its port may
// have been taken by the one of another project, which would refuse the run's
// credential for good, so nobody is dialed then.
var errAway = errors.New("the control plane does not run")

// dial connects to where the control plane says it is, which may be another place
// than where it was at the launch.
func (l *link) dial(ctx context.Context, network, launched string) (net.Conn, error) {
	l.mu.Lock()
	addr := l.addr
	l.mu.Unlock()
	if addr == "" {
		addr = launched
	}
	p, ok := l.look()
	if ok && p.pid != 0 && !running(p.pid) {
		return nil, errAway
	}
	next := p.addr
	if !ok || next == "" {
		next = addr
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, next)
	if err != nil {
		return nil, err
	}
	if next != addr {
		l.mu.Lock()
		l.addr = next
		l.mu.Unlock()
		l.log.Info("the control plane has moved", "addr", next)
	}
	return conn, nil
}

// place is where the control plane of this run says it is.
type place struct {
	addr string
	pid  int
	root string // of its project
}

// look reads the present place from the control plane's own file.
func (l *link) look() (place, bool) {
	if l.plane == "" {
		return place{}, false
	}
	b, err := os.ReadFile(l.plane)
	if err != nil {
		return place{}, false
	}
	var p struct {
		URL  string `json:"url"`
		PID  int    `json:"pid"`
		Root string `json:"root"`
	}
	if json.Unmarshal(b, &p) != nil {
		return place{}, false
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" {
		return place{}, false
	}
	return place{u.Host, p.PID, p.Root}, true
}

func running(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// callMost bounds one runner call; none of them is held open.
const callMost = 30 * time.Second

func (l *link) client(wait time.Duration) *client.RunnerClient {
	tok, _ := l.tokens()
	return &client.RunnerClient{Base: l.base, Token: tok, HTTP: l.http, Wait: client.Wait{Window: wait}}
}

func (l *link) hello(ctx context.Context, h turn.Hello) (turn.Welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, names.Nonce)
	defer cancel()
	for {
		w, err := l.client(names.Nonce).Hello(ctx, h)
		if away, lost := apart(err); err == nil || away || !lost && fault.KindOf(err) != fault.Unavailable {
			return w, err
		}
		l.log.Warn("the answer to hello was lost", "err", err)
		t := time.NewTimer(names.ReconnectFirst)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return w, errors.Join(err, ctx.Err())
		}
	}
}

func (l *link) beat(ctx context.Context, in turn.BeatIn) (turn.BeatOut, error) {
	ctx, cancel := context.WithTimeout(ctx, callMost)
	defer cancel()
	return l.client(0).Beat(ctx, in)
}

// upload asks for links into the task's vault.
func (l *link) upload(ctx context.Context, in turn.UploadIn) (turn.UploadOut, error) {
	ctx, cancel := context.WithTimeout(ctx, callMost)
	defer cancel()
	return l.client(0).Upload(ctx, in)
}

func (l *link) git(ctx context.Context, in turn.GitIn) error {
	ctx, cancel := context.WithTimeout(ctx, names.ReconnectWindow+callMost)
	defer cancel()
	_, err := l.client(names.ReconnectWindow).Git(ctx, in)
	return err
}

// report posts an answer until it is taken or refused for good. A report that was
// lost on its way is posted again: the control plane takes one per run. It gives
// up when wanted says that nobody wants it any more.
func (l *link) report(ctx context.Context, resp turn.Response, wanted func() bool) (turn.Ack, error) {
	for pause := names.ReconnectFirst; ; pause = min(2*pause, names.ReconnectMost) {
		try, cancel := context.WithTimeout(ctx, callMost)
		ack, err := l.client(0).Report(try, resp)
		cancel()
		if err == nil || !passing(err) {
			return ack, err
		}
		if !wanted() {
			return ack, err
		}
		l.log.Warn("the answer is not taken yet", "err", err)
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return ack, ctx.Err()
		case <-t.C:
		}
	}
}

// passing reports whether the same report may be taken later.
func passing(err error) bool {
	if away, lost := apart(err); away || lost {
		return true
	}
	return fault.Retryable(err) || fault.KindOf(err) == fault.Internal
}

// apart tells a call that was never sent from one that may have been done.
func apart(err error) (away, lost bool) {
	_, away = errors.AsType[*client.UnreachableError](err)
	_, lost = errors.AsType[*client.LostError](err)
	return away, lost
}
