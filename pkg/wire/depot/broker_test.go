package depot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	enginelocal "github.com/lazyplane/lazyplane/pkg/engine/local"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/runnerapi"
	"github.com/lazyplane/lazyplane/pkg/step"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/supervisor"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/statemachines"
)

// acceptor is a control plane whose accepts run by the shipped definition, with
// brokers that are started by it and reach it over HTTP.
type acceptor struct {
	*rig
	engine *enginelocal.Engine
	step   func(context.Context, []byte) ([]byte, error)
	url    string
	dir    string
	// unswept leaves everything to events.
	unswept bool

	mu       sync.Mutex
	at       func(epoch int64, point string)              // guarded by mu: called at each named point of a broker
	between  func(op string, serve http.HandlerFunc) bool // guarded by mu: whether it has answered
	launched []int64                                      // guarded by mu: epochs
	over     map[string]bool                              // guarded by mu: references of brokers that are gone
	running  sync.WaitGroup
}

var _ runner.Runner = (*acceptor)(nil)

// counted counts what writes cost on DynamoDB, without the indexes: a unit for each
// begun kilobyte of an item, twice that in a transaction of several.
type counted struct {
	store.Store
	mu    sync.Mutex
	units int // guarded by mu
}

func (c *counted) Transact(ctx context.Context, ws ...store.Write) error {
	err := c.Store.Transact(ctx, ws...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range ws {
		n := 1 + len(w.Item.Doc)>>10
		if len(ws) > 1 {
			n *= 2
		}
		c.units += n
	}
	return err
}

func (c *counted) taken() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, c.units = c.units, 0
	return n
}

