package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// kept is the other side of a capture: it keeps what a store would.
type kept struct {
	text   string
	marks  int
	stamps int
	titles []string
	fail   error
}

func (k *kept) call(_ context.Context, method string, params, _ any) error {
	switch method {
	case "getStoragePath":
		k.marks++
	case "saveBuilderResumeIntent":
		k.stamps++
	case "saveConversation":
		p := params.(map[string]any)
		from, b := p["offset"].(int64), p["content"].([]byte)
		switch {
		case k.fail != nil:
			return k.fail
		case p["replace"].(bool):
			k.text = ""
		case from+int64(len(b)) <= int64(len(k.text)) && k.text[from:from+int64(len(b))] == string(b):
			return nil
		case from != int64(len(k.text)):
			return fault.New(fault.Invalid, "offset").WithDetail("size", float64(len(k.text)))
		}
		k.text += string(b)
		k.titles = append(k.titles, p["title"].(string))
	}
	return nil
}

// finds is where a transcript is, once it is there.
func finds(at string, there func() bool) func(string, bool) (string, string, error) {
	return func(session string, _ bool) (string, string, error) {
		if !there() {
			return session, "", errNoTranscript
		}
		return session, at, nil
	}
}

func TestACaptureSendsWhatATranscriptHasGrownBy(t *testing.T) {
	req.Covers(t, "CV-004", "ID-012")
	at := filepath.Join(t.TempDir(), "s.jsonl")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(at, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		var there atomic.Bool
		c := &capture{session: "s", agent: "claude-code", find: finds(at, there.Load), call: k.call}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx) }()
		next := func(want string) {
			t.Helper()
			time.Sleep(names.CapturePeriod)
			synctest.Wait()
			if k.text != want {
				t.Errorf("stored %d bytes, want %d", len(k.text), len(want))
			}
		}
		next("") // no transcript yet is no failure
		there.Store(true)
		long := `{"type":"user","message":{"content":[{"type":"text","text":"Say  hello"}]}}` + "\n" + strings.Repeat("y", 2*pieceMost) + "\n"
		write(long + "half a li")
		next(long)
		write(long + "half a line\n")
		next(long + "half a line\n")
		write("anew\n" + long + "half a line\n")
		next("anew\n" + long + "half a line\n")
		write("short\n")
		next("short\n")
		next("short\n")
		if k.marks != 6 || k.stamps != 4 || k.titles[0] != "Say hello" {
			t.Errorf("%d marks, %d stamps, titles %q", k.marks, k.stamps, k.titles)
		}
		stop()
		<-done
	})
}

func TestASessionThatGoesOnSendsTheRestOnly(t *testing.T) {
	at := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(at, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kept{text: "one\ntwo\n"}
	c := &capture{session: "s", find: finds(at, func() bool { return true }), call: k.call}
	c.once(t.Context())
	if k.text != "one\ntwo\nthree\n" || len(c.failures()) != 0 {
		t.Errorf("stored %q, %v", k.text, c.failures())
	}
}

func TestFailuresOfACaptureAreToldOnceAtItsEnd(t *testing.T) {
	req.Covers(t, "CV-007")
	at := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(at, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &kept{fail: fault.New(fault.Unavailable, "the store is away")}
	c := &capture{session: "s", find: finds(at, func() bool { return true }), call: k.call}
	for range 3 {
		c.once(t.Context())
	}
	if got := c.failures(); len(got) != 1 || got[0] != "the store is away" {
		t.Errorf("failures: %q", got)
	}
	k.fail = nil
	c.once(t.Context())
	if k.text != "one\n" {
		t.Errorf("afterwards %q is stored", k.text)
	}
}
