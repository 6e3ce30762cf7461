package depot_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
	"github.com/lazyplane/lazyplane/pkg/wire/depot"
)

// worked makes a task whose run has committed: its commits lie in its vault alone.
func (r *rig) worked(n int, target, base string, files map[string]string) task.Task {
	r.t.Helper()
	t := task.Task{
		Tenant: tenant, Project: project, ID: taskID(n), Code: "t" + string(rune('a'+n)), Status: task.Merging, Target: target,
		Branch: "lazy/t" + string(rune('a'+n)), Base: base, Epoch: 1, Version: 1,
		Accept: &task.MergePhase{Actor: identity.Actor{Role: identity.Human, Email: "ada@example.com", Name: "Ada"}, Began: time.Unix(1_700_000_000, 0)},
	}
	ws, err := r.depot.Of(tenant, project, t).Prepare(r.t.Context(), t, t.Branch, base)
	if err != nil {
		r.t.Fatal(err)
	}
	t.Workspace = &ws
	r.run(r.clone, "checkout", "-q", "--detach", base)
	for name, text := range files {
		t.Tip = r.commit(name, text)
	}
	r.row(t)
	v, err := r.CommitsOf(r.t.Context(), t)
	if err != nil {
		r.t.Fatal(err)
	}
	key, err := checkpoint.NewCipher(v.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	name := turn.ObjectName(1, 1, turn.BundleObject)
	if err := r.bucket.Put(r.t.Context(), app.VaultKey(t, name), key.Seal(name, r.bundle(t.Tip, base))); err != nil {
		r.t.Fatal(err)
	}
	doc, err := json.Marshal(app.CommitRow{Parent: base, Commit: t.Tip, Bundle: name})
	if err != nil {
		r.t.Fatal(err)
	}
	err = r.db.Transact(r.t.Context(), store.Write{Act: store.Put, Item: store.Item{
		Key: store.For(tenant).Task(t.ID).Commit(1, 1), Doc: doc, Attr: store.Attr{store.AttrType: "commit", "schema": int64(1)},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// land does what the steps of an accept do, beginning where an earlier try ended.
func land(t *testing.T, d *depot.Depot, k task.Task, intent *app.Landing, commit *string) error {
	repo := d.Of(tenant, project, k)
	if *commit != "" {
		if in, err := repo.Contains(t.Context(), k.Target, *commit); err != nil || in {
			return err
		}
	}
	l, err := repo.Plan(t.Context(), k)
	if err != nil {
		return err
	}
	c, err := repo.Commit(t.Context(), l, "work\n\nLazy-Task: "+string(k.ID)+"\n", k.Accept.Began)
	if err != nil {
		return err
	}
	*intent, *commit = l, c // the row of the intent
	return repo.Land(t.Context(), l, c)
}

type death struct{ at string }

// dies runs f and reports whether it died at a point.
func dies(f func() error) (at string, err error) {
	defer func() {
		if v := recover(); v != nil {
			d, ok := v.(death)
			if !ok {
				panic(v)
			}
			at = d.at
		}
	}()
	return "", f()
}

func TestALandingHappensOnceWhereverItsProcessDies(t *testing.T) {
	req.Covers(t, "P4", "AP-018", "AP-010")
	for _, point := range []string{"depot.sent", "depot.recorded", "depot.land.before", "depot.land.after"} {
		r := newRig(t)
		first := r.run(r.clone, "rev-parse", "HEAD")
		r.pushed("main", first, "")
		k := r.worked(1, "main", first, map[string]string{"work.txt": "work\n"})
		var l app.Landing
		var commit string
		r.crash = func(at string) {
			if at == point {
				panic(death{at})
			}
		}
		if at, err := dies(func() error { return land(t, r.another(), k, &l, &commit) }); at != point {
			t.Fatalf("it does not die at %s: %v", point, err)
		}
		r.crash = func(string) {}
		for range 2 { // and once more, as a step that is told twice
			if err := land(t, r.another(), k, &l, &commit); err != nil {
				t.Fatalf("after a death at %s: %v", point, err)
			}
		}
		fresh := t.TempDir()
		r.run(fresh, "init", "-q", "-b", "none", ".")
		head := r.pulled(fresh, "main")
		if n := r.run(fresh, "rev-list", "--count", head); n != "2" || head != commit {
			t.Errorf("after a death at %s main has %s commits, and is at %s, not %s", point, n, head, commit)
		}
		if got := r.run(fresh, "show", "-s", "--format=%an <%ae> %P", head); got != "Ada <ada@example.com> "+first {
			t.Errorf("the merge is %q", got)
		}
		if got := r.run(fresh, "show", head+":work.txt"); got != "work" {
			t.Errorf("its file holds %q", got)
		}
	}
}

func TestLandingsThatRaceAllLandOneAfterTheOther(t *testing.T) {
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	r.pushed("main", first, "")
	const racers = 2
	var tasks []task.Task
	for i := range racers {
		tasks = append(tasks, r.worked(i+1, "main", first, map[string]string{"f" + string(rune('0'+i)): "work\n"}))
	}
	var all sync.WaitGroup
	errs := make([]error, 2*racers)
	for i := range 2 * racers { // two processes for each
		d := r.another()
		all.Go(func() {
			var l app.Landing
			var commit string
			for range 20 {
				if errs[i] = land(t, d, tasks[i%racers], &l, &commit); fault.KindOf(errs[i]) != fault.Conflict {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	r.run(fresh, "init", "-q", "-b", "none", ".")
	head := r.pulled(fresh, "main")
	if got := r.run(fresh, "ls-tree", "--name-only", head); got != "README\nf0\nf1" {
		t.Errorf("main holds %q", got)
	}
	for _, k := range tasks {
		// The second process of a task may have found its work there already; then its
		// commit changes nothing.
		if n := r.run(fresh, "log", "--format=%H", "--grep", string(k.ID), head, "--", "f0", "f1"); strings.Count(n, "\n") != 0 || n == "" {
			t.Errorf("the work of %s is in the commits %q", k.ID, n)
		}
	}
}

// container makes what a run's container makes of the packs.
func (r *rig) container() *git.Repo {
	r.t.Helper()
	v, err := r.depot.Of(tenant, project, task.Task{}).(app.Depot).Packs(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	key, err := checkpoint.NewCipher(v.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	repo, err := git.InitBare(r.t.Context(), r.t.TempDir(), v.Format)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range v.Packs {
		data, err := r.bucket.Get(r.t.Context(), app.PackKey(tenant, project, p.Name))
		if err != nil {
			r.t.Fatal(err)
		}
		file := filepath.Join(r.t.TempDir(), "pack")
		f, err := os.Create(file)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := errors.Join(key.OpenStream(p.Name, f, strings.NewReader(string(data))), f.Close()); err != nil {
			r.t.Fatal(err)
		}
		if tip, err := repo.UnbundleFile(r.t.Context(), file); err != nil || tip != p.Commit {
			r.t.Fatalf("pack %s holds %s: %v", p.Name, tip, err)
		}
	}
	return repo
}

func TestAContainerHasEverythingFromThePacksAlone(t *testing.T) {
	req.Covers(t, "UW-010")
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	r.pushed("main", first, "")
	parent := r.worked(1, "main", first, map[string]string{"p.txt": "parent\n"})
	// A subtask is cut from what the parent has committed so far.
	child := r.worked(2, parent.Branch, parent.Tip, map[string]string{"c.txt": "child\n"})
	child.Parent = parent.ID
	if _, err := r.another().Of(tenant, project, child).Prepare(t.Context(), task.Task{
		Tenant: tenant, Project: project, ID: child.ID, Parent: parent.ID, Target: parent.Branch,
	}, child.Branch, parent.Tip); err != nil {
		t.Fatal(err)
	}
	if repo := r.container(); !repo.Has(t.Context(), parent.Tip) {
		t.Error("the subtask's container lacks the commit that it is cut from")
	}
	var l app.Landing
	var commit string
	err := land(t, r.another(), child, &l, &commit)
	if fault.KindOf(err) != fault.Conflict {
		t.Fatalf("the branch of a task was moved without its row: %v", err)
	}
	parent.Tip, parent.Version = commit, 2 // as the reservation of an accept does
	r.row(parent)
	if err := r.another().Of(tenant, project, child).Land(t.Context(), l, commit); err != nil {
		t.Fatal(err)
	}
	if repo := r.container(); !repo.Has(t.Context(), commit) {
		t.Error("the parent's next container lacks what was accepted into its branch")
	}
}

func TestWorkThatNobodyMergedCanStillBePulled(t *testing.T) {
	r := newRig(t)
	first := r.run(r.clone, "rev-parse", "HEAD")
	r.pushed("main", first, "")
	k := r.worked(1, "main", first, map[string]string{"work.txt": "work\n"})
	k.Status, k.Version = task.Abandoned, 2
	r.row(k)
	repo := r.another().Of(tenant, project, k)
	for range 2 {
		if err := repo.Remove(t.Context(), k, k.Tip); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range r.bucket.keys(tenant + "/tasks/") { // as the clean-up goes on
		_ = r.bucket.Delete(t.Context(), key)
	}
	fresh := t.TempDir()
	r.run(fresh, "init", "-q", "-b", "none", ".")
	r.depot = r.another()
	if got := r.pulled(fresh, "kept/"+k.ID.Short()); got != k.Tip {
		t.Errorf("kept is %s, want %s", got, k.Tip)
	}
	if at := r.head(k.Branch); at != "" {
		t.Errorf("its branch is still at %s", at)
	}
	if _, err := repo.Tip(t.Context(), k.Branch); fault.KindOf(err) != fault.NotFound {
		t.Errorf("its branch: %v", err)
	}
}
