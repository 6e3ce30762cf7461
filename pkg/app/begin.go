package app

import (
	"context"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Begin is a request to run a turn.
type Begin struct {
	Verb   string
	On     task.Trigger
	Kind   turn.Kind
	Text   string // feedback or question, cleaned by the caller of begin
	Agent  string // overrides of start
	Model  string
	Effort string
	// Resolve decides raised items in the same transaction.
	Resolve []Resolution

	// Past lets the turn past the usage pause, where a person or the builder asked
	// for that (US-010, US-011).
	Past bool

	// payer is whose credentials the turn spends; nil leaves it with whom it was.
	payer *string
}

// Begun answers a request whose turn is claimed and durable.
type Begun struct {
	Task      id.Task `json:"task_id"`
	Code      string  `json:"code"`
	Turn      string  `json:"turn_id"`
	Operation string  `json:"operation_id"`
	Status    string  `json:"status"`
	Kind      string  `json:"turn_kind"`
	Comments  []int64 `json:"delivers_comments,omitempty"`

	Held   bool      `json:"held,omitempty"`
	Resets time.Time `json:"resets_at,omitzero"`
	Note   string    `json:"note,omitempty"`
}

// Start moves a backlog task to working (HA-001).
func (a *App) Start(ctx context.Context, c Call, word string, b Begin) (Begun, error) {
	b.Verb, b.On, b.Kind = "start", task.Start, turn.Work
	return a.begin(ctx, c, word, b)
}

// Unblock delivers feedback and runs a turn (HA-003, HA-004).
func (a *App) Unblock(ctx context.Context, c Call, word, feedback string, resolve []Resolution, past bool) (Begun, error) {
	if text.Blank(feedback) {
		return Begun{}, refusal.Of(refusal.FeedbackRequired)
	}
	return a.begin(ctx, c, word, Begin{
		Verb: "unblock", On: task.Unblock, Kind: turn.Work, Text: text.Prose(feedback), Resolve: resolve, Past: past,
	})
}

// Resume continues a stopped turn without feedback (HA-005).
func (a *App) Resume(ctx context.Context, c Call, word string, past bool) (Begun, error) {
	return a.begin(ctx, c, word, Begin{Verb: "resume", On: task.Resume, Kind: turn.Work, Past: past})
}

// Ask runs a read-only question turn and restores the status found (HA-009).
func (a *App) Ask(ctx context.Context, c Call, word, question string, past bool) (Begun, error) {
	if text.Blank(question) {
		return Begun{}, refusal.Of(refusal.InvalidArguments, "question", "a question", "nothing")
	}
	return a.begin(ctx, c, word, Begin{Verb: "ask", On: task.Ask, Kind: turn.Ask, Text: text.Prose(question), Past: past})
}

// begin claims the task's next epoch: one transaction checks the edge, stores the
// words as a turn, moves the status, and writes history and operation rows. The
// caller is answered only after it (SY-010). A loser of the race has written
// nothing and is told who won.
func (a *App) begin(ctx context.Context, c Call, word string, b Begin) (Begun, error) {
	t, err := a.target(ctx, c, word)
	if err != nil {
		return Begun{}, err
	}
	set, err := a.Settings(ctx, t.Tenant, t.Project)
	if err != nil {
		return Begun{}, err
	}
	opID, err := a.operationID(ctx, c)
	if err != nil {
		return Begun{}, err
	}
	if b.Past && c.Who.Kind == identity.Task {
		return Begun{}, refusal.Of(refusal.UsagePassDenied)
	}
	if b.payer, err = a.payerOf(ctx, c); err != nil {
		return Begun{}, err
	}
	var out Begun
	_, err = a.mutate(ctx, c, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if err := related(c, t); err != nil {
			return change{}, err
		}
		ch, err := a.claim(ctx, t, set, c.Actor(), opID, c.Who.Hash, b)
		if err != nil {
			return change{}, err
		}
		if len(b.Resolve) > 0 {
			ws, next, err := a.resolveRaised(ctx, c, ch.task, b.Resolve)
			if err != nil {
				return change{}, err
			}
			ch.task, ch.writes = next, append(ch.writes, ws...)
		}
		out = Begun{
			Task: t.ID, Code: t.Code, Turn: opID, Operation: opID,
			Status: string(ch.task.Status), Kind: string(b.Kind),
		}
		ch.result = out
		return ch, nil
	})
	if refusal.Is(err, refusal.UsagePaused) && c.Who.Kind == identity.Task && b.On == task.Start {
		return a.holdStart(ctx, c, t, b, err)
	}
	return out, err
}

// payerOf is whose credentials a turn begun by c spends: the person's behind the
// call, for an agent those of its own task.
func (a *App) payerOf(ctx context.Context, c Call) (*string, error) {
	if c.Who.Kind != identity.Task {
		return new(a.owns(c.Who.Email)), nil
	}
	own, _, err := a.loadTask(ctx, c.Who.Tenant, c.Who.Task())
	return &own.Payer, err
}

