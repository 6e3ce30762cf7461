package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/lazyplane/lazyplane/pkg/bus"
	busaws "github.com/lazyplane/lazyplane/pkg/bus/aws"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// newBus is the bus that the environment names.
func newBus(name string, session func(string) aws.Config) bus.Bus {
	if name == "" {
		return nobody{}
	}
	return busaws.New(eventbridge.NewFromConfig(session("EVENTBRIDGE")), name, time.After)
}

// Bus is where domain events are published.
func (p *Plane) Bus() bus.Bus { return p.bus }

// nobody is the bus of a function that was given none. It takes nothing, so that
// what it is handed comes again when it was given one.
type nobody struct{}

var _ bus.Bus = nobody{}

func (nobody) Publish(context.Context, ...event.Event) error {
	return fault.New(fault.Unavailable, "this function was given no event bus").
		WithNext("The stack is not deployed whole: it sets " + names.EnvBus + ".")
}
