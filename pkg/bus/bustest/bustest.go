// Package bustest is the contract of bus.Bus, which every adapter passes.
package bustest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Fixture is one adapter, ready to be tried.
type Fixture struct {
	Bus bus.Bus
	// Listen adds a listener for the events of the types, all of them without any,
	// and returns what waits for the next event it is told of.
	Listen func(t *testing.T, name string, types ...string) (next func() event.Event)
}

// Run holds an adapter to the contract.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	for _, c := range []struct {
		name string
		do   func(*testing.T, Fixture)
	}{
		{"EveryListenerHearsWhatItAskedFor", everyListener},
		{"ManyAtOnceAllArrive", many},
		{"OneThatNoBusTakesIsRefusedAlone", refusedAlone},
		{"PublishersDoNotDisturbEachOther", publishers},
		{"NothingPublishedIsNothingTold", nothing},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, fresh(t)) })
	}
}

func ev(n int, kind string) event.Event {
	return event.Event{
		ID: fmt.Sprintf("id-%d", n), Type: kind, At: time.Date(2026, 3, 2, 10, 14, 5, 0, time.UTC),
		Detail: fmt.Appendf(nil, `{"id":"id-%d","text":"a \"b\" <ünï>"}`, n),
	}
}

// hear takes events until it has n different ones, and returns their details.
func hear(next func() event.Event, n int) map[string]event.Event {
	got := map[string]event.Event{}
	for len(got) < n {
		e := next()
		got[string(e.Detail)] = e
	}
	return got
}

func everyListener(t *testing.T, f Fixture) {
	one, all := f.Listen(t, "one", "Task Moved"), f.Listen(t, "all")
	other, moved := ev(1, "Something Else"), ev(2, "Task Moved")
	if err := f.Bus.Publish(t.Context(), other, moved); err != nil {
		t.Fatal(err)
	}
	got := one()
	if got.Type != moved.Type || string(got.Detail) != string(moved.Detail) || !got.At.Equal(moved.At) {
		t.Errorf("it was told %+v (%s), want %+v (%s)", got, got.Detail, moved, moved.Detail)
	}
	both := hear(all, 2)
	for _, want := range []event.Event{other, moved} {
		if got := both[string(want.Detail)]; got.Type != want.Type {
			t.Errorf("who asks for all was told %v", both)
		}
	}
}

func many(t *testing.T, f Fixture) {
	next := f.Listen(t, "all")
	var all []event.Event
	for n := range 25 {
		all = append(all, ev(n, "Task Moved"))
	}
	if err := f.Bus.Publish(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	hear(next, len(all))
}

func refusedAlone(t *testing.T, f Fixture) {
	next := f.Listen(t, "all")
	long := ev(1, "Task Moved")
	long.Detail = []byte(`{"x":"` + strings.Repeat("x", bus.MaxEntry) + `"}`)
	most := ev(2, "Task Moved")
	most.Detail = []byte(`{"x":"` + strings.Repeat("x", bus.MaxEntry-bus.Size(ev(2, "Task Moved"))-100) + `"}`)
	broken, list, bare := ev(3, "Task Moved"), ev(4, "Task Moved"), ev(5, "")
	broken.Detail, list.Detail = []byte(`{"x":`), []byte(`[1]`)
	err := f.Bus.Publish(t.Context(), ev(0, "Task Moved"), long, most, broken, list, bare, ev(6, "Task Moved"))
	var refused []int
	for i := range 7 {
		if why := bus.NotTaken(err, i); why != nil {
			refused = append(refused, i)
			if fault.KindOf(why) != fault.Invalid {
				t.Errorf("event %d may come again: %v", i, why)
			}
		}
	}
	if want := []int{1, 3, 4, 5}; !slices.Equal(refused, want) {
		t.Errorf("refused are %v, want %v: %v", refused, want, err)
	}
	hear(next, 3)
}

func publishers(t *testing.T, f Fixture) {
	next := f.Listen(t, "all")
	var all sync.WaitGroup
	for p := range 4 {
		all.Go(func() {
			for n := range 5 {
				if err := f.Bus.Publish(t.Context(), ev(p*100+n, "Task Moved")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	hear(next, 20)
}

func nothing(t *testing.T, f Fixture) {
	next := f.Listen(t, "all")
	if err := f.Bus.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Bus.Publish(t.Context(), ev(1, "Task Moved")); err != nil {
		t.Fatal(err)
	}
	if got := next(); string(got.Detail) != string(ev(1, "").Detail) {
		t.Errorf("it was told %s", got.Detail)
	}
}
