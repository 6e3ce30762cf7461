// Package aws is the bus port on Amazon EventBridge.
package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/lazyplane/lazyplane/pkg/bus"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// The service takes so many entries, and so many bytes of them, in one request.
const (
	maxEntries = 10
	maxBytes   = bus.MaxEntry
)

// Tries of one entry within a call. Whoever published has more patience.
const (
	tries = 3
	pause = 100 * time.Millisecond
)

// Bus is one event bus.
type Bus struct {
	api   *eventbridge.Client
	name  string
	after func(time.Duration) <-chan time.Time
}

var _ bus.Bus = (*Bus)(nil)

// New returns the bus of that name. after is the timer between two tries.
func New(api *eventbridge.Client, name string, after func(time.Duration) <-chan time.Time) *Bus {
	return &Bus{api: api, name: name, after: after}
}

// Publish implements bus.Bus. The service answers a request with success although
// it did not take all of its entries; those, and those alone, are sent again.
func (b *Bus) Publish(ctx context.Context, all ...event.Event) error {
	refused := map[int]error{}
	var open []int
	for i, e := range all {
		if err := bus.Check(e); err != nil {
			refused[i] = err
			continue
		}
		open = append(open, i)
	}
	for n := 0; len(open) > 0; n++ {
		if n > 0 {
			select {
			case <-b.after(pause << n):
			case <-ctx.Done():
			}
		}
		var again []int
		for _, part := range parts(all, open) {
			for i, err := range b.put(ctx, all, part) {
				refused[i] = err
				if fault.KindOf(err) != fault.Invalid && n+1 < tries && ctx.Err() == nil {
					again = append(again, i)
				}
			}
		}
		slices.Sort(again)
		for _, i := range again {
			delete(refused, i)
		}
		open = again
	}
	if len(refused) > 0 {
		return &bus.NotTakenError{Why: refused}
	}
	return nil
}

// parts cuts the events at the positions in open into what a request may hold.
func parts(all []event.Event, open []int) [][]int {
	var out [][]int
	bytes := 0
	for _, i := range open {
		n := bus.Size(all[i])
		if len(out) == 0 || len(out[len(out)-1]) == maxEntries || bytes+n > maxBytes {
			out, bytes = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], i)
		bytes += n
	}
	return out
}

// put makes one request and returns why which events were not taken.
func (b *Bus) put(ctx context.Context, all []event.Event, part []int) map[int]error {
	in := &eventbridge.PutEventsInput{}
	for _, i := range part {
		e := all[i]
		entry := types.PutEventsRequestEntry{
			EventBusName: &b.name, Source: aws.String(event.Source), DetailType: &e.Type, Detail: aws.String(string(e.Detail)),
		}
		if !e.At.IsZero() {
			entry.Time = &e.At
		}
		in.Entries = append(in.Entries, entry)
	}
	out, err := b.api.PutEvents(ctx, in)
	refused := map[int]error{}
	if err == nil && out.FailedEntryCount > 0 && len(out.Entries) != len(part) {
		err = fmt.Errorf("%d of %d entries failed, and %d are told of", out.FailedEntryCount, len(part), len(out.Entries))
	}
	if err != nil {
		err = explain(err)
		for _, i := range part {
			refused[i] = err
		}
		return refused
	}
	if out.FailedEntryCount == 0 {
		return nil
	}
	for at, e := range out.Entries {
		if code := aws.ToString(e.ErrorCode); code != "" {
			refused[part[at]] = entryFault(code, aws.ToString(e.ErrorMessage))
		}
	}
	return refused
}

// hopeless are the codes of entries that are refused for what they are.
func hopeless() []string {
	return []string{
		"InvalidArgument", "MalformedDetail", "NotAuthorizedForDetailTypeException", "NotAuthorizedForSourceException", "RedactionFailure",
	}
}

func entryFault(code, message string) error {
	err := fmt.Errorf("%s: %s", code, message)
	if slices.Contains(hopeless(), code) {
		return fault.Wrap(fault.Invalid, err, "the event bus refuses this event (%s)", code)
	}
	return fault.Wrap(fault.Unavailable, err, "the event bus did not take this event (%s)", code)
}

// explain tells what the same call may overcome later from what it never will.
func explain(err error) error {
	if e := fault.Deployment(err, "the event bus"); e != nil {
		return e
	}
	for _, r := range retry.DefaultRetryables {
		if r.IsErrorRetryable(err) == aws.TrueTernary {
			return fault.Wrap(fault.Unavailable, err, "the event bus does not answer at the moment")
		}
	}
	return fmt.Errorf("publish events: %w", err)
}
