package secret_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/secret"
)

func TestASecretIsShownByNothingButReveal(t *testing.T) {
	v := secret.NewValue([]byte("canary-4711"))
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&b, verb+" "+verb+" "+verb+"\n", v, &v, struct{ S secret.Value }{v})
	}
	if err := json.NewEncoder(&b).Encode(map[string]any{"a": v, "b": []secret.Value{v}}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&b, nil), slog.NewTextHandler(&b, nil)} {
		slog.New(h).Info("x", "v", v, "in", struct{ S secret.Value }{v})
	}
	shown := b.String()
	for _, no := range []string{"canary", "4711", fmt.Sprintf("%x", "canary"), fmt.Sprintf("%X", "canary"), "99 97 110", "Y2FuYXJ5"} {
		if strings.Contains(shown, no) {
			t.Errorf("it is shown as %q in\n%s", no, shown)
		}
	}
	if string(v.Reveal()) != "canary-4711" || !strings.Contains(shown, "***") {
		t.Errorf("revealed is %q; shown is\n%s", v.Reveal(), shown)
	}
}

// source answers by its fields and counts.
type source struct {
	value string
	err   error
	asked int
}

func (s *source) Read(context.Context, string, secret.Version) (secret.Value, error) {
	s.asked++
	return secret.NewValue([]byte(s.value)), s.err
}

func TestACacheIsBoundedInTimeAndNumber(t *testing.T) {
	now, src := time.Unix(0, 0), &source{value: "one"}
	c := secret.NewCache(src, func() time.Time { return now })
	read := func(name string) (string, error) {
		t.Helper()
		v, err := c.Read(t.Context(), name, secret.Current)
		return string(v.Reveal()), err
	}
	want := func(value string, asked int) {
		t.Helper()
		if got, err := read("a"); err != nil || got != value || src.asked != asked {
			t.Errorf("read is %q, %v after %d questions, want %q after %d", got, err, src.asked, value, asked)
		}
	}
	want("one", 1)
	src.value = "two"
	now = now.Add(secret.Fresh - time.Second)
	want("one", 1)
	now = now.Add(time.Second)
	want("two", 2) // replaced, it is in force within the bound
	src.value = "three"
	c.Forget("a")
	want("three", 3)

	// Its keeper is away: the last value serves for a while.
	src.err = fault.Wrap(fault.Unavailable, secret.ErrAway, "away")
	now = now.Add(secret.Stale - time.Second)
	want("three", 4)
	now = now.Add(time.Second)
	if got, err := read("a"); !errors.Is(err, secret.ErrAway) || got != "" {
		t.Errorf("after that it is %q, %v", got, err)
	}
	// It was taken away: the last value does not serve.
	src.err = nil
	want("three", 6)
	now = now.Add(secret.Fresh)
	src.err = fault.New(fault.Unavailable, "gone")
	if got, err := read("a"); err == nil || got != "" {
		t.Errorf("a secret that is gone is %q, %v", got, err)
	}
	src.err = fault.Wrap(fault.Unavailable, secret.ErrAway, "away")
	if got, err := read("a"); err == nil || got != "" {
		t.Errorf("a secret that was gone is %q, %v", got, err)
	}

	// Many names drop the oldest.
	src.err = nil
	for n := range 100 {
		now = now.Add(time.Millisecond)
		if _, err := read(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	was := src.asked
	if _, err := read("99"); err != nil || src.asked != was {
		t.Errorf("the newest is asked for again, %v", err)
	}
	if _, err := read("0"); err != nil || src.asked != was+1 {
		t.Errorf("the oldest of a hundred is kept, %v", err)
	}
}
