package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// serve answers every request with h and counts them.
func serve(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &n
}

// cutAfter writes text as a framed reply and breaks the connection.
func cutAfter(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set(names.HeaderOperation, "op-1")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestCutStreamIsNeitherSuccessNorSentAgain(t *testing.T) {
	req.Covers(t, "RP-005", "MC-011")
	for _, text := range []string{
		"",
		`{"lazyEnvelope":1}` + "\n",
		`{"lazyEnvelope":1}` + "\n" + `{"heartbeat":5000}` + "\n" + `{"status":200,"body":{"ok":tr`,
	} {
		s, n := serve(t, cutAfter(text))
		c := client.Client{Base: s.URL, Token: "x", Wait: client.Wait{Window: time.Minute}}
		err := c.Call(t.Context(), "acceptTask", nil, nil)
		lost, ok := errors.AsType[*client.LostError](err)
		if !ok {
			t.Fatalf("after %q: got %v", text, err)
		}
		if text != "" && lost.Operation != "op-1" {
			t.Errorf("after %q: operation %q", text, lost.Operation)
		}
		if fault.KindOf(err) != fault.Internal { // no refusal: nothing says it was not done
			t.Errorf("after %q: it reads as %s", text, fault.KindOf(err))
		}
		tools := client.ToolClient{Base: s.URL, Segment: "_", Wait: client.Wait{Window: time.Minute}}
		if _, err := tools.Call(t.Context(), client.ToolCall{Tool: "lazy_commit"}); !isLost(err) {
			t.Errorf("tool after %q: got %v", text, err)
		}
		if n.Load() != 2 {
			t.Errorf("after %q: two calls were sent %d times", text, n.Load())
		}
	}
}

func isLost(err error) bool { _, ok := errors.AsType[*client.LostError](err); return ok }

func TestConnectionDroppedAfterSendingIsLost(t *testing.T) {
	req.Covers(t, "MC-011")
	s, n := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c := client.Client{Base: s.URL, Wait: client.Wait{Window: time.Minute}}
	if err := c.Call(t.Context(), "commit", nil, nil); !isLost(err) || n.Load() != 1 {
		t.Errorf("got %v after %d tries", err, n.Load())
	}
}

func TestConnectionNeverMadeIsAnotherErrorAndMayBeTriedAgain(t *testing.T) {
	req.Covers(t, "MC-010", "MC-011")
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()) // its own port is nobody else's, and no server's
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	base := "http://" + held.LocalAddr().String()
	c := client.Client{Base: base}
	err = c.Call(t.Context(), "echo", nil, nil)
	away, ok := errors.AsType[*client.UnreachableError](err)
	if !ok || away.Base != base || isLost(err) {
		t.Fatalf("got %v", err)
	}
}

// dialer fails a number of times and then dials for real.
type dialer struct {
	fail int
	at   []time.Duration
	from time.Time
	to   string
}

func (d *dialer) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		d.at = append(d.at, time.Since(d.from))
		if len(d.at) <= d.fail {
			return nil, errors.New("connection refused")
		}
		return new(net.Dialer).DialContext(ctx, network, d.to)
	}}}
}

func TestWaitingForAControlPlaneBacksOffAndEnds(t *testing.T) {
	req.Covers(t, "MC-010")
	synctest.Test(t, func(t *testing.T) {
		d := &dialer{fail: 1 << 30, from: time.Now()}
		var told []time.Duration
		c := client.RunnerClient{Base: "http://away", HTTP: d.client(), Wait: client.Wait{
			Window: names.ReconnectWindow, Waiting: func(w time.Duration) { told = append(told, w) },
		}}
		_, err := c.Beat(t.Context(), turn.BeatIn{})
		if _, ok := errors.AsType[*client.UnreachableError](err); !ok {
			t.Fatalf("got %v", err)
		}
		want := []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond, 3750 * time.Millisecond, 7750 * time.Millisecond, 12750 * time.Millisecond}
		for i, w := range want {
			if d.at[i] != w {
				t.Errorf("try %d at %s, want %s", i, d.at[i], w)
			}
		}
		if last := d.at[len(d.at)-1]; last != names.ReconnectWindow {
			t.Errorf("the last try came after %s", last)
		}
		if len(told) != len(d.at)-1 {
			t.Errorf("told %d times for %d tries", len(told), len(d.at))
		}
	})
}

func TestWaitingEndsWithTheFirstConnection(t *testing.T) {
	s, n := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"stop":"age"}`) })
	d := &dialer{fail: 1, to: strings.TrimPrefix(s.URL, "http://")}
	c := client.RunnerClient{Base: "http://away", HTTP: d.client(), Wait: client.Wait{Window: names.ReconnectWindow}}
	out, err := c.Beat(t.Context(), turn.BeatIn{})
	if err != nil || out.Stop != "age" || n.Load() != 1 {
		t.Errorf("got %+v, %v after %d requests", out, err, n.Load())
	}
}

func TestEveryMutatingCallCarriesAKeyOfItsOwn(t *testing.T) {
	var mu sync.Mutex
	keys := map[string]int{}
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys[r.Header.Get(names.HeaderIdempotency)]++
		mu.Unlock()
		_, _ = io.WriteString(w, `{}`)
	})
	c := client.Client{Base: s.URL}
	tools := client.ToolClient{Base: s.URL, Segment: "_"}
	for range 3 {
		if err := c.Call(t.Context(), "createTask", nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := tools.Call(t.Context(), client.ToolCall{Tool: "lazy_create"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := c.Call(t.Context(), "createTask", nil, nil, client.WithKey("mine")); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 7 || keys["mine"] != 2 || keys[""] != 0 {
		t.Errorf("got %v", keys)
	}
}

func TestFollowingTakesALostHopAgainFromItsCursor(t *testing.T) {
	var cursors []string
	hop := 0
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Cursor string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		cursors = append(cursors, in.Cursor)
		hop++
		switch hop {
		case 1:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"operation_id":"o","done":false,"cursor":"7","phases":[{"n":1,"of":2,"name":"a","state":"done"}]}`)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, `{"operation_id":"o","done":true,"status":200,"result":{"text":"ok"},"phases":[{"n":2,"of":2,"name":"b","state":"done"}]}`)
		}
	})
	c := client.Client{Base: s.URL}
	var out struct{ Text string }
	var told []string
	err := c.Follow(t.Context(), "o", "", &out, client.WithPhase(func(p client.Phase) { told = append(told, p.Name) }))
	if err != nil || out.Text != "ok" || fmt.Sprint(cursors) != "[ 7 7]" || fmt.Sprint(told) != "[a b]" {
		t.Errorf("got %q %v, cursors %q, told %v", out.Text, err, cursors, told)
	}
}

