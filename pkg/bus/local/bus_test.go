package local_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/bus/local"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func fresh(t *testing.T) *local.Bus {
	t.Helper()
	b := local.New(slog.New(slog.DiscardHandler), time.After)
	t.Cleanup(b.Close)
	return b
}

func TestTheContract(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bustest.Fixture {
		b := fresh(t)
		return bustest.Fixture{Bus: b, Listen: func(t *testing.T, name string, types ...string) func() event.Event {
			told := make(chan event.Event, 100)
			b.Listen(name, func(_ context.Context, e event.Event) error { told <- e; return nil }, types...)
			return func() event.Event {
				select {
				case e := <-told:
					return e
				case <-t.Context().Done():
					t.Fatal("the test's time is over")
				}
				return event.Event{}
			}
		}}
	})
}

// heard is what a listener was told of, and it fails while it is broken.
type heard struct {
	mu     sync.Mutex
	ids    []string // guarded by mu
	tries  int      // guarded by mu
	broken bool     // guarded by mu
}

func (h *heard) do(_ context.Context, e event.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries++
	if h.broken {
		if h.tries%2 == 0 {
			panic("it is broken")
		}
		return errors.New("it is broken")
	}
	h.ids = append(h.ids, e.ID)
	return nil
}

func (h *heard) mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken, h.tries = false, 0
}

func (h *heard) look() ([]string, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids), h.tries
}

func say(id string) event.Event {
	return event.Event{ID: id, Type: "Task Moved", Detail: []byte(`{}`)}
}

// The first listener throws at everything; the second hears it all the same, and
// the first can be told again.
func TestAListenerThatFailsHasItsOwnTriesAndDeadEvents(t *testing.T) {
	req.Covers(t, "B08", "P11")
	synctest.Test(t, func(t *testing.T) {
		b := local.New(slog.New(slog.DiscardHandler), time.After)
		defer b.Close()
		first, second := &heard{broken: true}, &heard{}
		l := b.Listen("task sync", first.do)
		b.Listen("automation", second.do)
		if err := b.Publish(t.Context(), say("a"), say("b")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ids, _ := second.look(); !slices.Equal(ids, []string{"a", "b"}) {
			t.Errorf("while the first fails, the second hears %q", ids)
		}
		time.Sleep(time.Minute)
		if ids, tries := first.look(); len(ids) != 0 || tries != 2*local.Tries {
			t.Errorf("the first took %q in %d tries, want %d tries", ids, tries, 2*local.Tries)
		}
		var dead []string
		for _, e := range l.Dead() {
			dead = append(dead, e.ID)
		}
		if !slices.Equal(dead, []string{"a", "b"}) {
			t.Errorf("put aside for it are %q", dead)
		}
		first.mend()
		l.Redrive()
		synctest.Wait()
		if ids, _ := first.look(); !slices.Equal(ids, []string{"a", "b"}) || len(l.Dead()) != 0 {
			t.Errorf("mended, it takes %q and %d are put aside", ids, len(l.Dead()))
		}
		if ids, _ := second.look(); len(ids) != 2 {
			t.Errorf("the second is told %d times", len(ids))
		}
	})
}

func TestAClosedBusTakesNothingAndEndsItsListeners(t *testing.T) {
	b := local.New(slog.New(slog.DiscardHandler), time.After)
	h := &heard{broken: true} // it is in its pause, or between two tries
	b.Listen("x", h.do)
	if err := b.Publish(t.Context(), say("a")); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := bus.NotTaken(b.Publish(t.Context(), say("b")), 0); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("then it says %v", err)
	}
	_, before := h.look()
	b.Listen("y", h.do)
	if _, tries := h.look(); tries != before {
		t.Error("a listener of a closed bus is called")
	}
}
