// Package bus is the port to whoever wants to be told what happened. Telling
// makes nothing true: the rows of the table are, and who must miss nothing reads
// those. The adapters in bus/local and bus/aws are held to the same contract by
// bus/bustest.
package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// MaxEntry is the most bytes of an event, as Size counts them.
const MaxEntry = 256 << 10

// Bus tells of events.
type Bus interface {
	// Publish returns once each event was taken, and *NotTakenError when some were
	// not. One that was taken is delivered at least once to each listener that asked
	// for its like; in which order is not promised. One that is refused is no reason
	// to refuse another.
	Publish(ctx context.Context, all ...event.Event) error
}

// NotTakenError says which events of a call were not taken, and why: fault.Invalid
// for one that never will be, anything else for one to be published again.
type NotTakenError struct {
	Why map[int]error // by their position
}

// Error lists the first few.
func (e *NotTakenError) Error() string {
	var some []string
	for _, i := range slices.Sorted(maps.Keys(e.Why)) {
		if len(some) == 3 {
			some = append(some, "…")
			break
		}
		some = append(some, fmt.Sprintf("event %d: %v", i, e.Why[i]))
	}
	return fmt.Sprintf("bus: %d events were not taken: %s", len(e.Why), strings.Join(some, "; "))
}

// Unwrap gives the reasons.
func (e *NotTakenError) Unwrap() []error {
	var all []error
	for _, i := range slices.Sorted(maps.Keys(e.Why)) {
		all = append(all, e.Why[i])
	}
	return all
}

// NotTaken returns why the event at position i of a Publish that gave err was not
// taken, nil when it was.
func NotTaken(err error, i int) error {
	if err == nil {
		return nil
	}
	if some, ok := errors.AsType[*NotTakenError](err); ok {
		return some.Why[i]
	}
	return err
}

// Size is how many bytes the service counts of an event.
func Size(e event.Event) int {
	n := len(event.Source) + len(e.Type) + len(e.Detail)
	if !e.At.IsZero() {
		n += 14
	}
	return n
}

// Check refuses an event that no bus takes.
func Check(e event.Event) error {
	if e.Type == "" {
		return fault.New(fault.Invalid, "an event without a type")
	}
	if n := Size(e); n > MaxEntry {
		return fault.New(fault.Invalid, "an event of %d bytes is longer than the %d that a bus takes", n, MaxEntry)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(e.Detail, &object); err != nil || object == nil {
		return fault.Wrap(fault.Invalid, err, "the detail of an event of type %q is no JSON object", e.Type)
	}
	return nil
}
