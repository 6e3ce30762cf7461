package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// narrator prints the phases of an operation. Append-only output gets a start
// and a finish line per phase; a terminal gets one line per phase, repainted
// while it is open. Nothing it does, or fails to do, changes the outcome: write
// errors are dropped (OB-009).
type narrator struct {
	now   func() time.Time
	live  bool
	width func() int

	mu      sync.Mutex
	title   string               // not yet printed: a refused operation has no story, guarded by mu
	w       io.Writer            // guarded by mu
	last    time.Time            // of the last line, guarded by mu
	plan    []client.Phase       // a list whose end has not come yet, guarded by mu
	told    bool                 // the plan was printed, guarded by mu
	seen    map[int]client.Phase // the last state of each numbered phase, guarded by mu
	later   []client.Phase       // skipped ahead of an earlier phase's end, guarded by mu
	open    *client.Phase        // guarded by mu
	since   time.Time            // when open was first seen, guarded by mu
	edge    time.Time            // when the last phase ended by the plane's clock, guarded by mu
	painted bool                 // an unfinished line is on the terminal, guarded by mu
}

// narrate starts a narration headed by title. It goes to stdout beside the
// result, and to stderr under --json, which keeps stdout one document.
func (e *Env) narrate(title string) *narrator {
	w := e.Out
	if e.json {
		w = e.Err
	}
	return e.narrateOn(w, title)
}

func (e *Env) narrateOn(w io.Writer, title string) *narrator {
	return &narrator{
		now: e.Now, live: e.TTY(w) && e.Getenv("TERM") != "dumb", width: e.Width,
		w: w, title: title, last: e.Now(), seen: map[int]client.Phase{},
	}
}

func (n *narrator) printf(format string, args ...any) {
	if n.painted {
		_, _ = io.WriteString(n.w, "\r\x1b[2K")
		n.painted = false
	}
	n.heading()
	_, _ = fmt.Fprintf(n.w, format, args...)
	n.last = n.now()
}

func (n *narrator) heading() {
	if n.title != "" {
		_, _ = fmt.Fprintln(n.w, n.title)
		n.title = ""
	}
}

// phase takes one event of an operation. The plan comes first and whole, so that
// a reader knows what is still to come (OB-003). A control plane may tell the
// same state again at every hop; it is printed once.
func (n *narrator) phase(p client.Phase) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.N > 0 && !n.told {
		n.plan = append(n.plan, p)
		if p.N >= p.Of {
			n.flush()
		}
		return
	}
	n.event(p)
}

// flush prints the plan and what has come of it so far.
func (n *narrator) flush() {
	if len(n.plan) == 0 {
		return
	}
	var names []string
	for _, p := range n.plan {
		n.seen[p.N] = client.Phase{N: p.N, Of: p.Of, Name: p.Name, State: "planned"}
		names = append(names, fmt.Sprintf("%d %s", p.N, line(p.Name)))
	}
	n.printf("  plan: %s\n", strings.Join(names, ", "))
	n.told = true
	for _, p := range n.plan {
		n.event(p)
	}
	n.plan = nil
}

func rank(state string) int {
	switch state {
	case "planned":
		return 0
	case "started":
		return 1
	}
	return 2
}

func (n *narrator) event(p client.Phase) {
	if p.N > 0 {
		was, known := n.seen[p.N]
		if known && (rank(p.State) < rank(was.State) || p.State == was.State && (p.Note == was.Note || rank(p.State) == 2)) {
			return
		}
		if p.State == "skipped" && n.before(p.N) {
			if !known || was.State != "skipped" {
				n.seen[p.N] = p
				n.later = append(n.later, p)
			}
			return
		}
		n.seen[p.N] = p
	}
	n.print(p)
	if rank(p.State) == 2 {
		waiting := n.later
		n.later = nil
		for _, l := range waiting {
			if n.before(l.N) {
				n.later = append(n.later, l)
				continue
			}
			n.print(l)
		}
	}
}

// before reports whether a phase before the nth is not over yet: what is skipped
// is told in its turn.
func (n *narrator) before(nth int) bool {
	for i := 1; i < nth; i++ {
		if was, known := n.seen[i]; known && rank(was.State) < 2 {
			return true
		}
	}
	return false
}

