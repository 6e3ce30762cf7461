package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// golden compares text with a file of testdata/narration; UPDATE=1 rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "narration", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

// teller narrates into a buffer on the bubble's clock.
func teller(tty bool) (*narrator, *bytes.Buffer) {
	var b bytes.Buffer
	e := &Env{
		Out: &b, Now: time.Now, Width: func() int { return 60 },
		Getenv: func(string) string { return "" }, TTY: func(any) bool { return tty },
	}
	return e.narrate("Start greet"), &b
}

func step(n, of int, name, state, note string) client.Phase {
	return client.Phase{N: n, Of: of, Name: name, State: state, Note: note, At: time.Now()}
}

// aStart is the events of a start whose launch takes thirteen seconds.
func aStart(n *narrator) {
	n.phase(step(0, 0, "check the task", "started", ""))
	n.phase(step(0, 0, "check the task", "done", ""))
	for i, name := range []string{"create session", "prepare workspace", "publish branch", "launch runner", "deliver prompt"} {
		n.phase(step(i+1, 5, name, "planned", ""))
	}
	n.phase(step(1, 5, "create session", "started", ""))
	time.Sleep(3 * time.Millisecond)
	n.phase(step(1, 5, "create session", "done", ""))
	n.phase(step(2, 5, "prepare workspace", "started", ""))
	time.Sleep(1200 * time.Millisecond)
	n.phase(step(2, 5, "prepare workspace", "done", "1,204 files"))
	n.phase(step(3, 5, "publish branch", "skipped", `published at submit`))
	n.phase(step(4, 5, "launch runner", "started", ""))
	for range 2 {
		time.Sleep(5 * time.Second)
		n.beat()
	}
	n.phase(step(4, 5, "launch runner", "started", "runner reused"))
	time.Sleep(3 * time.Second)
	n.phase(step(4, 5, "launch runner", "done", ""))
	n.phase(step(5, 5, "deliver prompt", "started", ""))
	n.phase(step(5, 5, "deliver prompt", "done", ""))
}

func TestPipedNarrationListsThePlanAndAppends(t *testing.T) {
	req.Covers(t, "OB-002", "OB-003", "OB-004", "OB-006", "OT-028")
	synctest.Test(t, func(t *testing.T) {
		n, out := teller(false)
		aStart(n)
		n.end(false)
		golden(t, "start.piped", out.String())
	})
}

func TestATerminalRepaintsTheOpenPhaseWithItsCounter(t *testing.T) {
	req.Covers(t, "OB-005")
	synctest.Test(t, func(t *testing.T) {
		n, out := teller(true)
		stop := n.run()
		aStart(n)
		stop()
		n.end(false)
		golden(t, "start.tty", out.String())
	})
}

func TestSilenceIsBrokenOnlyByTheControlPlanesOwnBeats(t *testing.T) {
	req.Covers(t, "OB-006", "OB-007")
	synctest.Test(t, func(t *testing.T) {
		n, out := teller(false)
		n.phase(step(1, 1, "merge", "started", ""))
		was := out.Len()
		time.Sleep(4 * time.Second)
		n.beat()
		if out.Len() != was {
			t.Errorf("a line after four seconds: %q", out.String()[was:])
		}
		time.Sleep(time.Second)
		n.beat()
		if got, want := out.String()[was:], "      still running (merge, 5s)\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		was = out.Len()
		time.Sleep(time.Hour) // the control plane is gone: nothing beats
		if out.Len() != was {
			t.Errorf("it went on alone: %q", out.String()[was:])
		}
	})
}

func TestOnlyAFailedCommandLeavesAFailedPhase(t *testing.T) {
	req.Covers(t, "OB-009")
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			failed bool
			want   string
		}{
			{true, "Start greet\n  plan: 1 merge\n  1/1 merge …\n  1/1 merge: failed\n"},
			{false, "Start greet\n  plan: 1 merge\n  1/1 merge …\n"},
		} {
			n, out := teller(false)
			n.phase(step(1, 1, "merge", "started", ""))
			n.end(c.failed)
			if d := cmp.Diff(c.want, out.String()); d != "" {
				t.Error(d)
			}
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func TestANarrationNobodyReadsChangesNothing(t *testing.T) {
	req.Covers(t, "OB-009")
	synctest.Test(t, func(t *testing.T) {
		n, _ := teller(false)
		n.w = broken{}
		aStart(n)
		n.end(false)
		if len(n.seen) != 5 || n.open != nil {
			t.Errorf("it lost its place: %v, open %v", n.seen, n.open)
		}
	})
}

// A control plane tells the whole list at every hop.
func TestAListToldAgainIsPrintedOnce(t *testing.T) {
	req.Covers(t, "OB-003", "OB-018")
	synctest.Test(t, func(t *testing.T) {
		n, out := teller(false)
		at := time.Now()
		tell := func(done int) {
			for i, name := range []string{"merge description", "merge", "finalize", "clean up"} {
				p := client.Phase{N: i + 1, Of: 4, Name: name, State: "planned"}
				switch {
				case i < done:
					p.State, p.At = "done", at.Add(time.Duration(i+1)*time.Second)
				case i == done:
					p.State = "started"
				}
				n.phase(p)
			}
		}
		for _, done := range []int{1, 1, 3, 3, 4} {
			tell(done)
		}
		n.end(false)
		golden(t, "accept.hops", out.String())
	})
}

func TestWordsOfATaskCannotSteerTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, out := teller(false)
		n.phase(step(1, 1, "merge\x1b[2J", "started", "note\r\x9b31m\u202eoops\nsecond line"))
		n.phase(step(1, 1, "merge\x1b[2J", "failed", "\x1b]0;title\a"))
		for _, r := range out.String() {
			if r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0 || reorders(r)) {
				t.Errorf("%q reached the terminal in %q", r, out.String())
			}
		}
	})
}
