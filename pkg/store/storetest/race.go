package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/store"
)

func (s *suite) rounds(full int) int {
	if s.o.Rounds != 0 {
		return min(s.o.Rounds, full)
	}
	return full
}

// race runs f in n goroutines that start together.
func race(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// try transacts again for as long as the adapter only gave up on contention.
func (s *suite) try(t *testing.T, ws ...store.Write) error {
	for {
		err := s.Transact(t.Context(), ws...)
		if !errors.Is(err, store.ErrContention) {
			return err
		}
	}
}

func testRace(t *testing.T, s *suite) {
	k := s.p.Meta()
	s.must(t, put(k, store.Attr{store.AttrVersion: int64(0), "who": "nobody"}))
	for v := range int64(s.rounds(8)) {
		errs := make([]error, s.o.Racers)
		race(s.o.Racers, func(i int) {
			who := strconv.Itoa(i)
			ws := []store.Write{{
				Act: store.Update, Item: store.Item{Key: k},
				Set: store.Attr{"who": who}, Add: map[string]int64{store.AttrVersion: 1}, If: []store.Cond{store.VersionIs(v)},
			}}
			if v%2 == 1 {
				ws = append(ws, put(s.p.History(v+1), store.Attr{"who": who}, store.Absent()))
			}
			errs[i] = s.try(t, ws...)
		})
		winner := ""
		for i, err := range errs {
			if err == nil {
				if winner != "" {
					t.Fatalf("version %d was won by %s and by %d", v+1, winner, i)
				}
				winner = strconv.Itoa(i)
			}
		}
		if winner == "" {
			t.Fatalf("nobody won version %d: %v", v+1, errs[0])
		}
		for _, err := range errs {
			if err == nil {
				continue
			}
			if e := conflict(t, err); e.Current.Str("who") != winner || e.Current.Int(store.AttrVersion) != v+1 {
				t.Fatalf("version %d: a loser was told %+v, the winner is %s", v+1, e.Current.Attr, winner)
			}
		}
		s.want(t, store.Item{Key: k, Attr: store.Attr{store.AttrVersion: v + 1, "who": winner}})
		if v%2 == 1 {
			s.want(t, store.Item{Key: s.p.History(v + 1), Attr: store.Attr{"who": winner}})
		}
	}
}

// testCreate has each racer bring a row of its own along, as every create does:
// the losers' rows must not be there.
func testCreate(t *testing.T, s *suite) {
	for r := range s.rounds(8) {
		code := s.p.Code("c" + strconv.Itoa(r))
		errs := make([]error, s.o.Racers)
		own := func(i int) store.Key { return s.p.Key(fmt.Sprintf("OWN#%d#%04d", r, i)) }
		race(s.o.Racers, func(i int) {
			errs[i] = s.try(t, put(own(i), nil, store.Absent()), put(code, store.Attr{"who": strconv.Itoa(i)}, store.Absent()))
		})
		won := 0
		for i, err := range errs {
			_, there := s.get(t, own(i))
			if err == nil {
				won++
				s.want(t, store.Item{Key: code, Attr: store.Attr{"who": strconv.Itoa(i)}})
			} else if e := conflict(t, err); e.Write != 1 {
				t.Fatalf("write %d was refused, want 1", e.Write)
			}
			if there != (err == nil) {
				t.Fatalf("racer %d: %v, and its row is there: %v", i, err, there)
			}
		}
		if won != 1 {
			t.Fatalf("%d of %d creators won", won, s.o.Racers)
		}
	}
}

func testTransfers(t *testing.T, s *suite) {
	const accounts, each = 6, int64(100)
	account := func(i int) store.Key { return s.p.Key("ACC#" + strconv.Itoa(i)) }
	for i := range accounts {
		s.must(t, put(account(i), store.Attr{store.AttrVersion: int64(0), "sum": each}))
	}
	var mu sync.Mutex
	ledger := map[store.Key][3]int64{} // acknowledged transfers: from, to, amount
	race(s.o.Racers, func(racer int) {
		rnd := rand.New(rand.NewPCG(uint64(racer), 1))
		for n := range s.rounds(4) {
			row := s.p.Key(fmt.Sprintf("LEDGER#%04d#%04d", racer, n))
			for range 5 { // an optimistic caller's own bound
				from := rnd.IntN(accounts)
				to := (from + 1 + rnd.IntN(accounts-1)) % accounts
				a, errA := s.Get(t.Context(), account(from))
				b, errB := s.Get(t.Context(), account(to))
				if errA != nil || errB != nil {
					t.Errorf("get: %v, %v", errA, errB)
					return
				}
				amount := rnd.Int64N(a.Int("sum") + 1)
				move := func(it store.Item, by int64) store.Write {
					return store.Write{
						Act: store.Update, Item: store.Item{Key: it.Key}, Set: store.Attr{"sum": it.Int("sum") + by},
						Add: map[string]int64{store.AttrVersion: 1}, If: []store.Cond{store.VersionIs(it.Int(store.AttrVersion))},
					}
				}
				err := s.try(t, put(row, store.Attr{"amount": amount}, store.Absent()), move(a, -amount), move(b, amount))
				if err == nil {
					mu.Lock()
					ledger[row] = [3]int64{int64(from), int64(to), amount}
					mu.Unlock()
					break
				}
				if _, is := errors.AsType[*store.ConflictError](err); !is {
					t.Errorf("transfer: %v", err)
					return
				}
			}
		}
	})
	if len(ledger) == 0 {
		t.Fatal("no transfer was made")
	}
	var want [accounts]int64
	var moves, total int64
	for i := range want {
		want[i] = each
	}
	for row, tr := range ledger {
		want[tr[0]] -= tr[2]
		want[tr[1]] += tr[2]
		s.want(t, store.Item{Key: row, Attr: store.Attr{"amount": tr[2]}})
	}
	for i := range accounts {
		it, _ := s.get(t, account(i))
		if got := it.Int("sum"); got != want[i] || got < 0 {
			t.Errorf("account %d holds %d, the acknowledged transfers leave %d", i, got, want[i])
		}
		moves += it.Int(store.AttrVersion)
		total += it.Int("sum")
	}
	if total != accounts*each || moves != int64(2*len(ledger)) {
		t.Errorf("sum %d, want %d; %d moves of %d transfers", total, accounts*each, moves, len(ledger))
	}
	if rows := s.list(t, store.Query{PK: s.p.PK, Prefix: "LEDGER#"}); len(rows) != len(ledger) {
		t.Errorf("%d ledger rows for %d acknowledged transfers", len(rows), len(ledger))
	}
}

func testEpoch(t *testing.T, s *suite) {
	k := s.p.Meta()
	s.must(t, put(k, store.Attr{store.AttrEpoch: int64(1), store.AttrStatus: "working"}))
	old := []store.Cond{store.EpochIs(1), store.StatusIn("working")}
	s.must(t, store.Write{Act: store.Update, Item: store.Item{Key: k}, Add: map[string]int64{store.AttrEpoch: 1}, If: old})
	before, _ := s.get(t, k)
	race(s.o.Racers, func(i int) {
		row := s.p.Key("LATE#" + number(i))
		ws := []store.Write{put(row, nil), {Act: store.Update, Item: store.Item{Key: k}, Set: store.Attr{store.AttrStatus: "idle"}, If: old}}
		if i%2 == 1 {
			ws[1] = store.Write{Act: store.Check, Item: store.Item{Key: k}, If: old}
		}
		err := s.try(t, ws...)
		e, is := errors.AsType[*store.ConflictError](err)
		if !is || e.Current.Int(store.AttrEpoch) != 2 {
			t.Errorf("a stale epoch was answered with %v", err)
		}
	})
	s.want(t, before)
	if late := s.list(t, store.Query{PK: s.p.PK, Prefix: "LATE#"}); len(late) != 0 {
		t.Errorf("a stale holder wrote %v", late)
	}
}

// testConsistent has every writer look for its own write at once.
func testConsistent(t *testing.T, s *suite) {
	race(s.o.Racers, func(i int) {
		for n := range s.rounds(4) {
			live, code := s.p.Key(fmt.Sprintf("LIVE#%04d#%04d", i, n)), s.p.Code(fmt.Sprintf("%04d-%04d", i, n))
			if err := s.try(t, put(live, store.Attr{"n": int64(n)}, store.Absent()), put(code, store.Attr{"task": live.SK}, store.Absent())); err != nil {
				t.Errorf("create: %v", err)
				return
			}
			page, err := s.Query(t.Context(), store.Query{PK: s.p.PK, Prefix: live.SK})
			if err != nil || len(page.Items) != 1 {
				t.Errorf("a list after the create has %d of it: %v", len(page.Items), err)
			}
			if _, err := s.Get(t.Context(), code); err != nil {
				t.Errorf("the code after the create: %v", err)
			}
			if err := s.try(t, store.Write{Act: store.Delete, Item: store.Item{Key: live}}); err != nil {
				t.Errorf("delete: %v", err)
			}
			page, err = s.Query(t.Context(), store.Query{PK: s.p.PK, Prefix: live.SK})
			if err != nil || len(page.Items) != 0 {
				t.Errorf("a list after the delete has %d of it: %v", len(page.Items), err)
			}
		}
	})
}

func testTenants(t *testing.T, s *suite) {
	// One name is the beginning of the other.
	a, b := s.t, store.For(s.t.Name()+"x")
	keys := func(t store.Tenant) []store.Key {
		return []store.Key{
			t.Token("h"), t.TokenOf("user", "p", "s"), t.Idem("c", "k"), t.Confirm("h"), t.Lease("p", "main"),
			t.Project("p").Meta(), t.Project("p").Code("c"), t.Task("12345678-a").Meta(), t.Task("12345678-a").Turn(1), t.Flow().Key("x"),
		}
	}
	for i, k := range keys(a) {
		s.must(t, put(k, store.Attr{"of": "a", "n": int64(i)}, store.Absent()))
	}
	for _, k := range keys(b) {
		if store.TenantOf(k) != b.Name() {
			t.Errorf("%s is of tenant %s", k, store.TenantOf(k))
		}
		s.absent(t, k)
		if got := s.list(t, store.Query{PK: k.PK}); len(got) != 0 {
			t.Errorf("partition %s shows %v", k.PK, got)
		}
	}
	for _, k := range keys(b) {
		s.must(t, put(k, store.Attr{"of": "b"}, store.Absent()))
	}
	for _, k := range keys(b) {
		s.must(t, store.Write{Act: store.Delete, Item: store.Item{Key: k}})
	}
	for i, k := range keys(a) {
		s.want(t, store.Item{Key: k, Attr: store.Attr{"of": "a", "n": int64(i)}})
		for _, sk := range s.list(t, store.Query{PK: k.PK}) {
			if it, _ := s.get(t, store.Key{PK: k.PK, SK: sk}); it.Str("of") != "a" {
				t.Errorf("partition %s holds %+v", k.PK, it)
			}
		}
	}
}