func newAcceptor(t *testing.T) *acceptor {
	t.Helper()
	a := &acceptor{rig: newRig(t), dir: t.TempDir(), over: map[string]bool{}, at: func(int64, string) {}}
	a.App.Runner, a.App.After = a, time.After
	log := slog.New(slog.DiscardHandler)
	api := runnerapi.New(runnerapi.Config{
		Base: edge.Base{Log: log, Now: time.Now, NewID: a.IDs.New, Hop: names.HopHosted}, Auth: a.App, Runs: a.App,
	})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		between := a.between
		a.mu.Unlock()
		if between == nil || !between(strings.TrimPrefix(r.URL.Path, "/runner/"), func(w http.ResponseWriter, _ *http.Request) { api.ServeHTTP(w, r) }) {
			api.ServeHTTP(w, r)
		}
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	a.url = srv.URL
	var ms []*asl.Machine
	for _, name := range statemachines.Names() {
		src, err := statemachines.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := asl.Load(name, src, map[string]string{"StepFunction": "step"})
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	a.step = step.Handler(a.App)
	n := 0
	var err error
	a.engine, err = enginelocal.New(enginelocal.Options{
		Store: a.db, Tenant: tenant, Machines: ms, Step: a.step, Now: time.Now, Log: log,
		NewToken: func() string { n++; return fmt.Sprintf("%032d", n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	a.App.Engine = a.engine
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var flows sync.WaitGroup
	flows.Go(func() { _ = a.engine.Run(ctx) })
	t.Cleanup(func() {
		a.running.Wait()
		stop()
		flows.Wait()
		_ = a.engine.Close()
	})
	return a
}

// watch sets what happens at the named points of brokers.
func (a *acceptor) watch(f func(epoch int64, point string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = f
}

func (a *acceptor) launches() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.launched)
}

// Launch starts a broker, once for a task and epoch.
func (a *acceptor) Launch(_ context.Context, s runner.Spec) (string, error) {
	if !s.Broker {
		return "", fault.New(fault.Internal, "an accept launches a supervisor")
	}
	ref := s.Task.Short() + "/" + fmt.Sprint(s.Epoch)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.over[ref]; there {
		return ref, nil
	}
	a.over[ref] = false
	a.launched = append(a.launched, s.Epoch)
	dir := filepath.Join(a.dir, ref)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	err := spool.Write(dir, spool.StartFile, spool.Start{
		Target: a.url, Nonce: s.Nonce, Tenant: s.Tenant, Project: s.Project, Task: s.Task, Turn: s.Turn, Epoch: s.Epoch,
	})
	if err != nil {
		return "", err
	}
	a.running.Go(func() {
		_, err := dies(func() error {
			return supervisor.Land(context.WithoutCancel(a.t.Context()), supervisor.Options{
				Dir: dir, Version: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler), Crash: func(point string) {
					a.mu.Lock()
					at := a.at
					a.mu.Unlock()
					at(s.Epoch, point)
				},
			})
		})
		a.gone(s.Task, s.Epoch, fmt.Sprint(err))
	})
	return ref, nil
}

// gone tells the control plane that a broker is gone, as the event of its container
// does.
func (a *acceptor) gone(tid id.Task, epoch int64, why string) {
	a.mu.Lock()
	a.over[tid.Short()+"/"+fmt.Sprint(epoch)] = true
	a.mu.Unlock()
	if err := a.RunnerGone(context.WithoutCancel(a.t.Context()), tenant, tid, epoch, runner.Report{Sight: runner.Gone, ExitCode: 137, Reason: why}); err != nil {
		a.t.Errorf("the end of broker %d is not heard: %v", epoch, err)
	}
}

func (a *acceptor) Find(_ context.Context, tid id.Task, epoch int64) (string, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ref := tid.Short() + "/" + fmt.Sprint(epoch)
	_, ok := a.over[ref]
	return ref, ok, nil
}

func (a *acceptor) Observe(_ context.Context, ref string) (runner.Report, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over[ref] {
		return runner.Report{Sight: runner.Gone, Reason: "it has ended"}, nil
	}
	return runner.Report{Sight: runner.Alive}, nil
}

func (a *acceptor) Stop(context.Context, string, string) error { return nil }

const opID = "019a5f00-0000-7000-8000-000000000001"

// accepted puts a task into the merge phase, as the request of an accept does, and
// orders its flow.
func (a *acceptor) accepted(k task.Task) task.Task {
	a.t.Helper()
	k.Epoch, k.Version, k.Claimed, k.Prior, k.Goal, k.Commits = 2, k.Version+1, true, task.Blocked, "Do the work", 1
	k.Accept.Operation, k.Accept.N, k.Accept.Step = opID, 1, "claimed"
	a.row(k)
	doc, err := json.Marshal(app.Op{ID: opID, Kind: "accept", Verb: "accept", Project: project, Task: k.ID, Epoch: k.Epoch})
	if err != nil {
		a.t.Fatal(err)
	}
	err = a.db.Transact(a.t.Context(), store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(tenant).Operation(opID), Doc: doc, Attr: store.Attr{store.AttrType: "operation", "schema": int64(1)},
	}})
	if err != nil {
		a.t.Fatal(err)
	}
	input := fmt.Appendf(nil, `{"v":1,"tenant":%q,"turn":%q,"n":1}`, tenant, opID)
	if err := a.engine.Start(a.t.Context(), names.MachineAccept, opID+"-1", input); err != nil {
		a.t.Fatal(err)
	}
	return k
}

// ended waits until the task has left the merge phase. Meanwhile it looks at the
// task as the sweep does, which makes up for events that are late.
func (a *acceptor) ended(k task.Task) task.Task {
	a.t.Helper()
	for {
		if !a.unswept {
			if err := a.FlowEnded(a.t.Context(), tenant, opID); err != nil && !fault.Retryable(err) {
				a.t.Fatal(err)
			}
		}
		now, _, err := a.LoadTask(a.t.Context(), tenant, k.ID)
		if err != nil {
			a.t.Fatal(err)
		}
		if now.Status != task.Merging && (now.Status != task.Complete || now.Workspace == nil) {
			return now
		}
		if now.Accept.GaveUp {
			a.t.Fatalf("the accept was given up: %s", now.Accept.Failure)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-a.t.Context().Done():
			a.t.Fatal("the test's time is over")
		}
	}
}

// merged holds the result of an accept against what it must be: one merge commit on
// what main was, and every commit of the task still there for who pulls it.
func (a *acceptor) merged(k, now task.Task, main string, files map[string]string) {
	a.t.Helper()
	if now.Status != task.Complete || now.Merge == "" || now.Merge != a.head("main") {
		a.t.Fatalf("it is %s with merge %s; main is at %s: %+v", now.Status, now.Merge, a.head("main"), now.Accept)
	}
	a.depot = a.another() // nothing but what is durable
	fresh := a.t.TempDir()
	a.run(fresh, "init", "-q", "-b", "none", ".")
	head := a.pulled(fresh, "main")
	if got := a.run(fresh, "show", "-s", "--format=%an <%ae> %P", head); got != "Ada <ada@example.com> "+main {
		a.t.Errorf("the merge is %q, want one on %s", got, main)
	}
	if n := a.run(fresh, "log", "--format=%H", "--grep", "Lazy-Task: "+string(k.ID), head); n != head {
		a.t.Errorf("the task was merged by %q", n)
	}
	for name, text := range files {
		if got := a.run(fresh, "show", head+":"+name); got != strings.TrimSpace(text) {
			a.t.Errorf("%s holds %q", name, got)
		}
	}
	if repo := a.container(); !repo.Has(a.t.Context(), k.Tip) {
		a.t.Error("the task's own commits went with its branch")
	}
}

func (a *acceptor) begin(files map[string]string) (k task.Task, main string) {
	a.t.Helper()
	main = a.rig.run(a.clone, "rev-parse", "HEAD")
	a.pushed("main", main, "")
	return a.worked(1, "main", main, files), main
}

func work() map[string]string { return map[string]string{"work.txt": "work\n"} }

// A broker is killed at each named point: the accept goes on with another one, and
// merges once.
func TestAnAcceptIsMergedOnceWhereverItsBrokerDies(t *testing.T) {
	req.Covers(t, "P4", "AP-018", "GT-023")
	for _, point := range []string{"self", "broker.hello", "broker.gathered", "broker.made", "broker.put", "broker.stored", "broker.told"} {
		t.Run(point, func(t *testing.T) {
			a := newAcceptor(t)
			k, main := a.begin(work())
			var died sync.Once
			a.watch(func(_ int64, at string) {
				if at == point {
					died.Do(func() { panic(death{at}) })
				}
			})
			a.merged(k, a.ended(a.accepted(k)), main, work())
			want := []int64{2, 3}
			if point == "broker.told" {
				want = []int64{2}
			}
			if got := a.launches(); !slices.Equal(got, want) {
				t.Errorf("brokers were launched in epochs %v, want %v", got, want)
			}
		})
	}
}

// The function that lands dies, or its answer is lost: the broker says it again.
func TestALandingWhoseAnswerIsLostIsFoundDone(t *testing.T) {
	for _, op := range []string{"hello", "upload", "land"} {
		t.Run("lost answer to "+op, func(t *testing.T) {
			a := newAcceptor(t)
			var lost sync.Once
			a.between = func(got string, serve http.HandlerFunc) bool {
				if got == op {
					lost.Do(func() {
						serve(httptest.NewRecorder(), nil)
						panic(http.ErrAbortHandler)
					})
				}
				return false
			}
			k, main := a.begin(work())
			a.merged(k, a.ended(a.accepted(k)), main, work())
			if got := a.launches(); len(got) != 1 {
				t.Errorf("brokers were launched in epochs %v, want one", got)
			}
		})
	}
	for _, point := range []string{"depot.recorded", "depot.land.before", "depot.land.after"} {
		t.Run("death at "+point, func(t *testing.T) {
			a := newAcceptor(t)
			k, main := a.begin(work())
			var died sync.Once
			a.crash = func(at string) {
				if at == point {
					died.Do(func() { panic(http.ErrAbortHandler) })
				}
			}
			a.merged(k, a.ended(a.accepted(k)), main, work())
			if got := a.launches(); len(got) != 1 {
				t.Errorf("brokers were launched in epochs %v, want one", got)
			}
		})
	}
}

func TestATargetThatMovesUnderABrokerIsMergedOntoAnew(t *testing.T) {
	req.Covers(t, "AP-010")
	a := newAcceptor(t)
	k, main := a.begin(work())
	a.rig.run(a.clone, "checkout", "-q", "--detach", main)
	second := a.commit("other.txt", "other\n")
	var moved sync.Once
	a.watch(func(_ int64, at string) {
		if at == "broker.stored" {
			moved.Do(func() { a.pushed("main", second, main, main) })
		}
	})
	a.merged(k, a.ended(a.accepted(k)), second, map[string]string{"work.txt": "work", "other.txt": "other"})
	if got := a.launches(); len(got) != 1 {
		t.Errorf("brokers were launched in epochs %v, want one", got)
	}
}

func TestAConflictThatABrokerFindsGivesThePriorStatusBack(t *testing.T) {
	req.Covers(t, "AP-022", "SM-030")
	a := newAcceptor(t)
	k, main := a.begin(map[string]string{"README": "mine\n"})
	a.rig.run(a.clone, "checkout", "-q", "--detach", main)
	second := a.commit("README", "theirs\n")
	a.pushed("main", second, main, main)
	now := a.ended(a.accepted(k))
	if now.Status != task.Blocked || now.Claimed || !strings.Contains(now.Accept.Failure, "README") || a.head("main") != second {
		t.Errorf("it is %s: %+v; main is at %s", now.Status, now.Accept, a.head("main"))
	}
	if got := a.launches(); len(got) != 1 || now.Comments != 1 {
		t.Errorf("brokers were launched in epochs %v, and %d comments say why", got, now.Comments)
	}
}

// A broker that is taken for gone, and is not, changes nothing once another one has
// taken its place.
func TestABrokerThatWasSucceededMovesNothing(t *testing.T) {
	req.Covers(t, "P7")
	a := newAcceptor(t)
	k, main := a.begin(work())
	frozen, thaw := make(chan struct{}), make(chan struct{})
	a.watch(func(epoch int64, at string) {
		if epoch == 2 && at == "broker.stored" {
			close(frozen)
			<-thaw
		}
	})
	k = a.accepted(k)
	<-frozen
	a.gone(k.ID, 2, "it is taken for gone")
	now := a.ended(k)
	close(thaw)
	a.running.Wait()
	a.merged(k, now, main, work())
	if got := a.launches(); !slices.Equal(got, []int64{2, 3}) {
		t.Errorf("brokers were launched in epochs %v", got)
	}
	_, err := a.Land(t.Context(), a.broker(k, 2), turn.LandIn{Turn: opID, Epoch: 2, Head: main})
	if err == nil {
		t.Error("a broker that was succeeded is heard")
	}
}

func (a *acceptor) broker(k task.Task, epoch int64) identity.Caller {
	return identity.Caller{Kind: identity.Runner, Tenant: tenant, Project: project, Subject: string(k.ID), Turn: opID, Epoch: epoch}
}

// Whoever launches twice launches one; the token of the later visit is the one that
// is answered.
func TestTwoLaunchesOfABrokerAreOne(t *testing.T) {
	req.Covers(t, "P11")
	a := newAcceptor(t)
	k, main := a.begin(work())
	ready, on := make(chan struct{}), make(chan struct{})
	a.watch(func(_ int64, at string) {
		if at == "broker.hello" {
			close(ready)
			<-on
		}
	})
	k = a.accepted(k)
	<-ready
	it, err := a.db.Get(t.Context(), store.For(tenant).Task(k.ID).Run(2))
	if err != nil {
		t.Fatal(err)
	}
	var r turn.Run
	if err := json.Unmarshal(it.Doc, &r); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := a.step(t.Context(), fmt.Appendf(nil, `{"step":%q,"v":1,"tenant":%q,"turn":%q,"n":1,"token":%q}`, names.StepBroker, tenant, opID, r.Token))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(on)
	a.merged(k, a.ended(k), main, work())
	if got := a.launches(); len(got) != 1 {
		t.Errorf("brokers were launched in epochs %v, want one", got)
	}
}

// The credential of a broker is for one merge, and that of a turn's run is for none.
func TestABrokersCredentialIsForItsMergeAlone(t *testing.T) {
	req.Covers(t, "P6")
	a := newAcceptor(t)
	k, main := a.begin(work())
	other := a.worked(2, "main", main, map[string]string{"x": "x\n"})
	asked := make(chan struct{})
	done := make(chan struct{})
	a.watch(func(_ int64, at string) {
		if at == "broker.hello" {
			close(asked)
			<-done
		}
	})
	k = a.accepted(k)
	<-asked
	ctx, who := t.Context(), a.broker(k, 2)
	stranger := who
	stranger.Turn = "019a5f00-0000-7000-8000-000000000009"
	sum := make([]byte, 32)
	land := turn.PackLand + "/" + main
	before := a.bucket.keys("")
	for name, try := range map[string]func() error{
		"report": func() error {
			_, err := a.Report(ctx, who, turn.Response{Turn: opID, Epoch: 2, Outcome: "ok"})
			return err
		},
		"git": func() error { _, err := a.Git(ctx, who, turn.GitIn{Op: "merge", Target: main}); return err },
		"task's token": func() error {
			_, err := a.Token(ctx, who, turn.TokenIn{Turn: opID, Epoch: 2})
			return err
		},
		"checkpoint": func() error {
			_, err := a.Upload(ctx, who, turn.UploadIn{Put: []turn.Parcel{{Name: turn.ObjectName(2, 1, "x"), Size: 1, SHA256: sum}}})
			return err
		},
		"pointer": func() error {
			_, err := a.Upload(ctx, who, turn.UploadIn{Point: &turn.Checkpoint{Epoch: 2, Seq: 1}})
			return err
		},
		"another task's commits": func() error {
			_, err := a.Upload(ctx, who, turn.UploadIn{Get: []string{turn.ObjectName(1, 1, "bundle")}, Of: other.ID})
			return err
		},
		"a pack by a turn's run": func() error {
			_, err := a.Upload(ctx, stranger, turn.UploadIn{PutPacks: []turn.Parcel{{Name: land, Size: 1, SHA256: sum}}})
			return err
		},
		"a merge by a turn's run": func() error {
			_, err := a.Land(ctx, stranger, turn.LandIn{Turn: stranger.Turn, Epoch: 2, Head: main})
			return err
		},
	} {
		if err := try(); fault.KindOf(err) != fault.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range map[string]turn.LandIn{
		"no commit":      {Head: main},
		"no pack":        {Head: main, Commit: main, Tree: main},
		"another's pack": {Head: main, Commit: main, Tree: main, Packs: []turn.Pack{{Name: land, Commit: main}, {Name: "kept/" + main, Commit: main}}},
	} {
		in.Turn, in.Epoch = opID, 2
		if _, err := a.Land(ctx, who, in); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Upload(ctx, who, turn.UploadIn{PutPacks: []turn.Parcel{{Name: "push/" + main, Size: 1, SHA256: sum}}}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("the pack of a push: %v", err)
	}
	if got, _, err := a.LoadTask(ctx, tenant, k.ID); err != nil || got.Version != k.Version || a.head("main") != main || len(a.bucket.keys("")) != len(before) {
		t.Errorf("what was refused has written: %+v, %v", got, err)
	}
	close(done)
	a.merged(k, a.ended(k), main, work())
	text, err := os.ReadDir(filepath.Join(a.dir, k.ID.Short(), "2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range text {
		b, err := os.ReadFile(filepath.Join(a.dir, k.ID.Short(), "2", f.Name()))
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "canary-of-the-repository") || strings.Contains(string(b), "lzy_runner") {
			t.Errorf("%s is left behind with what it should not hold", f.Name())
		}
	}
}

// A subtask goes into its parent's branch, whose commits no pack has, and the
// broker reads them from the parent's vault.
func TestABrokerMergesASubtaskIntoItsParent(t *testing.T) {
	a := newAcceptor(t)
	main := a.rig.run(a.clone, "rev-parse", "HEAD")
	a.pushed("main", main, "")
	parent := a.worked(1, "main", main, map[string]string{"p.txt": "parent\n"})
	parent.Status, parent.Version, parent.Accept, parent.Commits = task.Blocked, 2, nil, 1
	a.row(parent)
	child := a.worked(2, parent.Branch, parent.Tip, map[string]string{"c.txt": "child\n"})
	child.Parent = parent.ID
	now := a.ended(a.accepted(child))
	p, _, err := a.LoadTask(t.Context(), tenant, parent.ID)
	if err != nil || now.Status != task.Complete || p.Tip != now.Merge || a.head("main") != main {
		t.Fatalf("the subtask is %s with merge %s, the parent at %s: %v", now.Status, now.Merge, p.Tip, err)
	}
	if repo := a.container(); !repo.Has(t.Context(), now.Merge) || !repo.Has(t.Context(), child.Tip) {
		t.Error("the parent's next container lacks what was accepted into its branch")
	}
}

// What an accept by a broker asks of the services, for docs/cost.md.
func TestWhatAnAcceptByABrokerAsksFor(t *testing.T) {
	a := newAcceptor(t)
	db := &counted{Store: a.App.Store}
	a.App.Store = db
	a.db = db // the engine keeps its own: Step Functions is not the table
	a.depot = a.another()
	calls := map[string]int{}
	a.between = func(op string, _ http.HandlerFunc) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		calls[op]++
		return false
	}
	k, main := a.begin(work())
	a.unswept = true
	k = a.accepted(k)
	db.taken()
	now := a.ended(k)
	units := db.taken()
	a.running.Wait()
	delete(calls, "beat") // as long as it takes
	t.Logf("%d write units, calls %v", units, calls)
	if calls["hello"] != 1 || calls["land"] != 1 || calls["upload"] != 4 { // two packs or bundles fetched, two stored
		t.Errorf("a broker makes the calls %v", calls)
	}
	a.merged(k, now, main, work())
}
