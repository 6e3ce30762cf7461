// Package identity says who a request is from. Identity comes from the presented
// credential alone; a request that names another is refused, never corrected
// (CM-001).
package identity

import (
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
)

// Kind is a kind of credential (ID-013).
type Kind string

// The seven kinds.
const (
	Owner    Kind = "owner"
	User     Kind = "user"
	Session  Kind = "session"
	Operator Kind = "operator"
	Builder  Kind = "builder"
	Task     Kind = "task"
	Runner   Kind = "runner"
)

// Kinds lists all seven.
func Kinds() []Kind { return []Kind{Owner, User, Session, Operator, Builder, Task, Runner} }

// Role is the channel a record came through, never the author of its words (AC-001).
type Role string

// The five actors.
const (
	Human       Role = "human"
	BuilderRole Role = "builder"
	Agent       Role = "agent"
	System      Role = "system"
	Supervisor  Role = "supervisor"
)

// Roles lists all five.
func Roles() []Role { return []Role{Human, BuilderRole, Agent, System, Supervisor} }

// Actor is written on every record: the role, and the person where one is known.
type Actor struct {
	Role  Role   `json:"actor"`
	Email string `json:"actor_email,omitempty"`
	Name  string `json:"actor_name,omitempty"`
}

// String prints `Name <email>`, else the email, else the role (AC-009).
func (a Actor) String() string {
	switch {
	case a.Name != "" && a.Email != "":
		return a.Name + " <" + a.Email + ">"
	case a.Email != "":
		return a.Email
	case a.Role == "":
		return string(Human)
	default:
		return string(a.Role)
	}
}

// SystemActor is the control plane acting on its own.
func SystemActor() Actor { return Actor{Role: System} }

// Caller is an authenticated request's origin.
type Caller struct {
	Kind    Kind
	Tenant  string
	Project string
	Subject string // task id, builder label, or email, by kind
	Email   string
	Name    string
	Hash    string // SHA-256 of the token, the identity of the credential itself

	// Set for a runner, and for a task token relayed by a supervisor: the turn
	// that is calling. The stamp can narrow a call, never widen it (OT-017).
	Turn  id.Turn
	Epoch int64
	// Commit is the broker's evidence on a relayed lazy_commit.
	Commit *Commit
}

// Commit is what the git broker made for a lazy_commit, before the row that
// makes it durable exists (UW-013).
type Commit struct {
	Parent  string
	Commit  string
	Tree    string
	Drifted string // the HEAD found inside when it was not the recorded tip
	Bundle  string `json:",omitempty"` // where it lies in the task's vault, hosted
	Merged  string `json:",omitempty"` // the upstream whose merge it concludes
}

// Task returns the task a task or runner credential is bound to.
func (c Caller) Task() id.Task {
	if c.Kind == Task || c.Kind == Runner {
		return id.Task(c.Subject)
	}
	return ""
}

// Actor returns what the caller's records carry (CM-043).
func (c Caller) Actor() Actor {
	switch c.Kind {
	case Builder:
		return Actor{Role: BuilderRole}
	case Task:
		return Actor{Role: Agent}
	case Runner:
		return Actor{Role: Supervisor}
	case Owner, User, Session, Operator:
		return Actor{Role: Human, Email: c.Email, Name: c.Name}
	}
	return Actor{Role: System}
}

// Person reports whether a person is acting.
func (c Caller) Person() bool { return c.Kind == Owner || c.Kind == User || c.Kind == Session }

// Token is a stored credential: only the hash of its text is kept (ID-005).
type Token struct {
	Hash    string    `json:"hash"`
	Kind    Kind      `json:"kind"`
	Tenant  string    `json:"tenant"`
	Project string    `json:"project"`
	Subject string    `json:"subject"`
	Email   string    `json:"email,omitempty"`
	Name    string    `json:"name,omitempty"`
	Salt    string    `json:"salt"`
	Turn    id.Turn   `json:"turn,omitempty"`
	Epoch   int64     `json:"epoch,omitempty"`
	Created time.Time `json:"created"`
	Revoked time.Time `json:"revoked,omitzero"`
	Why     string    `json:"why,omitempty"` // accepted, rejected, closed
	// Set on the access token of a sign-in: when it is worth nothing any more, and
	// the sign-in whose refresh replaces it (LG-014).
	Expires time.Time `json:"expires,omitzero"`
	Family  string    `json:"family,omitempty"`
	// Unseen is set on one that a refresh gave until it is first used: the answer that
	// carried it may have been lost.
	Unseen bool `json:"unseen,omitempty"`
}