func (n *narrator) print(p client.Phase) {
	note := ""
	if p.Note != "" {
		note = line(p.Note)
	}
	switch p.State {
	case "started":
		n.start(p, note)
	case "done", "failed":
		if !n.isOpen(p) {
			n.start(client.Phase{N: p.N, Of: p.Of, Name: p.Name, State: "started"}, "")
			n.since = n.last
		}
		n.printf("  %s: %s (%s)%s\n", label(p), p.State, span(n.took(p)), suffix(note))
		n.open = nil
	case "skipped":
		if note == "" {
			note = "not needed"
		}
		n.printf("  %s: skipped (%s)\n", label(p), note)
		if n.isOpen(p) {
			n.open = nil
		}
	}
}

// quietly opens a phase without a line: it is told of only when it takes long.
func (n *narrator) quietly(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open, n.since = &client.Phase{Name: name, State: "started"}, n.now()
}

func (n *narrator) start(p client.Phase, note string) {
	if n.isOpen(p) {
		if note != "" && !n.live { // launch internals continue the phase (OB-010)
			n.printf("      %s\n", note)
		}
		n.open.Note = p.Note
		n.paint()
		return
	}
	n.open, n.since = &p, n.now()
	if n.live {
		n.paint()
		return
	}
	n.printf("  %s …%s\n", label(p), suffix(note))
}

func (n *narrator) isOpen(p client.Phase) bool {
	return n.open != nil && n.open.N == p.N && n.open.Name == p.Name
}

func label(p client.Phase) string {
	if p.N > 0 {
		return fmt.Sprintf("%d/%d %s", p.N, max(p.Of, p.N), line(p.Name))
	}
	return line(p.Name)
}

func suffix(note string) string {
	if note == "" {
		return ""
	}
	return " – " + note
}

// took measures a phase by the control plane's clock where it knows both ends: a
// phase begins when the one before it ended.
func (n *narrator) took(p client.Phase) time.Duration {
	began := n.edge
	if n.open.At.After(began) {
		began = n.open.At
	}
	d := n.now().Sub(n.since)
	if !began.IsZero() && !p.At.IsZero() {
		d = p.At.Sub(began)
	}
	if p.At.After(n.edge) {
		n.edge = p.At
	}
	return d
}

// paint redraws the open phase on a terminal with its live counter (OB-005).
func (n *narrator) paint() {
	if !n.live || n.open == nil {
		return
	}
	s := fmt.Sprintf("  %s … %s", label(*n.open), elapsed(n.now().Sub(n.since)))
	if n.open.Note != "" {
		s += " – " + line(n.open.Note)
	}
	n.heading()
	_, _ = io.WriteString(n.w, "\r\x1b[2K"+cutTo(s, max(n.width()-1, 20)))
	n.painted = true
}

// beat is called at every sign of life of the control plane, so that the lines
// it prints stop when the plane does (OB-006, OB-007).
func (n *narrator) beat() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flush()
	if n.live {
		n.paint()
		return
	}
	// A heartbeat comes every five seconds by the plane's clock; half a second of
	// slack keeps jitter from doubling the silence.
	if n.now().Sub(n.last) < names.StillRunning-500*time.Millisecond {
		return
	}
	what := "waiting"
	if n.open != nil {
		what = line(n.open.Name) + ", " + elapsed(n.now().Sub(n.since))
	}
	n.printf("      still running (%s)\n", what)
}

// run repaints a terminal's counter every second until stop is called.
func (n *narrator) run() (stop func()) {
	if !n.live {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				n.mu.Lock()
				n.paint()
				n.mu.Unlock()
			}
		}
	}()
	return func() { close(quit); <-gone }
}

// end closes a phase that the operation left open. Only a command that failed
// marks it so (OB-009); one that stopped following leaves it running.
func (n *narrator) end(failed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flush()
	switch {
	case n.open == nil:
	case failed:
		n.printf("  %s: failed\n", label(*n.open))
	case n.painted:
		n.printf("  %s: still running\n", label(*n.open))
	}
	n.open = nil
}

// elapsed counts whole seconds, so that a counter does not flicker.
func elapsed(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	return span(d.Truncate(time.Second))
}
