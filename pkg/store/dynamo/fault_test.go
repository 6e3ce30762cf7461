package dynamo_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// A table that is throttled or away is a fault that says so: the step of a flow is
// tried again for it, and a person is not told of an internal error.
func TestATableThatIsAwayIsUnavailable(t *testing.T) {
	away := answer(503, `{"__type":"ServiceUnavailable","message":"m"}`)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		kind   fault.Kind
	}{
		"throttled": {failure("ThrottlingException"), fault.Unavailable},
		"too much":  {failure("ProvisionedThroughputExceededException"), fault.Unavailable},
		"away":      {away, fault.Unavailable},
		"refused":   {failure("AccessDeniedException"), fault.Unavailable},
		"missing":   {failure("ResourceNotFoundException"), fault.Unavailable},
		"expired":   {failure("ExpiredTokenException"), fault.Unavailable},
		"ours":      {failure("ValidationException"), fault.Internal},
	} {
		for op, call := range map[string]func(*testing.T, *wire) error{
			"get": func(t *testing.T, f *wire) error {
				_, err := start(t, f).Get(t.Context(), first.Item.Key)
				return err
			},
			"query": func(t *testing.T, f *wire) error {
				_, err := start(t, f).Query(t.Context(), store.Query{PK: project.PK})
				return err
			},
			"write":    func(t *testing.T, f *wire) error { return start(t, f).Transact(t.Context(), first) },
			"transact": func(t *testing.T, f *wire) error { return start(t, f).Transact(t.Context(), first, second) },
		} {
			t.Run(name+"/"+op, func(t *testing.T) {
				err := call(t, &wire{answers: []func(http.ResponseWriter){c.answer}})
				if got := fault.KindOf(err); err == nil || got != c.kind {
					t.Errorf("%q of %v, want %q", got, err, c.kind)
				}
			})
		}
	}
}

func TestContentionIsAFaultAndStillItself(t *testing.T) {
	err := start(t, &wire{answers: []func(http.ResponseWriter){canceled(conflict, none)}}).Transact(t.Context(), first, second)
	if !errors.Is(err, store.ErrContention) || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
}
