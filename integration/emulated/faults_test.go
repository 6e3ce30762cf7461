package emulated_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
)

// weather is what happens to requests on their way to a service: of each kind of
// request some are refused before they are served, and the answers of some are lost
// after they were.
type weather struct {
	mu    sync.Mutex
	up    bool           // guarded by mu: it has begun
	asked map[string]int // by kind; guarded by mu
	bad   map[string]int // by kind and what happened; guarded by mu
}

// kinds are the ways in which a request goes wrong.
const (
	slowed = "throttled"
	broken = "broken"
	lost   = "answer lost"
)

// next says what becomes of a request: of a kind's first five, one is throttled, one
// meets an error of the server, and the answer to one is lost; and so again after
// two dozen.
func (w *weather) next(kind string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.up {
		return ""
	}
	n := w.asked[kind]
	w.asked[kind]++
	what := map[int]string{0: slowed, 2: lost, 4: broken}[n%24]
	if what != "" {
		w.bad[kind+" "+what]++
	}
	return what
}

func (w *weather) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = true
}

func (w *weather) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.bad))
}

// kindOf names a request as its service does.
func kindOf(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target
	}
	return "S3." + r.Method
}

func (w *weather) between(services http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		kind := kindOf(r)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		xml := strings.HasPrefix(kind, "S3.")
		refuse := func(status int, code string) {
			if xml {
				out.WriteHeader(status)
				fmt.Fprintf(out, "<Error><Code>%s</Code></Error>", code)
				return
			}
			out.Header().Set("Content-Type", "application/x-amz-json-1.0")
			out.WriteHeader(status)
			fmt.Fprintf(out, `{"__type":%q,"message":"m"}`, code)
		}
		switch w.next(kind) {
		case slowed:
			if xml {
				refuse(http.StatusServiceUnavailable, "SlowDown")
			} else {
				refuse(http.StatusBadRequest, "ThrottlingException")
			}
		case broken:
			refuse(http.StatusInternalServerError, "InternalServerError")
		case lost:
			services.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler) // cuts the connection
		default:
			services.ServeHTTP(out, r)
		}
	})
}

// patient is an agent that asks again what was refused for the moment.
const patient = `echo "work of $LAZY_TASK_CODE" >> "$LAZY_TASK_CODE.txt"
for n in 1 2 3 4 5 6 7 8 9; do
  lazy-agent call lazy_commit '{"message":"do the work"}' >/dev/null && break
  [ -z "$(git status --porcelain)" ] && break
  sleep 0.2
done
for n in 1 2 3 4 5 6 7 8 9; do
  lazy-agent call lazy_final '{"note":"done"}' >/dev/null && break
  sleep 0.2
done
`

// Every service is throttled, broken and loses answers now and then, again and
// again: the job ends as it does in fair weather, and nothing was done twice.
func TestServicesThatFailNowAndThenLoseNothingAndDoNothingTwice(t *testing.T) {
	req.Covers(t, "P11", "P4", "SY-045")
	w := &weather{asked: map[string]int{}, bad: map[string]int{}}
	root := repository(t, patient)
	s, _ := emulate(t, root, func(o *emulated.Options) { o.Between = w.between })
	w.begin()
	d := hosted(t, s, root)
	d.patient = true
	// A text this long goes to storage.
	d.call("createTask", map[string]any{"goal": "Do the work", "prompt": strings.Repeat("please ", 4000), "code": "plain"})
	d.call("startTask", map[string]any{"task_id": "plain"})
	if got := d.rest("plain"); got["status"] != "blocked" {
		t.Fatalf("after its turn it is %v", got)
	}
	var out struct {
		Operation string `json:"operation_id"`
	}
	err := d.ask("acceptTask", map[string]any{"task_id": "plain"}, &out)
	if err == nil {
		err = d.follow(out.Operation, nil)
	}
	// It may be told that the clean-up is still tried; the merge is made all the same.
	if err != nil && !strings.Contains(err.Error(), "tried again until it succeeds") {
		t.Fatal(err)
	}
	tid, _ := d.call("showTask", map[string]any{"task_id": "plain"})["task_id"].(string)
	d.rested(dynamo.New(s.Table, emulated.Table), []id.Task{id.Task(tid)})
	if got := d.call("showTask", map[string]any{"task_id": "plain"}); got["status"] != "complete" {
		t.Errorf("in the end it is %v", got["status"])
	}
	if refs := fmt.Sprint(d.call("listBranches", map[string]any{})["branches"]); strings.Count(refs, "name:") != 1 || !strings.Contains(refs, "name:main") {
		t.Errorf("the branches are %s", refs)
	}
	d.pull(t)
	if n := git(t, root, "rev-list", "--count", "--first-parent", "main"); n != "2" {
		t.Errorf("main has %s commits, want the first and one merge", n)
	}
	if got := git(t, root, "show", "main:plain.txt"); got != "work of plain" {
		t.Errorf("the work is %q", got)
	}
	for flow, want := range map[string]int{names.MachineTurn: 1, names.MachineAccept: 1, names.MachineRecovery: 0} {
		if all, err := s.Executions(t.Context(), flow); err != nil || len(all) != want {
			t.Errorf("flow %s ran %d times, want %d: %v, %v", flow, len(all), want, all, err)
		}
	}
	runs, err := filepath.Glob(filepath.Join(s.State(), "runs", "*", "*", spool.StartFile))
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs were launched, want the turn's and the accept's broker: %v", len(runs), err)
	}
	t.Logf("%d kinds of failures: %s", len(w.seen()), strings.Join(w.seen(), ", "))
	for _, want := range []string{
		"DynamoDB_20120810.GetItem " + lost, "DynamoDB_20120810.TransactWriteItems " + slowed, "DynamoDB_20120810.TransactWriteItems " + broken,
		"DynamoDB_20120810.TransactWriteItems " + lost, "DynamoDB_20120810.PutItem " + lost, "AWSStepFunctions.StartExecution " + slowed,
		"AWSStepFunctions.SendTaskSuccess " + slowed, "TrentService.Decrypt " + slowed, "S3.PUT " + slowed,
	} {
		if !slices.Contains(w.seen(), want) {
			t.Errorf("no request was: %s", want)
		}
	}
}