func TestFollowingStopsAtARefusal(t *testing.T) {
	s, n := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"error":{"code":"not_found","message":"No operation o in this project.","next":[],"details":{}}}`)
	})
	err := (&client.Client{Base: s.URL}).Follow(t.Context(), "o", "", nil)
	if fault.Code(err) != "not_found" || n.Load() != 1 {
		t.Errorf("got %v after %d requests", err, n.Load())
	}
}

func TestToolCallSpansHopsAsOneCall(t *testing.T) {
	req.Covers(t, "MC-028")
	type got struct {
		path, key, commit, turn, epoch, body string
	}
	var calls []got
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		calls = append(calls, got{
			r.URL.Path, r.Header.Get(names.HeaderIdempotency), r.Header.Get(names.HeaderCommit),
			r.Header.Get(names.HeaderTurn), r.Header.Get(names.HeaderEpoch), string(b),
		})
		switch len(calls) {
		case 1:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"content":[],"structuredContent":{"pending":true,"operation_id":"o1","cursor":"a"},"isError":false}`)
		case 2:
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"content":[],"structuredContent":{"pending":true,"cursor":"b"},"isError":false}`)
		default:
			_, _ = io.WriteString(w, `{"content":[{"type":"text","text":"merged"}],"structuredContent":{"merge_sha":"abc"},"isError":false}`)
		}
	})
	c := client.ToolClient{Base: s.URL, Segment: "3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10", Token: "x"}
	r, err := c.Call(t.Context(), client.ToolCall{
		Tool: "lazy_accept", Arguments: json.RawMessage(`{"task_id":"t"}`), Key: "k",
		Stamp: client.Stamp{Turn: "t1", Epoch: 4, Commit: &identity.Commit{Parent: "p"}},
	})
	if err != nil || r.Status != 200 || r.Content[0].Text != "merged" || r.Fault() != nil {
		t.Fatalf("got %+v, %v", r, err)
	}
	base := "/mcp/3f2a9c1e-5b7d-4c0e-9a1f-0d2c4b6e8f10/"
	for i, want := range []got{
		{base + "lazy_accept", "k", `{"Parent":"p","Commit":"","Tree":"","Drifted":""}`, "t1", "4", `{"arguments":{"task_id":"t"}}`},
		{base + "lazy_wait", "", "", "t1", "4", `{"arguments":{"cursor":"a","operation_id":"o1"}}`},
		{base + "lazy_wait", "", "", "t1", "4", `{"arguments":{"cursor":"b","operation_id":"o1"}}`},
	} {
		if i > 0 {
			if calls[i].key == "k" || calls[i].key == "" {
				t.Errorf("hop %d has key %q", i, calls[i].key)
			}
			want.key = calls[i].key
		}
		if calls[i] != want {
			t.Errorf("hop %d: got %+v, want %+v", i, calls[i], want)
		}
	}
}

func TestRefusedToolIsAReplyWithItsStatus(t *testing.T) {
	bodies := map[int]string{
		409: `{"content":[{"type":"text","text":"busy"}],"structuredContent":{"error":{"code":"task_busy","message":"busy","next":["lazy_wait"],"details":{}}},"isError":true}`,
		400: `{"error":"message: expected a value, got nothing","fields":[{"path":"message","problem":"expected a value, got nothing"}]}`,
	}
	for status, body := range bodies {
		s, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		c := client.ToolClient{Base: s.URL, Segment: "_"}
		r, err := c.Call(t.Context(), client.ToolCall{Tool: "lazy_commit"})
		if err != nil || r.Status != status || string(r.Raw) != body {
			t.Errorf("%d: got %d %s, %v", status, r.Status, r.Raw, err)
		}
		if f := r.Fault(); f == nil || fault.HTTP(f) != status || strings.Contains(f.Public, "answered") {
			t.Errorf("%d: fault %+v", status, f)
		}
	}
}

func TestUnixSocketIsDialledWhateverTheBase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tip":"abc","allowed":true}`)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	hc := client.Unix(path)
	t.Cleanup(hc.CloseIdleConnections)
	c := client.RunnerClient{Base: "http://lazy", HTTP: hc}
	out, err := c.Git(t.Context(), turn.GitIn{Op: "merge"})
	if err != nil || out.Tip != "abc" || !out.Allowed {
		t.Errorf("got %+v, %v", out, err)
	}
}

func TestCancelledCallIsLostWithItsCause(t *testing.T) {
	in := make(chan struct{})
	s, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees a hang-up only after that
		close(in)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- (&client.Client{Base: s.URL}).Call(ctx, "slow", nil, nil) }()
	<-in
	cancel()
	if err := <-done; !isLost(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
