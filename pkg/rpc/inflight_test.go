package rpc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/rpc"
)

// timed is a client that notes when each line reached it.
type timed struct {
	header http.Header
	began  time.Time
	part   string
	lines  []string
	at     []time.Duration
}

func (w *timed) Header() http.Header { return w.header }
func (w *timed) WriteHeader(int)     {}
func (w *timed) Flush()              {}
func (w *timed) Write(p []byte) (int, error) {
	w.part += string(p)
	for {
		line, rest, ok := strings.Cut(w.part, "\n")
		if !ok {
			return len(p), nil
		}
		w.lines, w.at, w.part = append(w.lines, line), append(w.at, time.Since(w.began)), rest
	}
}

func TestHeartbeatsComeEveryFiveSecondsFromTheFirstByteOn(t *testing.T) {
	req.Covers(t, "RP-003", "WF-01")
	synctest.Test(t, func(t *testing.T) {
		y := newToy()
		h := rpc.New(y.config())
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/rpc/slow", nil)
		r.Header.Set("Authorization", "Bearer owner")
		r.Header.Set(names.HeaderHeartbeat, "1")
		w := &timed{header: http.Header{}, began: time.Now()}
		go func() {
			time.Sleep(12 * time.Second)
			close(y.release)
		}()
		h.ServeHTTP(w, r)
		want := []struct {
			at   time.Duration
			line string
		}{
			{0, `{"lazyEnvelope":1}`},
			{5 * time.Second, `{"heartbeat":5000}`},
			{10 * time.Second, `{"heartbeat":5000}`},
			{12 * time.Second, `{"status":200,"body":{"text":"done"}}`},
		}
		if len(w.lines) != len(want) {
			t.Fatalf("got %q", w.lines)
		}
		for i, x := range want {
			if w.lines[i] != x.line || w.at[i] != x.at {
				t.Errorf("line %d: %s at %s, want %s at %s", i, w.lines[i], w.at[i], x.line, x.at)
			}
		}
	})
}

func TestTheEnvelopeHasItsWireFormOnBothEnds(t *testing.T) {
	req.Covers(t, "WF-01")
	y := newToy()
	s := y.serve(t)
	framed := func(token, in string) (status int, text string) {
		r := do(t, s, "POST", "/rpc/echo", token, in, names.HeaderHeartbeat, "1")
		return r.StatusCode, body(t, r)
	}
	if status, got := framed("owner", `{"text":"x"}`); status != 200 || got != `{"lazyEnvelope":1}`+"\n"+`{"status":200,"body":{"text":"x"}}`+"\n" {
		t.Errorf("framed: %d %q", status, got)
	}
	// Neither opens before the request is authenticated and parsed, nor unasked for.
	for what, c := range map[string]struct {
		token, in string
		status    int
	}{"nobody's": {"", `{"text":"x"}`, 401}, "unparsed": {"owner", `{"text":`, 400}} {
		if status, got := framed(c.token, c.in); status != c.status || strings.Contains(got, "lazyEnvelope") {
			t.Errorf("%s: %d %q", what, status, got)
		}
	}
	plain := do(t, s, "POST", "/rpc/echo", "owner", `{"text":"x"}`)
	if got := strings.TrimSpace(body(t, plain)); plain.StatusCode != 200 || got != `{"text":"x"}` {
		t.Errorf("without the header: %d %q", plain.StatusCode, got)
	}
	// The reading end takes just that: whatever follows the last line is not its.
	beats := 0
	reply, err := envelope.Read(strings.NewReader("{\"lazyEnvelope\":1}\n{\"heartbeat\":5000}\n{\"heartbeat\":5000}\n"+
		"{\"status\":409,\"body\":{\"a\":1}}\n{\"status\":200,\"body\":null}\n"), func() { beats++ })
	if err != nil || reply.Status != 409 || string(reply.Body) != `{"a":1}` || beats != 3 {
		t.Errorf("read %d %s with %d beats, %v", reply.Status, reply.Body, beats, err)
	}
	for what, cut := range map[string]string{
		"cut off":       "{\"lazyEnvelope\":1}\n{\"heartbeat\":5000}\n",
		"half a line":   "{\"lazyEnvelope\":1}\n{\"status\":200,\"body\":{}}",
		"never opened":  "{\"status\":200,\"body\":{}}\n",
		"other version": "{\"lazyEnvelope\":2}\n{\"status\":200,\"body\":{}}\n",
	} {
		if reply, err := envelope.Read(strings.NewReader(cut), nil); err == nil {
			t.Errorf("%s was read as %d %s", what, reply.Status, reply.Body)
		}
	}
}

