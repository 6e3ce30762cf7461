// Package runner is the port to the place an agent executes: a Fargate task when
// hosted, a supervisor process on a laptop.
package runner

import (
	"context"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Spec is all a launch carries. The nonce is its only secret (AG-025).
type Spec struct {
	Tenant  string
	Project string
	Task    id.Task
	Turn    id.Turn
	Epoch   int64
	Nonce   string
	Host    bool // run the agent without a sandbox
	// Broker asks for the broker of an accept in place of a supervisor: trusted git,
	// and nothing of an agent (GT-023). Turn is then the accept's operation.
	Broker bool
}

// Sight is what can be said about a launched run. Only Gone is proof (SY-043).
type Sight string

// The sights.
const (
	Alive   Sight = "alive"
	Gone    Sight = "gone"
	Unclear Sight = "unclear"
)

// Report is an observation of a run.
type Report struct {
	Sight    Sight
	ExitCode int
	Reason   string
	Log      string // last lines, capped
	// Class says what kind of failure the end was, where the place of execution
	// knows it; "" elsewhere.
	Class turn.Class
}

// Runner launches runs and says what became of them. Launch is idempotent per
// task and epoch: launching again returns the same reference (B24). Find locates
// a run by our own tag when its reference was never stored.
type Runner interface {
	Launch(ctx context.Context, s Spec) (ref string, err error)
	Find(ctx context.Context, task id.Task, epoch int64) (ref string, ok bool, err error)
	Observe(ctx context.Context, ref string) (Report, error)
	Stop(ctx context.Context, ref, why string) error
}

// Finder is a Runner whose own records of launches are kept by tenant.
type Finder interface {
	FindIn(ctx context.Context, tenant string, task id.Task, epoch int64) (ref string, ok bool, err error)
}

// Find locates a run of a tenant's task.
func Find(ctx context.Context, r Runner, tenant string, task id.Task, epoch int64) (ref string, ok bool, err error) {
	if f, is := r.(Finder); is {
		return f.FindIn(ctx, tenant, task, epoch)
	}
	return r.Find(ctx, task, epoch)
}

// Ender is a Runner that keeps a place for a task between its runs, with whatever
// the agent left running there (AG-006).
type Ender interface {
	// EndTask ends that place. Ending a task that has none is a success.
	EndTask(ctx context.Context, task id.Task) error
}

// Seen is one run as the machine shows it, whatever the store says.
type Seen struct {
	Short string // of its task
	Epoch int64
	Sight Sight
	Place bool // the place of the task between runs, not a run
}

// Lister is a Runner that can list everything under its own tag, so that what
// nobody owns is found (SY-006).
type Lister interface {
	List(ctx context.Context) ([]Seen, error)
}
