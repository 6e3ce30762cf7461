package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestEveryKindHasItsStatusExitCodeAndRetry(t *testing.T) {
	req.Covers(t, "HA-035", "OT-052", "P12")
	want := map[fault.Kind][3]any{
		fault.Invalid: {400, 2, false}, fault.Unauthenticated: {401, 4, false}, fault.Denied: {403, 2, false},
		fault.NotFound: {404, 2, false}, fault.Conflict: {409, 2, false}, fault.TooLarge: {413, 2, false},
		fault.Limited: {429, 2, true}, fault.Failed: {409, 1, false}, fault.Internal: {500, 1, false},
		fault.Unavailable: {503, 1, true},
	}
	if len(fault.Kinds()) != len(want) {
		t.Fatalf("%d kinds, want %d", len(fault.Kinds()), len(want))
	}
	for _, k := range fault.Kinds() {
		err := fmt.Errorf("wrapped: %w", fault.New(k, "x"))
		got := [3]any{fault.HTTP(err), fault.Exit(err), fault.Retryable(err)}
		if got != want[k] {
			t.Errorf("%s is %v, want %v", k, got, want[k])
		}
		if fault.KindOf(err) != k || fault.Code(err) != string(k) {
			t.Errorf("%s reads as %s %s", k, fault.KindOf(err), fault.Code(err))
		}
	}
	if fault.HTTP(nil) != 200 || fault.Exit(nil) != 0 || fault.Retryable(nil) || fault.KindOf(nil) != "" || fault.Code(nil) != "" || fault.Of(nil) != nil {
		t.Error("no error is not a success")
	}
}

func TestAnUnknownErrorIsInternalAndSaysNothingOfItsCause(t *testing.T) {
	cause := errors.New("password=hunter2")
	e := fault.Of(cause)
	if e.Kind != fault.Internal || e.Public != "internal error" || !errors.Is(e, cause) {
		t.Errorf("%+v", e)
	}
	if w := fault.Wrap(fault.Conflict, cause, "moved"); w.Public != "moved" || !strings.Contains(w.Error(), "hunter2") || !errors.Is(w, cause) {
		t.Errorf("%+v", w)
	}
	if got := fault.New(fault.Invalid, "only %d", 1).Error(); got != "only 1" {
		t.Errorf("%q", got)
	}
}

func TestAdviceAndDetailsAreAddedToACopy(t *testing.T) {
	base := fault.New(fault.Conflict, "x")
	two := base.WithNext("a").WithDetail("k", 1).WithDetail("l", 2).WithNext("b")
	if len(base.Next) != 0 || base.Details != nil {
		t.Error("the original was changed")
	}
	if len(two.Next) != 2 || two.Next[1].Text != "b" || two.Details["k"] != 1 || two.Details["l"] != 2 {
		t.Errorf("%+v", two)
	}
}

func TestABareErrorMatchesByCode(t *testing.T) {
	err := fmt.Errorf("deep: %w", fault.New(fault.Conflict, "words"))
	if !errors.Is(err, &fault.Error{Code: "conflict"}) {
		t.Error("a bare code does not match")
	}
	if errors.Is(err, &fault.Error{Code: "conflict", Public: "other words"}) || errors.Is(err, &fault.Error{Code: "denied"}) {
		t.Error("something else matches")
	}
}

func TestAKindIsReadBackFromAStatus(t *testing.T) {
	for status, want := range map[int]fault.Kind{
		400: fault.Invalid, 401: fault.Unauthenticated, 409: fault.Conflict, 413: fault.TooLarge,
		429: fault.Limited, 500: fault.Internal, 502: fault.Internal, 503: fault.Unavailable, 418: fault.Invalid,
	} {
		if got := fault.FromHTTP(status); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}
