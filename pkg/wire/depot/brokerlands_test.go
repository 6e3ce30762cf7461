package depot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

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
