// Package app holds the use cases, one file each. A use case reads what it needs
// with consistent reads, decides by the centre's tables, and commits state,
// history, live row and outbox in one conditional transaction; it knows no
// protocol and no technology.
package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/seal"
	"github.com/lazyplane/lazyplane/pkg/secret"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Deps is everything a use case may touch.
type Deps struct {
	Store  store.Store
	Blob   blob.Store
	Engine engine.Engine
	Repo   Repository
	// Repos is the repository of a project, as work on t needs it; t is zero where it
	// is about none. nil where there is one project only, whose repository Repo is.
	Repos    func(tenant, project string, t task.Task) Repository
	Runner   runner.Runner
	Settings func(ctx context.Context, tenant, project string) (Settings, error)
	Key      []byte // derives token texts
	Now      func() time.Time
	IDs      id.Gen
	Log      *slog.Logger
	Local    bool
	// Hop is the longest a request is held: 25 s hosted, 600 s local (RP-007).
	Hop time.Duration
	// After is the timer of waits; nil means the clock of the process.
	After func(time.Duration) <-chan time.Time
	// Publish is told of every outbox row after its commit. It only makes things
	// fast: the due index makes them true.
	Publish func(store.Key)
	// Moved is told of every change of a status after its commit; nil where the
	// table itself tells. It must not wait.
	Moved func(event.TaskMoved)
	// About is told which task a flow's step is about, once that is known; nil where
	// nobody wants to know.
	About func(context.Context, task.Task)
	// StopFile is a laptop's way to a ground stop without a control plane; nil where
	// there is none.
	StopFile StopFile
	// Secrets keeps model credentials; nil keeps them in the table.
	Secrets secret.Keeper
	// Seal makes a secret unreadable at rest; without it none is taken.
	Seal seal.Sealer
	// Provider names the model service that an agent spends a stored credential at
	// with that model, "" when it needs none; nil needs none ever.
	Provider func(agent, model string) string
}

// Settings is a project's configuration as use cases see it.
type Settings struct {
	Agents        map[string]Agent // by id
	DefaultAgent  string
	DefaultBranch string   // target of top-level tasks
	Protected     []string // path patterns that the file names; they seed the project's record
	Setup         string
	Copy          []string
	Network       string
	Limits        turn.Limits
	Publish       string // "submit" or "turn"
	Watchdog      time.Duration
	TokenBudget   int64 // tokens the turns of one task may spend in all; 0 is no bound
	TurnAge       time.Duration
	HostProcess   bool
	TinyLines     int
	TinyFiles     int
	Source        string  // the person's checkout, local mode
	UsagePause    float64 // percent of a plan's window at which nothing new starts; 0 is off
	Dashboard     string  // address of the web pages, "" when off or unknown
}

// Agent is a registered agent.
type Agent struct {
	ID      string
	Argv    []string
	Env     map[string]string
	Offered bool // every project has it, whether it names it or not
}

// App is the set of use cases over one set of dependencies.
type App struct {
	Deps
	hub   *hub
	lanes *lanes
}

// New returns the use cases over d.
func New(d Deps) *App {
	if d.After == nil {
		d.After = time.After
	}
	return &App{Deps: d, hub: newHub(), lanes: newLanes()}
}

// repoOf is a project's repository.
func (a *App) repoOf(tenant, project string) Repository {
	if a.Repos == nil {
		return a.Repo
	}
	return a.Repos(tenant, project, task.Task{})
}

// repo is the repository that a task's branch is in.
func (a *App) repo(t task.Task) Repository {
	if a.Repos == nil {
		return a.Repo
	}
	return a.Repos(t.Tenant, t.Project, t)
}

// Call is one authenticated request to a use case.
type Call struct {
	Who  identity.Caller
	Rule Rule
	Tool string // name under which the caller knows the operation
	Key  string // idempotency key; never empty for a write
	// Digest identifies the request under Key.
	Digest string
	// Code is the confirmation code the caller echoed, "" on a first call.
	Code string
	// Hold bounds how long this call may be held; 0 means the hop's own limit.
	Hold time.Duration
	// As is the role a local control caller asked to be recorded under (ID-014).
	As identity.Role
	// Phase, when set, receives narration. It never influences the outcome (OB-009).
	Phase func(Phase)
	// Operation is the id this call's operation gets if it begins one. The edge
	// draws it before any work, so that it can be announced with the first byte
	// (RP-007); a turn begun by the call has it as its id.
	Operation string
}

// Actor is what the call's records carry.
func (c Call) Actor() identity.Actor {
	a := c.Who.Actor()
	if c.Who.Kind == identity.Owner && c.As != "" && c.As != identity.Human {
		return identity.Actor{Role: c.As}
	}
	return a
}

// Phase is one step of a narrated operation (OB-001 to OB-018).
type Phase struct {
	N     int       `json:"n"`
	Of    int       `json:"of"`
	Name  string    `json:"name"`
	State string    `json:"state"` // planned, started, done, skipped, failed
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Reach is the relation of a task agent to the task it addresses.
type Reach uint8

// The relations a rule may admit.
const (
	Self Reach = 1 << iota
	Child
	Other
	Any = Self | Child | Other
)

// Rule says which tasks a task agent may address with an operation, and how it
// is refused otherwise. People and the builder meet no relation (CM-046).
type Rule struct {
	Agent Reach
	// Self, Else name the refusals for the caller's own task and for all others.
	Self string
	Else string
}
