package depot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

func encode(t task.Task) (store.Write, error) {
	doc, err := json.Marshal(t)
	return store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(t.Tenant).Task(t.ID).Meta(), Doc: doc,
		Attr: store.Attr{store.AttrType: "task", store.AttrVersion: t.Version, store.AttrEpoch: t.Epoch, store.AttrStatus: string(t.Status), "schema": int64(1)},
	}}, err
}

func TestCommitsComeBackAsTheyWereBroughtAndLieSealed(t *testing.T) {
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	if _, err := r.depot.Of(tenant, project, task.Task{}).Plan(t.Context(), task.Task{Target: "main"}); err == nil {
		t.Error("an empty repository plans a landing")
	}
	if _, _, err := r.depot.Of(tenant, project, task.Task{}).Current(t.Context()); !refusal.Is(err, refusal.NoRepository) {
		t.Errorf("an empty repository has a branch: %v", err)
	}
	r.pushed("main", first, "")
	second := r.commit("a.txt", "more\n")
	r.pushed("main", second, first, first)
	r.pushed("side", second, "") // a branch whose commits are all there
	b := r.bundle(second, first)
	if out, err := r.bring(push("main", second, first, b), b); err != nil || out.State != "done" {
		t.Errorf("brought again: %+v, %v", out, err)
	}
	list, err := r.ListBranches(t.Context(), r.caller(tenant, project))
	if err != nil || list.Main != "main" || len(list.Branches) != 2 {
		t.Errorf("the branches are %+v: %v", list, err)
	}
	fresh := t.TempDir()
	r.run(fresh, "init", "-q", "-b", "none", ".")
	if got := r.pulled(fresh, "main"); got != second {
		t.Errorf("pulled %s, want %s", got, second)
	}
	r.run(fresh, "fsck", "--strict")
	third := r.commit("b.txt", "and more\n")
	r.pushed("main", third, second, second)
	if got := r.pulled(fresh, "main", second); got != third {
		t.Errorf("pulled %s, want %s", got, third)
	}
	if got := r.pulled(fresh, "main", third); got != third {
		t.Errorf("pulled %s with nothing to pull, want %s", got, third)
	}
	if up := r.bucket.keys(tenant + "/projects/" + project + "/transfer/"); len(up) != 2 {
		t.Errorf("on their way there still are %v, want the two pulls", up)
	}
	for _, k := range r.bucket.keys(tenant + "/projects/" + project + "/git/") {
		data, err := r.bucket.Get(t.Context(), k)
		if err != nil || bytes.Contains(data, []byte("PACK")) || !bytes.HasPrefix(data, []byte("lzs1")) {
			t.Errorf("%s lies open: %.20q, %v", k, data, err)
		}
	}
}

