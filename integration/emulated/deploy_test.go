package emulated_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
	"github.com/lazyplane/lazyplane/statemachines"
)

// gated is an agent that says that it has begun, and goes on when it is told to.
const gated = `set -e
echo $$ >begun
while [ ! -e go ]; do sleep 0.1; done
rm begun go
echo "work of $LAZY_TASK_CODE" >> "$LAZY_TASK_CODE.txt"
lazy-agent call lazy_commit '{"message":"do the work"}' >/dev/null
lazy-agent call lazy_final '{"note":"done"}' >/dev/null
`

// put makes the programs in dir those of from, as a deployment does: what is under
// way keeps the file it was started from.
func put(t *testing.T, from, dir string) {
	t.Helper()
	for _, name := range append(names.Surfaces(), names.AgentBinary) {
		next := filepath.Join(dir, name+".next")
		if err := os.Link(filepath.Join(from, name), next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// deployment is a stack whose code and definitions change while it runs.
type deployment struct {
	*world
	s   *emulated.Stack
	log *book
	db  store.Store
}

func (d *deployment) functions(bin string) {
	for _, f := range names.Surfaces() {
		d.s.Deploy(f, filepath.Join(bin, f))
	}
}

// run returns the row of a task's first run, as it is stored.
func (d *deployment) run(code string) string {
	d.t.Helper()
	tid, _ := d.call("showTask", map[string]any{"task_id": code})["task_id"].(string)
	it, err := d.db.Get(d.t.Context(), store.For(tenant).Task(id.Task(tid)).Run(1))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(it.Doc)
}

// entry is a line of the functions' log.
type entry struct {
	Msg, Surface, Command, Step, Code string
	Status                            int
}

func (d *deployment) entries(want func(entry) bool) (n int) {
	for line := range strings.Lines(d.log.String()) {
		var e entry
		if json.Unmarshal([]byte(line), &e) == nil && want(e) {
			n++
		}
	}
	return n
}

func misunderstood(e entry) bool { return e.Status == http.StatusBadRequest }

// beaten waits for three beats that were heard: the first may have been on its way
// to the version before.
func (d *deployment) beaten() {
	d.t.Helper()
	heard := func(e entry) bool { return e.Surface == "runner" && e.Command == "beat" && e.Status == http.StatusOK }
	for before := d.entries(heard); d.entries(heard) < before+3; {
		if d.entries(misunderstood) > 0 {
			d.t.Fatal("a beat was not understood")
		}
		d.pause()
	}
}

// logged waits until a step was logged with a code, "" for none.
func (d *deployment) logged(step, code string) {
	d.t.Helper()
	for d.entries(func(e entry) bool { return e.Msg == "step" && e.Step == step && e.Code == code }) == 0 {
		d.pause()
	}
}

// Code and definitions change in the middle of turns, forward and back again, and
// for a while only half of them. The later version adds a field to every record and
// word of a turn and calls another version of a step; nothing is lost, refused or
// done twice.
func TestADeployAndTheWayBackInTheMiddleOfTurnsBreakNothing(t *testing.T) {
	req.Covers(t, "SY-042", "CR-017", "P7")
	source, err := statemachines.Source(names.MachineTurn)
	if err != nil {
		t.Fatal(err)
	}
	next, err := laterDefinition(source)
	if err != nil {
		t.Fatal(err)
	}
	here, there := programs(t), later(t)
	bin := t.TempDir()
	put(t, here, bin)
	root := repository(t, gated)
	s, log := emulate(t, root, func(o *emulated.Options) { o.Bin = bin })
	for _, f := range names.Surfaces() { // the folder's own programs change
		s.Deploy(f, filepath.Join(here, f))
	}
	d := &deployment{
		world: hosted(t, s, root),
		s:     s, log: log, db: dynamo.New(s.Table, emulated.Table),
	}
	define := func(src []byte) {
		if err := s.Redefine(t.Context(), names.MachineTurn, src); err != nil {
			t.Fatal(err)
		}
	}

	d.begin("forward")
	d.begun("forward")

	// Half a deployment: the definition is there, and the code that knows its step
	// is not.
	define(next)
	d.call("createTask", map[string]any{"goal": "Do the work", "prompt": "please", "code": "back"})
	if err := d.c.Call(t.Context(), "startTask", map[string]any{"task_id": "back"}, nil); err != nil {
		t.Fatal(err) // it is answered before it runs, which it cannot yet
	}
	d.logged(laterStep, "unavailable")

	// The other half. The first supervisor is of the version before, the second of
	// the later one.
	put(t, there, bin)
	d.functions(there)
	d.begun("back")
	d.logged(laterStep, "")
	if got := d.run("back"); !strings.Contains(got, laterMark) {
		t.Errorf("the later version wrote %s", got)
	}
	d.goOn("forward")
	d.finish("forward")

	// And back: what the later version wrote, and its supervisor says, meets the one
	// before, which wrote neither.
	define(source)
	put(t, here, bin)
	d.functions(here)
	d.beaten() // between two beats of its turn the version changed
	d.goOn("back")
	d.finish("back")

	if got := d.run("back"); strings.Contains(got, laterMark) {
		t.Errorf("the version before wrote %s", got)
	}
	if n := d.entries(misunderstood); n != 0 {
		t.Errorf("%d requests were not understood", n)
	}
	if n := git(t, root, "rev-list", "--count", "--first-parent", "main"); n != "3" {
		t.Errorf("main has %s commits, want the first and two merges", n)
	}
	for flow, want := range map[string]int{names.MachineTurn: 2, names.MachineAccept: 2, names.MachineRecovery: 0} {
		all, err := s.Executions(t.Context(), flow)
		if err != nil || len(all) != want {
			t.Errorf("flow %s ran %d times, want %d: %v, %v", flow, len(all), want, all, err)
		}
	}
	runs, err := filepath.Glob(filepath.Join(s.State(), "runs", "*", "*", spool.StartFile))
	if err != nil || len(runs) != 4 {
		t.Errorf("%d runs were launched, want one for each turn and each accept: %v", len(runs), err)
	}
}
