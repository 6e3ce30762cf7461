package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/gateway"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// trip is a network in memory.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

func said(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// held is a run whose control plane can be cut off, whose agent calls a model.
type held struct {
	*run
	calls  atomic.Int64 // that reached the model
	beats  atomic.Int64 // that reached the control plane
	cut    atomic.Bool
	fenced atomic.Bool
	ended  chan error
	dial   pipes
}

// hold runs f over a run that beats and serves its model calls on virtual time.
func hold(t *testing.T, f func(t *testing.T, h *held)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &held{ended: make(chan error, 1), dial: pipes{make(chan net.Conn), make(chan struct{})}}
		h.run = fresh(time.Hour, nil)
		h.Now, h.granted = time.Now, make(chan struct{})
		h.start = spool.Start{Turn: "t", Epoch: 3}
		h.run.stop = func(why error) {
			select {
			case h.ended <- why:
			default:
			}
		}
		h.link = newLink(spool.Start{Target: "http://plane"}, h.log)
		h.link.http = &http.Client{Transport: trip(h.plane)}
		g := &gateway.Gateway{
			Access: model.Access{Provider: "claude", Wire: model.Anthropic, Upstream: "https://model", Scheme: model.APIKey, Secret: "s"},
			Key:    "k", Permit: h.permit, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Transport: trip(func(*http.Request) (*http.Response, error) {
				h.calls.Add(1)
				return said(200, `{"type":"message","model":"m","usage":{"input_tokens":1,"output_tokens":1}}`), nil
			}),
		}
		h.gateway = g
		ctx, cancel := context.WithCancel(t.Context())
		beating, serving := make(chan struct{}), make(chan struct{})
		go func() { defer close(beating); h.run.beats(ctx) }()
		go func() { defer close(serving); _ = g.Serve(ctx, h.dial) }()
		synctest.Wait()
		f(t, h)
		cancel()
		<-beating
		<-serving
	})
}

// plane answers beats, unless it is cut off or another epoch is in force.
func (h *held) plane(q *http.Request) (*http.Response, error) {
	if h.cut.Load() {
		return nil, errors.New("no route to host")
	}
	var in turn.BeatIn
	if err := json.NewDecoder(q.Body).Decode(&in); err != nil {
		return nil, err
	}
	if in.Epoch != 3 {
		return said(400, `{}`), nil
	}
	h.beats.Add(1)
	if h.fenced.Load() {
		return said(409, `{"error":{"code":"`+string(refusal.Fenced)+`","message":"another run","next":[],"details":{}}}`), nil
	}
	b, err := json.Marshal(turn.BeatOut{ModelUntil: time.Now().Add(names.ModelPermission)})
	return said(200, string(b)), err
}

// ask makes one model call as the agent does and says how it went and after how long.
func (h *held) ask(t *testing.T) (status int, took time.Duration) {
	t.Helper()
	began := time.Now()
	hc := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			in, out := net.Pipe()
			h.dial.conns <- in
			return out, nil
		},
	}}
	q, err := http.NewRequestWithContext(t.Context(), "POST", "http://gateway/v1/messages", bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", "k")
	resp, err := hc.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, time.Since(began)
}

func TestAModelCallIsHeldForThePlanesPermissionAndThenRefused(t *testing.T) {
	req.Covers(t, "GN-10")
	for _, c := range []struct {
		name    string
		away    time.Duration // how long the plane stays away once its permission is over
		status  int
		sent    int64
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"20 s", 20 * time.Second, 200, 1, 20 * time.Second, 35 * time.Second},
		{"60 s", 60 * time.Second, 200, 1, 60 * time.Second, 75 * time.Second},
		{"200 s", 200 * time.Second, 503, 0, names.ModelHold, names.ModelHold},
	} {
		t.Run(c.name, func(t *testing.T) {
			hold(t, func(t *testing.T, h *held) {
				if status, took := h.ask(t); status != 200 || took != 0 {
					t.Errorf("under a permission: %d after %s", status, took)
				}
				h.cut.Store(true)
				time.Sleep(names.ModelPermission - time.Second)
				if status, took := h.ask(t); status != 200 || took != 0 {
					t.Errorf("under a permission of 29 s ago: %d after %s", status, took)
				}
				time.Sleep(time.Second)
				sent := h.calls.Load()
				back := time.AfterFunc(c.away, func() { h.cut.Store(false) })
				defer back.Stop()
				status, took := h.ask(t)
				if status != c.status || took < c.atLeast || took > c.atMost {
					t.Errorf("without a permission: %d after %s, want %d after %s to %s", status, took, c.status, c.atLeast, c.atMost)
				}
				if n := h.calls.Load() - sent; n != c.sent {
					t.Errorf("%d calls were forwarded, want %d", n, c.sent)
				}
				// The hold is no attempt, and the turn goes on.
				select {
				case err := <-h.ended:
					t.Errorf("the turn ended: %v", err)
				default:
				}
				if seen := h.gateway.Seen(); (seen.Row == 0) != (c.status == 200) {
					t.Errorf("%d calls in a row have failed", seen.Row)
				}
				time.Sleep(c.away)
				if status, _ := h.ask(t); status != 200 {
					t.Errorf("with the plane back: %d", status)
				}
			})
		})
	}
}

func TestAModelCallWithoutPermissionAsksForItAtOnce(t *testing.T) {
	req.Covers(t, "GN-10")
	hold(t, func(t *testing.T, h *held) {
		h.cut.Store(true)
		time.Sleep(names.ModelPermission + time.Second)
		h.cut.Store(false)
		seen := h.beats.Load()
		if status, took := h.ask(t); status != 200 || took != 0 {
			t.Errorf("it was %d after %s", status, took)
		}
		if n := h.beats.Load() - seen; n != 1 {
			t.Errorf("%d beats were made for it", n)
		}
	})
}

func TestARunOfAnEpochThatIsOverCallsNoModel(t *testing.T) {
	req.Covers(t, "GN-10")
	hold(t, func(t *testing.T, h *held) {
		h.fenced.Store(true)
		time.Sleep(names.ModelPermission + time.Second)
		sent := h.calls.Load()
		if status, _ := h.ask(t); status != 503 || h.calls.Load() != sent {
			t.Errorf("%d, %d calls were forwarded", status, h.calls.Load()-sent)
		}
		if s, ok := errors.AsType[*stopped](<-h.ended); !ok || s.why != turn.StopAsked {
			t.Errorf("the turn ended with %v", s)
		}
	})
}