// claim builds the change that takes a task for a turn. It is used by people's
// verbs and by automatic resumes alike.
func (a *App) claim(ctx context.Context, t task.Task, set Settings, by identity.Actor, opID, caller string, b Begin) (change, error) {
	now := a.Now()
	ch := change{task: t}
	if t.Claimed && t.Status == task.Working {
		if t.Wait == nil || b.On != task.Unblock && b.On != task.Resume {
			return change{}, busy(t)
		}
		if err := a.cutWait(ctx, &ch, by, b.Verb); err != nil {
			return change{}, err
		}
	}
	if err := a.acceptRests(ctx, t, b.Verb); err != nil {
		return change{}, err
	}
	if t.Status == task.Merging {
		// The accept was given up by the system: bring the task to rest first (SM-034).
		if err := a.undo(&ch, by, "the accept was given up"); err != nil {
			return change{}, err
		}
	}
	if b.Agent != "" {
		ch.task.Agent = b.Agent
	}
	if b.Model != "" {
		ch.task.Model = b.Model
	}
	if b.Effort != "" {
		ch.task.Effort = b.Effort
	}
	if _, ok := set.Agents[ch.task.Agent]; !ok {
		return change{}, refusal.Of(refusal.InvalidArguments, "agent", "one of "+agentIDs(set), fmt.Sprintf("%q", ch.task.Agent))
	}
	if b.payer != nil {
		ch.task.Payer = *b.payer
	}
	if b.On == task.Ask && !t.HadSession {
		return change{}, fault.New(fault.Conflict, "%s never ran, so there is no record to answer from", t.Name()).WithNext("Start it first.")
	}
	prior := ch.task.Status
	if err := a.move(&ch, task.Change{
		To: task.Working, On: b.On, Actor: by, Turn: opID, At: now,
		Facts: task.Facts{Input: b.Text != "", Held: t.Hold},
	}); err != nil {
		return change{}, verbHint(err, t, b.On)
	}
	in, err := a.admit(ctx, ch.task, set, by, b.Past)
	if err != nil {
		return change{}, err
	}
	ch.writes = append(ch.writes, in.writes...)
	n := &ch.task
	n.Prior, n.Epoch, n.Claimed = prior, t.Epoch+1, true
	n.Turn, n.TurnKind, n.TurnBegan = id.Turn(opID), string(b.Kind), now
	n.TurnSeq = t.TurnSeq + 2 // the words, then the answer
	if n.Salt == "" {
		n.Salt = salt()
	}
	n.HadSession, n.Why, n.Then, n.Held, n.Wait, n.Host = true, "", nil, nil, nil, set.HostProcess
	if b.On == task.Unblock {
		n.Rounds++
	}
	switch {
	case b.On == task.AutoResume:
		n.Resumes++
	case b.Kind == turn.Work && by.Role != identity.System:
		n.Interruptions, n.Resumes, n.Launches, n.Hold = 0, 0, 0, false // CR-004
	}
	seq := n.TurnSeq - 1
	tr := turn.Turn{
		ID: n.Turn, Seq: seq, Side: turn.Input, Kind: b.Kind, Verb: b.Verb, Epoch: n.Epoch, N: 1,
		Actor: &by, Agent: n.Agent, Model: n.Model, Effort: n.Effort, Host: set.HostProcess,
		Journal: t.Journal, Receipt: "stored", Began: now, Gates: in.generation, Passed: in.passed,
	}
	if b.On == task.AutoResume {
		tr.Side = turn.Note
	}
	p := a.part(t)
	if b.Text != "" {
		tr.Body = fmt.Sprintf("turn-%08d", seq)
		w, err := a.putBody(ctx, t, tr.Body, b.Text)
		if err != nil {
			return change{}, err
		}
		ch.writes = append(ch.writes, w)
	}
	ch.writes = append(ch.writes, turnWrite(p.Turn(seq), tr, store.Absent()))
	ch.op = &Op{
		ID: opID, Kind: "turn", Verb: b.Verb, Project: t.Project, Task: t.ID, Seq: seq,
		Epoch: n.Epoch, Caller: caller, At: now,
	}
	ch.follow = true // the flow is started
	return ch, nil
}

func agentIDs(set Settings) string {
	s := ""
	for _, k := range sortedKeys(set.Agents) {
		if s != "" {
			s += ", "
		}
		s += k
	}
	return s
}

// verbHint adds the verb that does apply to a refused one.
func verbHint(err error, t task.Task, on task.Trigger) error {
	if !refusal.Is(err, refusal.StatusNotAllowed) {
		return err
	}
	e := fault.Of(err)
	switch t.Status {
	case task.Backlog:
		return e.WithNext("It has not started yet: start it.")
	case task.Submitted:
		if on == task.Resume || on == task.Ask {
			return e.WithNext("Resume continues a stopped turn (interrupted, blocked, conflict only). To send it back with feedback: unblock; to look at it: review.")
		}
		return e.WithNext("It awaits review: unblock it with feedback, or accept it.")
	case task.Interrupted:
		return e.WithNext("It was cut off: resume it, unblock it with feedback, or close it.")
	case task.Blocked, task.Conflict:
		return e.WithNext("It is at rest: unblock it with feedback, resume it, accept it, or close it.")
	case task.Working:
		return e.WithNext("Wait for it, or stop it.")
	case task.Complete, task.Abandoned:
		return e.WithNext("It is over: reopen it first.")
	case task.Pairing:
		return e.WithNext("End the pairing session first.")
	default:
		return e
	}
}
