package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// A control plane that was killed and not yet collected still has its process
// number: what answers at its port is asked whose it is before it is believed.
func TestARefusalOfAnotherProjectsPlaneIsNotBelieved(t *testing.T) {
	req.Covers(t, "MC-018", "MC-010", "P9")
	serve := func(root string, code int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/daemon/status" {
				_ = json.NewEncoder(w).Encode(map[string]string{"projectRoot": root})
				return
			}
			if b, err := io.ReadAll(q.Body); err != nil || len(b) == 0 {
				t.Errorf("%s came with %q, %v", q.URL.Path, b, err)
			}
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(turn.Ack{Stored: true})
		}))
		t.Cleanup(s.Close)
		return s
	}
	other, own, strict := serve("/other", http.StatusUnauthorized), serve("/ours", http.StatusOK), serve("/ours", http.StatusUnauthorized)
	file := filepath.Join(t.TempDir(), "plane.json")
	for _, c := range []struct {
		at   *httptest.Server
		away bool
		kind fault.Kind
	}{{other, true, ""}, {own, false, ""}, {strict, false, fault.Unauthenticated}} {
		b, err := json.Marshal(map[string]any{"url": c.at.URL, "pid": os.Getpid(), "root": "/ours"})
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		l := newLink(spool.Start{Target: c.at.URL, Plane: file}, slog.New(slog.DiscardHandler))
		l.use("token", "")
		_, err = l.report(t.Context(), turn.Response{}, func() bool { return false })
		l.close()
		if away, _ := apart(err); away != c.away {
			t.Errorf("%s: %v", c.at.URL, err)
		}
		if !c.away && (err == nil) != (c.kind == "") || c.kind != "" && fault.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.at.URL, err)
		}
	}
}

// A laptop has one control plane per project. When one is killed, that of another
// project may take its port before it is started again.
func TestAnAnswerIsNotHandedToAnotherProjectsPlaneOnTheSamePort(t *testing.T) {
	req.Covers(t, "MC-018", "CR-017", "P9")
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer other.Close()
	dead := exec.Command(os.Args[0], "-test.run=^$")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plane.json")
	say := func(url string, pid int) {
		b, err := json.Marshal(map[string]any{"url": url, "pid": pid})
		if err == nil {
			err = os.WriteFile(file, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	say(other.URL, dead.Process.Pid)
	l := newLink(spool.Start{Target: other.URL, Plane: file}, slog.New(slog.DiscardHandler))
	defer l.close()
	l.use("token", "")
	tries := 0
	_, err := l.report(t.Context(), turn.Response{}, func() bool { tries++; return false })
	if _, away := errors.AsType[*client.UnreachableError](err); !away || asked != 0 || tries != 1 {
		t.Fatalf("got %v after %d requests to the other plane, want nobody to be reached", err, asked)
	}
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(turn.Ack{Stored: true})
	}))
	defer own.Close()
	say(own.URL, os.Getpid())
	ack, err := l.report(t.Context(), turn.Response{}, func() bool { return true })
	if err != nil || !ack.Stored || asked != 0 {
		t.Errorf("got %+v, %v, and %d requests to the other plane", ack, err, asked)
	}
}
