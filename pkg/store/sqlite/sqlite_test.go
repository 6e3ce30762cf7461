package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
	"github.com/lazyplane/lazyplane/pkg/store/storetest"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, func() time.Time { return noon }, opts...)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func fresh(t testing.TB) *sqlite.Store { return open(t, filepath.Join(t.TempDir(), "store.db")) }

func put(k store.Key, a store.Attr, conds ...store.Cond) store.Write {
	return store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: a}, If: conds}
}

func TestTheEmbeddedStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return fresh(t) })
}

func TestTheContractHoldsWhileIndexesLag(t *testing.T) {
	o := storetest.Options{Racers: 16, Sequences: 30, Await: func(t testing.TB, s store.Store, seen func() bool) {
		t.Helper()
		s.(*storetest.Lag).Settle()
		if !seen() {
			t.Fatal("a settled index does not show what was acknowledged")
		}
	}}
	storetest.RunWith(t, func(t *testing.T) store.Store { return storetest.Lagging(fresh(t)) }, o)
}

func TestAReopenedStoreHasEverything(t *testing.T) {
	dir := t.TempDir()
	// Characters that mean something in the name of a database.
	path := filepath.Join(dir, "a b?c%d#e&mode=ro.db")
	p := store.For("t").Project("p")
	for i := range 3 {
		s := open(t, path)
		for j := range i {
			if it, err := s.Get(t.Context(), p.Turn(int64(j))); err != nil || it.Int("n") != int64(j) {
				t.Fatalf("opening %d: turn %d is %+v, %v", i, j, it, err)
			}
		}
		if err := s.Transact(t.Context(), put(p.Turn(int64(i)), store.Attr{"n": int64(i)})); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("a second close: %v", err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != filepath.Base(path) {
		t.Fatalf("left behind: %v, %v", files, err)
	}
}

func TestTheFilesArePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if err := s.Transact(t.Context(), put(store.For("t").Project("p").Meta(), nil)); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		st, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", st.Name(), st.Mode().Perm())
		}
	}
}

func TestAReadSeesEveryWriteAcknowledgedBeforeIt(t *testing.T) {
	s := fresh(t)
	p := store.For("t").Project("p")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			k := p.Key(fmt.Sprint("K", w))
			for n := range int64(40) {
				if err := s.Transact(t.Context(), put(k, store.Attr{"n": n})); err != nil {
					t.Errorf("transact: %v", err)
					return
				}
				if it, err := s.Get(t.Context(), k); err != nil || it.Int("n") != n {
					t.Errorf("after writing %d: %d, %v", n, it.Int("n"), err)
				}
				page, err := s.Query(t.Context(), store.Query{PK: p.PK, Prefix: k.SK})
				if err != nil || len(page.Items) != 1 || page.Items[0].Int("n") != n {
					t.Errorf("a list after writing %d: %+v, %v", n, page.Items, err)
				}
			}
		})
	}
	wg.Wait()
}

// A commit is held up at its crash point while others queue behind it; then all
// of them must be in one commit, and the refused one among them alone refused.
func TestWaitingTransactionsShareACommit(t *testing.T) {
	held, letGo := make(chan struct{}), make(chan struct{})
	commits := 0
	s := open(t, filepath.Join(t.TempDir(), "store.db"), sqlite.WithCrashPoint(func(point string) {
		if point != sqlite.BeforeCommit {
			return
		}
		if commits++; commits == 1 {
			close(held)
			<-letGo
		}
	}))
	p := store.For("t").Project("p")
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Transact(t.Context(), put(p.Meta(), nil)); err != nil {
			t.Error(err)
		}
	})
	<-held
	const others = 40
	errs := make([]error, others)
	for i := range others {
		wg.Go(func() {
			conds := []store.Cond{store.Absent()}
			if i%4 == 0 {
				conds = []store.Cond{store.Present()}
			}
			errs[i] = s.Transact(t.Context(), put(p.Key(fmt.Sprintf("A#%02d", i)), nil), put(p.Key(fmt.Sprintf("B#%02d", i)), nil, conds...))
		})
	}
	for sqlite.Waiting(s) < others {
		runtime.Gosched()
	}
	close(letGo)
	wg.Wait()
	for i, err := range errs {
		_, refused := errors.AsType[*store.ConflictError](err)
		if refused != (i%4 == 0) || (err != nil && !refused) {
			t.Errorf("transaction %d: %v", i, err)
		}
		for _, prefix := range []string{"A", "B"} {
			_, err := s.Get(t.Context(), p.Key(fmt.Sprintf("%s#%02d", prefix, i)))
			if (err == nil) == refused {
				t.Errorf("%s of transaction %d: %v", prefix, i, err)
			}
		}
	}
	if commits != 2 {
		t.Errorf("%d commits, want 2", commits)
	}
}

func TestACrashPointComesBeforeTheAnswer(t *testing.T) {
	var points []string
	var s *sqlite.Store
	p := store.For("t").Project("p")
	s = open(t, filepath.Join(t.TempDir(), "store.db"), sqlite.WithCrashPoint(func(point string) {
		_, err := s.Get(t.Context(), p.Meta())
		points = append(points, fmt.Sprint(point, " ", err == nil))
	}))
	if err := s.Transact(t.Context(), put(p.Meta(), nil)); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(points), "[store.commit.before false store.commit.after true]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := s.Transact(t.Context(), put(p.Meta(), nil, store.Absent())); err == nil {
		t.Fatal("a second create won")
	}
	if len(points) != 2 {
		t.Errorf("a refusal committed: %v", points)
	}
}

func TestExpiredItemsAreCollectedAnHourLater(t *testing.T) {
	now := noon
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := sqlite.Open(t.Context(), path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := store.For("t").Project("p")
	there := func(k store.Key) bool {
		_, err := s.Get(t.Context(), k)
		return err == nil
	}
	old, later, never := p.Key("OLD"), p.Key("LATER"), p.Key("NEVER")
	for k, at := range map[store.Key]time.Time{old: noon.Add(time.Minute), later: noon.Add(5 * time.Hour), never: {}} {
		if err := s.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{Key: k, Expires: at}}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func() {
		t.Helper()
		if err := s.Transact(t.Context(), put(p.Meta(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	now = noon.Add(30 * time.Minute)
	touch()
	if !there(old) {
		t.Error("collected within the hour")
	}
	now = noon.Add(2 * time.Hour)
	touch()
	if there(old) || !there(later) || !there(never) {
		t.Errorf("after two hours: %v %v %v", there(old), there(later), there(never))
	}
	s.KeepExpired()
	now = noon.Add(24 * time.Hour)
	touch()
	if !there(later) {
		t.Error("collected although asked to keep it")
	}
}

func TestAClosedStoreAnswersWithAFault(t *testing.T) {
	s := fresh(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	k := store.For("t").Project("p").Meta()
	_, getErr := s.Get(t.Context(), k)
	_, queryErr := s.Query(t.Context(), store.Query{PK: k.PK})
	for name, err := range map[string]error{"get": getErr, "query": queryErr, "transact": s.Transact(t.Context(), put(k, nil))} {
		unavailable(t, name, err, "is closed")
	}
}
