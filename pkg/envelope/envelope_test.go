package envelope_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestEnvelopeHasTheThreeLinesOfTheWireFormat(t *testing.T) {
	req.Covers(t, "RP-002")
	var b bytes.Buffer
	flushed := 0
	w := envelope.NewWriter(&b, func() { flushed++ })
	for _, step := range []func() error{w.Open, w.Beat, w.Beat, func() error {
		return w.Close(envelope.Reply{Status: 404, Body: json.RawMessage("{\n \"a\": 1}")})
	}} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"lazyEnvelope":1}
{"heartbeat":5000}
{"heartbeat":5000}
{"status":404,"body":{"a":1}}
`
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	if flushed != 4 {
		t.Errorf("flushed %d times; each line has to leave at once", flushed)
	}
}

func TestNothingFollowsTheFinalLine(t *testing.T) {
	var b bytes.Buffer
	w := envelope.NewWriter(&b, nil)
	_ = w.Open()
	_ = w.Close(envelope.Reply{Status: 200})
	before := b.String()
	_ = w.Beat()
	_ = w.Close(envelope.Reply{Status: 500})
	if b.String() != before {
		t.Errorf("got %q after %q", b.String(), before)
	}
	if !strings.HasSuffix(before, `{"status":200,"body":null}`+"\n") {
		t.Errorf("an empty body is not null: %q", before)
	}
}

// broken fails from the nth write on and counts the tries.
type broken struct{ ok, tries int }

func (b *broken) Write(p []byte) (int, error) {
	b.tries++
	if b.tries > b.ok {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestWriterGivesUpOnAPeerThatIsGone(t *testing.T) {
	peer := &broken{ok: 1}
	w := envelope.NewWriter(peer, nil)
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := w.Beat(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
	}
	if err := w.Close(envelope.Reply{Status: 200}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
	if peer.tries != 2 {
		t.Errorf("wrote %d times to a closed connection", peer.tries-1)
	}
}

func TestStreamWithoutAFinalLineIsCut(t *testing.T) {
	req.Covers(t, "RP-005")
	whole := `{"lazyEnvelope":1}` + "\n" + `{"heartbeat":5000}` + "\n" + `{"status":200,"body":{"ok":true}}` + "\n"
	for n := range len(whole) {
		if _, err := envelope.Read(strings.NewReader(whole[:n]), nil); !errors.Is(err, envelope.ErrCut) {
			t.Fatalf("the first %d bytes: got %v, want ErrCut", n, err)
		}
	}
	beats := 0
	r, err := envelope.Read(iotest.OneByteReader(strings.NewReader(whole)), func() { beats++ })
	if err != nil || r.Status != 200 || string(r.Body) != `{"ok":true}` || beats != 2 {
		t.Errorf("the whole: %d %s, %d beats, %v", r.Status, r.Body, beats, err)
	}
	gone := errors.New("connection reset")
	_, err = envelope.Read(io.MultiReader(strings.NewReader(whole[:25]), iotest.ErrReader(gone)), nil)
	if !errors.Is(err, envelope.ErrCut) || !errors.Is(err, gone) {
		t.Errorf("a broken connection: got %v", err)
	}
}

func TestReaderRefusesWhatIsNoEnvelope(t *testing.T) {
	for name, in := range map[string]string{
		"another first line": `{"status":200,"body":1}` + "\n",
		"another version":    `{"lazyEnvelope":2}` + "\n",
		"html":               "<html>\n</html>\n",
		"no object":          `{"lazyEnvelope":1}` + "\n[]\n",
		"status zero":        `{"lazyEnvelope":1}` + "\n" + `{"status":0,"body":1}` + "\n",
		"status 1000":        `{"lazyEnvelope":1}` + "\n" + `{"status":1000}` + "\n",
	} {
		if r, err := envelope.Read(strings.NewReader(in), nil); !errors.Is(err, envelope.ErrMalformed) {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}

func TestReaderPassesOverLinesItDoesNotKnow(t *testing.T) {
	in := `{"lazyEnvelope":1}` + "\n" + `{"news":"x"}` + "\n" + `{"status":204}` + "\n"
	r, err := envelope.Read(strings.NewReader(in), nil)
	if err != nil || r.Status != 204 || string(r.Body) != "null" {
		t.Errorf("got %d %s %v", r.Status, r.Body, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"lazyEnvelope":1}`+"\n"+`{"heartbeat":5000}`+"\n"+`{"status":200,"body":{"ok":true}}`+"\n"), uint8(1))
	f.Add([]byte(`{"lazyEnvelope":1}`+"\n"+`{"status":409,"body":"\u0000"}`+"\n"), uint8(0))
	f.Add([]byte("\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, beats uint8) {
		r, err := envelope.Read(bytes.NewReader(in), nil)
		if err != nil {
			if !errors.Is(err, envelope.ErrCut) && !errors.Is(err, envelope.ErrMalformed) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		// What was read can be written and read again.
		var b bytes.Buffer
		w := envelope.NewWriter(&b, nil)
		_ = w.Open()
		for range beats {
			_ = w.Beat()
		}
		if err := w.Close(r); err != nil {
			t.Fatalf("write %d %q: %v", r.Status, r.Body, err)
		}
		again, err := envelope.Read(&b, nil)
		if err != nil || again.Status != r.Status || !sameJSON(t, again.Body, r.Body) {
			t.Fatalf("%d %s became %d %s, %v", r.Status, r.Body, again.Status, again.Body, err)
		}
		_ = r.Fault()
	})
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		t.Fatalf("%q or %q is not JSON", a, b)
	}
	return x.String() == y.String()
}