func TestWhatIsNotWholeOrNotTheirsIsRefusedAndChangesNothing(t *testing.T) {
	req.Covers(t, "P5", "P6", "P12")
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	r.pushed("main", first, "")
	second := r.commit("a.txt", strings.Repeat("a line of it\n", 500))
	third := r.commit("b.txt", "third\n")
	whole := r.bundle(second, first)
	c := r.caller(tenant, project)
	finish := func(in app.PushIn, b []byte) error {
		t.Helper()
		_, err := r.bring(in, b)
		return err
	}
	refused := func(what string, err error, code refusal.Code) {
		t.Helper()
		if !refusal.Is(err, code) {
			t.Errorf("%s: %v, want %s", what, err, code)
		} else if next := fault.Of(err).Next; len(next) == 0 && code != refusal.NotFound && code != refusal.InvalidArguments {
			t.Errorf("%s: nothing is said to do next", what)
		}
		if at := r.head("main"); at != first {
			t.Fatalf("%s: main is at %s, and was at %s", what, at, first)
		}
	}

	// The link takes the announced bytes alone.
	out, err := r.PushBranch(t.Context(), c, push("main", second, first, whole))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.upload(out.Link, append([]byte{}, whole[:len(whole)-1]...)); err == nil {
		t.Error("the link took fewer bytes than were announced")
	}
	other := bytes.Clone(whole)
	other[len(other)/2] ^= 1
	if err := r.upload(out.Link, other); err == nil {
		t.Error("the link took other bytes than were announced")
	}
	_, err = r.FinishPush(t.Context(), c, out.ID)
	refused("nothing was uploaded", err, refusal.UploadMissing)

	// Whoever can write the bucket needs no link: what arrived is measured again.
	if out, err = r.PushBranch(t.Context(), c, push("main", second, first, whole)); err != nil {
		t.Fatal(err)
	}
	if err := r.bucket.Put(t.Context(), app.TransferKey(tenant, project, out.ID), other); err != nil {
		t.Fatal(err)
	}
	_, err = r.FinishPush(t.Context(), c, out.ID)
	refused("other bytes of the same length", err, refusal.UploadMissing)
	if err := r.bucket.Put(t.Context(), app.TransferKey(tenant, project, out.ID), append(bytes.Clone(whole), 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PushBranch(t.Context(), c, push("main", second, first, whole)); err != nil {
		t.Fatal(err)
	}
	_, err = r.FinishPush(t.Context(), c, out.ID)
	refused("more bytes", err, refusal.UploadMissing)

	for what, b := range map[string][]byte{
		"cut in its objects": whole[:len(whole)-40], "cut in its head": whole[:30], "changed": other, "no bundle": []byte("hello"),
	} {
		refused(what, finish(push("main", second, first, b), b), refusal.BundleDamaged)
	}
	refused("the bundle of another commit", finish(push("main", third, first, whole), whole), refusal.BundleDamaged)
	tail := r.bundle(third, second)
	refused("without its base", finish(push("main", third, first, tail), tail), refusal.BundleIncomplete)

	// A commit that git's own checks refuse: its tree has an entry called .git.
	file := runWith(t, r.clone, []byte("x"), "hash-object", "-w", "--stdin")
	tree := runWith(t, r.clone, []byte("100644 blob "+file+"\t.git\n"), "mktree")
	evil := r.run(r.clone, "commit-tree", "-p", first, "-m", "evil", tree)
	b := r.bundle(evil, first)
	refused("a hostile tree", finish(push("main", evil, first, b), b), refusal.BundleDamaged)

	for _, name := range []string{
		"ma\x1b[31min", "main\n", "main\x00", "", "-x", "a..b", "a b", "../../etc", "a//b", "x.lock", "/x", "x/", "lazy/mine", "kept/x", "a:b", "refs/heads/ü",
	} {
		refused(fmt.Sprintf("the name %q", name), finish(push(name, second, first, whole), whole), refusal.InvalidArguments)
	}

	// A push is its project's: to everybody else it never was.
	if out, err = r.PushBranch(t.Context(), c, push("main", second, first, whole)); err != nil {
		t.Fatal(err)
	}
	if err := r.upload(out.Link, whole); err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []app.Call{r.caller("rival", project), r.caller(tenant, "other")} {
		_, err = r.FinishPush(t.Context(), foreign, out.ID)
		refused("another's push", err, refusal.NotFound)
		if list, err := r.ListBranches(t.Context(), foreign); err != nil || len(list.Branches) != 0 {
			t.Errorf("another project lists %+v: %v", list, err)
		}
		_, err := r.PullBranch(t.Context(), foreign, "main", nil)
		refused("another's branch", err, refusal.NotFound)
	}
	_, err = r.FinishPush(t.Context(), c, strings.Repeat("0", 32))
	refused("no push", err, refusal.NotFound)

	if _, err = r.FinishPush(t.Context(), c, out.ID); err != nil || r.head("main") != second {
		t.Errorf("after all of that the push comes to %v, and main is at %s", err, r.head("main"))
	}
}

func TestABranchLosesNoCommitUnlessToldTo(t *testing.T) {
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	second := r.commit("a.txt", "a\n")
	r.pushed("main", second, "")
	r.run(r.clone, "reset", "-q", "--hard", first)
	other := r.commit("c.txt", "c\n")
	b := r.bundle(other, first)
	if _, err := r.bring(push("main", other, second, b), b); !refusal.Is(err, refusal.NotFastForward) || r.head("main") != second {
		t.Fatalf("%v; main is at %s", err, r.head("main"))
	}
	in := push("main", other, first, b)
	in.Force = true
	if _, err := r.bring(in, b); !refusal.Is(err, refusal.BranchMoved) {
		t.Errorf("forced from where it is not: %v", err)
	}
	in.Expect = second
	if out, err := r.bring(in, b); err != nil || out.State != "done" || r.head("main") != other {
		t.Errorf("forced: %+v, %v", out, err)
	}
}

func TestOfTwoRacingPushesOneWins(t *testing.T) {
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	r.pushed("main", first, "")
	const racers = 4
	heads, bundles := make([]string, racers), make([][]byte, racers)
	for i := range racers {
		r.run(r.clone, "reset", "-q", "--hard", first)
		heads[i] = r.commit("a.txt", fmt.Sprintf("by %d\n", i))
		bundles[i] = r.bundle(heads[i], first)
	}
	ids := make([]string, racers)
	for i := range racers {
		out, err := r.PushBranch(t.Context(), r.caller(tenant, project), push("main", heads[i], first, bundles[i]))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.upload(out.Link, bundles[i]); err != nil {
			t.Fatal(err)
		}
		ids[i] = out.ID
	}
	errs := make([]error, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			_, errs[i] = r.FinishPush(t.Context(), r.caller(tenant, project), ids[i])
		})
	}
	all.Wait()
	won := 0
	at := r.head("main")
	for i, err := range errs {
		switch {
		case err == nil && heads[i] == at:
			won++
		case !refusal.Is(err, refusal.BranchMoved):
			t.Errorf("racer %d: %v", i, err)
		}
	}
	if won != 1 {
		t.Errorf("%d won; main is at %s of %v", won, at, heads)
	}
}
