package local_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FLOW_DIR"); dir != "" {
		if err := child(dir, os.Getenv("FLOW_KILL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashing is a definition with everything a crash may fall into: plain steps, a
// loop, a token answered while its step runs, one answered later, and an error
// that is caught.
const crashing = `{"StartAt":"First","States":{
"First":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":60,
 "Parameters":{"FunctionName":"f","Payload":{"step":"first.v1","at.$":"$$.State.EnteredTime"}},
 "ResultSelector":{"out.$":"$.Payload"},"ResultPath":"$.first","Next":"Again"},
"Again":{"Type":"Choice","Choices":[{"Variable":"$.first.out.again","BooleanEquals":true,"Next":"First"}],"Default":"Early"},
"Early":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":60,
 "Parameters":{"FunctionName":"f","Payload":{"step":"early.v1","at.$":"$$.State.EnteredTime","token.$":"$$.Task.Token"}},
 "ResultPath":"$.early","Next":"Late"},
"Late":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke.waitForTaskToken","TimeoutSeconds":60,
 "Parameters":{"FunctionName":"f","Payload":{"step":"late.v1","at.$":"$$.State.EnteredTime","token.$":"$$.Task.Token"}},
 "ResultPath":"$.late","Next":"Refused"},
"Refused":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":60,
 "Parameters":{"FunctionName":"f","Payload":{"step":"refused.v1","at.$":"$$.State.EnteredTime"}},
 "Catch":[{"ErrorEquals":["Lazy.internal"],"ResultPath":"$.error","Next":"Last"}],"Next":"Lost"},
"Lost":{"Type":"Fail","Error":"Lost"},
"Last":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke","TimeoutSeconds":60,
 "Parameters":{"FunctionName":"f","Payload":{"step":"last.v1","at.$":"$$.State.EnteredTime","name.$":"$.error.Error"}},
 "ResultPath":null,"Next":"Done"},
"Done":{"Type":"Succeed"}}}`

// child runs one execution of crashing to its end, and keeps in a file which
// steps were called. With kill=n it dies at the nth crash point of the engine.
func child(dir, kill string) error {
	ctx := context.Background()
	left, err := strconv.Atoi(kill)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"), time.Now)
	if err != nil {
		return err
	}
	m, err := asl.Load("crashing", []byte(crashing), nil)
	if err != nil {
		return err
	}
	ended := make(chan engine.Execution, 1)
	var points atomic.Int64
	w := &walker{log: log}
	e, err := local.New(local.Options{
		Store: s, Tenant: "t1", Machines: []*asl.Machine{m}, Step: w.step,
		Now: time.Now, NewToken: uuid.NewString,
		Closed: func(x engine.Execution) { ended <- x },
		CrashPoint: func(string) {
			if points.Add(1) == int64(left) {
				if me, err := os.FindProcess(os.Getpid()); err == nil {
					err = me.Kill()
					fmt.Fprintln(os.Stderr, "killing myself", err)
				}
				select {}
			}
		},
	})
	if err != nil {
		return err
	}
	w.e = e
	if err := e.Start(ctx, "crashing", "x-1", []byte(`{}`)); err != nil && !errors.Is(err, engine.ErrNameUsed) {
		return err
	}
	run := make(chan error, 1)
	go func() { run <- e.Run(ctx) }()
	// A token handed out before the kill is answered like any other: that is what
	// the outbox of the real steps does.
	if err := w.answerOld(ctx, dir); err != nil {
		return err
	}
	x, err := e.Describe(ctx, "crashing", "x-1")
	if err != nil {
		return err
	}
	if x.State == engine.Running {
		x = <-ended
	}
	visited, err := e.Visited(ctx, "crashing", "x-1")
	if err != nil {
		return err
	}
	fmt.Println("state", x.State)
	fmt.Println("output", string(x.Output))
	fmt.Println("visited", strings.Join(visited, " "))
	fmt.Println("points", points.Load())
	if err := e.Close(); err != nil {
		return err
	}
	return errors.Join(<-run, s.Close())
}

// walker is the step function of the child.
type walker struct {
	log *os.File
	e   engine.Engine
}

func (w *walker) step(ctx context.Context, payload []byte) ([]byte, error) {
	var p struct{ Step, At, Token, Name string }
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	calls, err := os.ReadFile(w.log.Name())
	if err != nil {
		return nil, err
	}
	visits := map[string]bool{}
	for line := range strings.Lines(string(calls)) {
		if f := strings.Fields(line); f[0] == "first.v1" {
			visits[f[1]] = true
		}
	}
	if _, err := fmt.Fprintln(w.log, p.Step, p.At, p.Token); err != nil {
		return nil, err
	}
	switch p.Step {
	case "first.v1":
		visits[p.At] = true
		return fmt.Appendf(nil, `{"again":%t}`, len(visits) < 2), nil
	case "early.v1":
		return nil, w.e.Succeed(ctx, p.Token, []byte(`"early"`))
	case "late.v1":
		ctx := context.WithoutCancel(ctx)
		go func() {
			if err := w.e.Succeed(ctx, p.Token, []byte(`"late"`)); err != nil && !errors.Is(err, engine.ErrTokenGone) {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
	case "refused.v1":
		return nil, errors.New("refused")
	case "last.v1":
		if p.Name != "Lazy.internal" {
			return nil, fmt.Errorf("the error was called %q", p.Name)
		}
	}
	return []byte("{}"), nil
}

func (w *walker) answerOld(ctx context.Context, dir string) error {
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(calls)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		text := strings.TrimSuffix(f[0], ".v1")
		if err := w.e.Succeed(ctx, f[2], []byte(strconv.Quote(text))); err != nil && !errors.Is(err, engine.ErrTokenGone) {
			return err
		}
	}
	return nil
}

// spawn runs a child; killed reports that it died as it was told to.
func spawn(t *testing.T, dir string, kill int) (said map[string]string, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	// The race detector otherwise waits a second at the end of every child.
	cmd.Env = append(os.Environ(), "FLOW_DIR="+dir, "FLOW_KILL="+strconv.Itoa(kill), "GORACE=atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	said = map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		said[key] = value
	}
	switch {
	case err == nil:
		return said, false
	case kill > 0 && strings.Contains(err.Error(), "killed"):
		return said, true
	}
	t.Fatalf("the child ended with %v: %s", err, stderr.String())
	return nil, false
}

func TestAfterAKillEveryOpenExecutionContinuesFromItsLastState(t *testing.T) {
	req.Covers(t, "SY-040", "SY-038")
	said, _ := spawn(t, t.TempDir(), 0)
	n, err := strconv.Atoi(said["points"])
	if err != nil || n < 16 {
		t.Fatalf("a run without a kill says %v", said)
	}
	t.Logf("%d crash points", n)
	for _, second := range []int{0, 1, 2} {
		died := 0
		for first := 1; first <= n; first++ {
			dir := t.TempDir()
			if _, killed := spawn(t, dir, first); !killed {
				continue
			}
			died++
			if second > 0 {
				spawn(t, dir, second)
			}
			after, _ := spawn(t, dir, 0)
			check(t, dir, fmt.Sprintf("killed at %d and %d", first, second), after)
		}
		// An answer that comes while its step still runs takes one transition more,
		// so the last point is not there in every run.
		if died < n-2 {
			t.Errorf("only %d of %d crash points were reached", died, n)
		}
	}
}

func check(t *testing.T, dir, when string, said map[string]string) {
	t.Helper()
	want := map[string]string{
		"state":   "SUCCEEDED",
		"visited": "First Again First Again Early Late Refused Last Done",
	}
	for key, value := range want {
		if said[key] != value {
			t.Errorf("%s: its %s is %q, want %q", when, key, said[key], value)
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	// A call may be repeated, but it is the same call: of the same visit, with the
	// same token, and before any later one. A lost start would show as a third visit
	// of First.
	var distinct, steps []string
	for line := range strings.Lines(string(calls)) {
		if len(distinct) == 0 || distinct[len(distinct)-1] != line {
			distinct = append(distinct, line)
			steps = append(steps, strings.Fields(line)[0])
		}
	}
	if diff := cmp.Diff(strings.Fields("first.v1 first.v1 early.v1 late.v1 refused.v1 last.v1"), steps); diff != "" {
		t.Errorf("%s: steps called (-want +got):\n%s\n%s", when, diff, calls)
	}
}
