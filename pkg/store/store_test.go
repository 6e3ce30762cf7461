package store_test

import (
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
)

func TestAQueryIsBounded(t *testing.T) {
	for limit, want := range map[int]int{0: store.DefaultLimit, 1: 1, store.MaxLimit: store.MaxLimit, store.MaxLimit + 1: store.MaxLimit} {
		p, err := store.Query{PK: "T#t", Limit: limit}.Plan()
		if err != nil || p.Limit != want {
			t.Errorf("limit %d becomes %d, want %d: %v", limit, p.Limit, want, err)
		}
	}
}

func TestAPrefixIsARange(t *testing.T) {
	for prefix, above := range map[string]string{"A": "B", "TRN#": "TRN$", "ü": "ý", "\u007f": "\x80", "\U0010FFFF": "\xf4\x8f\xbf\xc0"} {
		p, err := store.Query{PK: "T#t", Prefix: prefix}.Plan()
		if err != nil || p.From != prefix || p.To != above || p.Empty {
			t.Errorf("prefix %q: from %q to %q: %v", prefix, p.From, p.To, err)
		}
	}
}

// A tenant's name can end a key's part early in no builder.
func TestATenantIsAPlainWord(t *testing.T) {
	for _, name := range []string{"", "a#b", "a b", "a\x00"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("tenant %q has keys", name)
				}
			}()
			store.For(name)
		}()
	}
	a := store.For("acme")
	for _, k := range []store.Key{a.Token("h"), a.Idem("c", "k"), a.Project("p").Meta(), a.Task("12345678-x").Turn(3), a.Lease("p", "main"), a.Flow().Key("x")} {
		if got := store.TenantOf(k); got != "acme" {
			t.Errorf("%s is of tenant %q", k, got)
		}
	}
}

func TestDueSlotsKeepTheirTimeAndOrder(t *testing.T) {
	k := store.For("t").Task("12345678-x").Meta()
	at := time.Date(2030, 1, 1, 12, 0, 0, 5, time.FixedZone("x", 7200))
	var last store.Slot
	for i := range 3 {
		s := store.DueAt(k, at.Add(time.Duration(i)*time.Nanosecond))
		got, ok := store.DueTime(s)
		if !ok || !got.Equal(at.Add(time.Duration(i))) {
			t.Errorf("%v comes back as %v", at, got)
		}
		if i > 0 && (s.PK != last.PK || s.SK <= last.SK) {
			t.Errorf("%+v does not follow %+v", s, last)
		}
		last = s
	}
	if _, ok := store.DueTime(store.Slot{PK: "DUE#00", SK: "soon"}); ok {
		t.Error("a time was read out of a word")
	}
}

func TestAKeySaysWhichRowOfWhoseHistoryItIs(t *testing.T) {
	p := store.For("acme").Task("c0ffee00-ac96-774b-bcce-b302099a8057")
	for _, c := range []struct {
		k       store.Key
		version int64
		place   int
		ok      bool
	}{
		{p.History(7), 7, 0, true},
		{p.Key(p.History(123456789).SK + ".2"), 123456789, 2, true},
		{p.Meta(), 0, 0, false},
		{p.Outbox("1"), 0, 0, false},
		{p.Key("HIS#x"), 0, 0, false},
		{p.Key("HIS#1.x"), 0, 0, false},
		{store.For("acme").Project("shop").Key("HIS#00000001"), 0, 0, false},
	} {
		tid, version, place, ok := store.HistoryOf(c.k)
		if ok != c.ok || ok && (version != c.version || place != c.place || tid != "c0ffee00-ac96-774b-bcce-b302099a8057") {
			t.Errorf("%s is %d, %d of %s, %t", c.k, version, place, tid, ok)
		}
	}
	if t1, t2 := store.TaskOf(p.Run(3)), store.TaskOf(store.For("acme").Gates()); t1 != "c0ffee00-ac96-774b-bcce-b302099a8057" || t2 != "" {
		t.Errorf("the rows are of %q and %q", t1, t2)
	}
}