func TestFirstLineLeavesBeforeTheWorkBegins(t *testing.T) {
	req.Covers(t, "RP-003", "RP-007")
	y := newToy()
	s := y.serve(t)
	r := do(t, s, "POST", "/rpc/slow", "owner", "", names.HeaderHeartbeat, "1") // returns with the header alone
	in := bufio.NewReader(r.Body)
	line, err := in.ReadString('\n')
	if err != nil || line != `{"lazyEnvelope":1}`+"\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	<-y.started
	op := r.Header.Get(names.HeaderOperation)
	if op == "" || op != y.last(t).Operation {
		t.Errorf("announced operation %q, the handler got %q", op, y.last(t).Operation)
	}
	close(y.release)
	if rest, err := io.ReadAll(in); err != nil || !strings.HasSuffix(string(rest), `{"status":200,"body":{"text":"done"}}`+"\n") {
		t.Errorf("rest %q, %v", rest, err)
	}
}

func TestWorkFinishesWhenTheClientHangsUp(t *testing.T) {
	req.Covers(t, "RP-006", "OT-025")
	y := newToy()
	s := y.serve(t)
	for _, framed := range []string{"", "1"} {
		ctx, hangUp := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/rpc/slow", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer owner")
		r.Header.Set(names.HeaderHeartbeat, framed)
		gone := make(chan error, 1)
		go func() {
			resp, err := s.Client().Do(r)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			gone <- err
		}()
		<-y.started
		hangUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatalf("the client got %v", err)
		}
		y.release <- struct{}{} // the handler is still there to take it
		if err := <-y.ended; err != nil {
			t.Errorf("framed %q: the work saw %v", framed, err)
		}
	}
}

func TestShortCallsAreAnsweredWhileLongOnesAreInFlight(t *testing.T) {
	req.Covers(t, "RP-008")
	y := newToy()
	s := y.serve(t)
	const long, short = 32, 64
	done := make(chan error, long)
	for range long {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/rpc/slow", strings.NewReader("{}"))
			if err != nil {
				done <- err
				return
			}
			r.Header.Set("Authorization", "Bearer owner")
			r.Header.Set(names.HeaderHeartbeat, "1")
			resp, err := s.Client().Do(r)
			if err == nil {
				_, err = envelope.Read(resp.Body, nil)
				_ = resp.Body.Close()
			}
			done <- err
		}()
	}
	for range long {
		<-y.started
	}
	for range short {
		if r := do(t, s, "POST", "/rpc/echo", "owner", `{"text":"x"}`); r.StatusCode != 200 {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	if len(done) != 0 {
		t.Fatalf("%d long calls ended early", len(done))
	}
	close(y.release)
	for range long {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestHoldIsBoundedByTheHop(t *testing.T) {
	y := newToy()
	s := y.serve(t)
	for v, want := range map[string]time.Duration{
		"": time.Minute, "0": time.Millisecond, "1500": 1500 * time.Millisecond, "3600000": time.Minute, "9223372036854775807": time.Minute,
	} {
		do(t, s, "POST", "/rpc/echo", "owner", `{"text":"x"}`, names.HeaderHold, v)
		if got := y.last(t).Hold; got != want {
			t.Errorf("hold %q became %s, want %s", v, got, want)
		}
	}
}

func TestWorkThatOutlastsItsHopNamesTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToy()
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/rpc/slow", nil)
		r.Header.Set("Authorization", "Bearer owner")
		rpc.New(y.config()).ServeHTTP(w, r)
		f := envelope.Reply{Status: w.Code, Body: w.Body.Bytes()}.Fault()
		if w.Code != 503 || f.Details["operation_id"] != w.Header().Get(names.HeaderOperation) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
