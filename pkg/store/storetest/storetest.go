// Package storetest is the contract of the store port: Run holds an adapter to
// it, with racing writers and a model. Lagging wraps a store so that its indexes
// lag and its expired items stay, and Priced one so that its requests have their
// price, as with a hosted table and no emulator.
package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lazyplane/lazyplane/pkg/store"
)

// Options fit the suite to an adapter. The zero value is the full suite.
type Options struct {
	// Racers is the number of concurrent writers; 64 when zero.
	Racers int
	// Rounds bounds how often a race is run; 8 times at most when zero.
	Rounds int
	// Rows is the number of rows that are paged through while writers work; 256
	// when zero.
	Rows int
	// Sequences is the number of random sequences that the model walks; what the
	// flag rapid.checks says, 100, when zero.
	Sequences int
	// Await is called until seen has answered true once, for an index that lags.
	// It may settle the index, wait, or give up through t. When nil, seen must be
	// true at once.
	Await func(t testing.TB, s store.Store, seen func() bool)
}

func (o Options) full() Options {
	if o.Racers == 0 {
		o.Racers = 64
	}
	if o.Rows == 0 {
		o.Rows = 256
	}
	if o.Await == nil {
		o.Await = func(t testing.TB, _ store.Store, seen func() bool) {
			t.Helper()
			if !seen() {
				t.Fatal("the index does not show what was acknowledged")
			}
		}
	}
	return o
}

// tenants numbers the tenants of all suites of a process, so that no two tests
// meet even in a table they share.
var tenants atomic.Int64

// suite is one test's view: a store, a tenant of its own, the options.
type suite struct {
	store.Store
	o Options
	p store.Partition
	t store.Tenant
}

// Run holds the stores that open returns to the contract.
func Run(t *testing.T, open func(t *testing.T) store.Store) { RunWith(t, open, Options{}) }

// RunWith is Run fitted to a slower or lagging adapter.
func RunWith(t *testing.T, open func(t *testing.T) store.Store, o Options) {
	o = o.full()
	for _, c := range []struct {
		name string
		f    func(*testing.T, *suite)
	}{
		{"GetReturnsWhatWasPut", testRoundTrip},
		{"GetOfNothingIsNotFound", testNotFound},
		{"EveryConditionDecides", testConditions},
		{"ARefusedWriteSaysWhoWon", testConflict},
		{"EveryActDoesWhatItSays", testActs},
		{"ARefusedTransactionWritesNothing", testAtomic},
		{"AnImpossibleTransactionIsRefusedWhole", testInvalid},
		{"LimitsAreRefusedBeforeARequest", testLimits},
		{"ExactlyOneOfManyWritersWinsEachVersion", testRace},
		{"ExactlyOneOfManyCreatorsWins", testCreate},
		{"ConcurrentTransfersKeepTheSum", testTransfers},
		{"AStaleEpochChangesNothing", testEpoch},
		{"AQueryReadsItsRangeInOrder", testQuery},
		{"PagesFollowEachOtherExactly", testPages},
		{"ACursorBelongsToItsQuery", testCursor},
		{"CursorsNeverSkipNorRepeatUnderWriters", testCursorRace},
		{"AWeightyPageEndsEarly", testHeavyPage},
		{"AnIndexShowsPlacesAndTheirChanges", testIndex},
		{"AnIndexKeepsEqualPlacesApart", testIndexTies},
		{"DueRowsComeInOrderUpToTheirTime", testDue},
		{"ListsAreConsistentReads", testConsistent},
		{"TenantsNeverMeet", testTenants},
		{"ExpiryIsKeptAndOverwritten", testExpiry},
		{"AnEndedContextWritesNothing", testContext},
		{"RandomSequencesMatchTheModel", testModel},
	} {
		t.Run(c.name, func(t *testing.T) {
			tn := store.For("t" + strconv.FormatInt(tenants.Add(1), 10))
			c.f(t, &suite{Store: open(t), o: o, t: tn, p: tn.Project("p")})
		})
	}
}

func (s *suite) must(t testing.TB, ws ...store.Write) {
	t.Helper()
	if err := s.Transact(t.Context(), ws...); err != nil {
		t.Fatalf("transact: %v", err)
	}
}

// get returns the item and whether it exists.
func (s *suite) get(t testing.TB, k store.Key) (store.Item, bool) {
	t.Helper()
	it, err := s.Get(t.Context(), k)
	if errors.Is(err, store.ErrNotFound) {
		return store.Item{}, false
	}
	if err != nil {
		t.Fatalf("get %s: %v", k, err)
	}
	return it, true
}

func (s *suite) want(t testing.TB, want store.Item) {
	t.Helper()
	got, ok := s.get(t, want.Key)
	if !ok {
		t.Fatalf("%s is absent", want.Key)
	}
	if d := diff(want, got); d != "" {
		t.Fatalf("%s (-want +got)\n%s", want.Key, d)
	}
}

func (s *suite) absent(t testing.TB, k store.Key) {
	t.Helper()
	if it, ok := s.get(t, k); ok {
		t.Fatalf("%s is there: %+v", k, it)
	}
}

func diff(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

func conflict(t testing.TB, err error) *store.ConflictError {
	t.Helper()
	e, ok := errors.AsType[*store.ConflictError](err)
	if !ok {
		t.Fatalf("got %v, want a conflict", err)
	}
	return e
}

func all(ctx context.Context, s store.Store, q store.Query) ([]store.Item, error) {
	var out []store.Item
	err := store.All(ctx, s, q, func(it store.Item) bool {
		out = append(out, it)
		return true
	})
	return out, err
}

// list follows a query to its end and returns the sort keys.
func (s *suite) list(t testing.TB, q store.Query) []string {
	t.Helper()
	items, err := all(t.Context(), s, q)
	if err != nil {
		t.Fatalf("query %+v: %v", q, err)
	}
	out := []string{}
	for _, it := range items {
		out = append(out, it.Key.SK)
	}
	return out
}

func put(k store.Key, a store.Attr, conds ...store.Cond) store.Write {
	return store.Write{Act: store.Put, Item: store.Item{Key: k, Attr: a}, If: conds}
}

func number(i int) string { return fmt.Sprintf("%04d", i) }

// setChecks bounds the sequences that the model walks, for the time of a test.
func setChecks(t testing.TB, n int) {
	f := flag.Lookup("rapid.checks")
	if n == 0 || f == nil {
		return
	}
	was := f.Value.String()
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set("rapid.checks", was); err != nil {
			t.Error(err)
		}
	})
}
