package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// forBroker is what a run's token is stored for that waits for an accept's broker.
const forBroker = "broker"

// brokerFailed is what the token of a broker is failed with that could not do its
// work, and says so. The flow counts it among what another execution may better.
const brokerFailed = "Lazy.BrokerFailed"

// stepPlan computes and records the landing where git is at hand, as intent.v1
// does, and says so; a repository that the control plane keeps is merged by a
// broker of its own, which needs nothing of the kind (GT-023). One that has merged
// is not started again.
func (a *App) stepPlan(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil {
		return nil, err
	}
	if done {
		return decision{Verdict: "land"}, nil
	}
	if _, kept := a.repo(t).(Depot); !kept {
		return decision{Verdict: "land"}, a.intend(ctx, o, t)
	}
	if t.Accept.Commit != "" {
		head, err := a.repo(t).Tip(ctx, t.Target)
		if err != nil || head == t.Accept.Commit {
			return decision{Verdict: "land"}, err
		}
	}
	return decision{Verdict: forBroker}, nil
}

// stepBroker stores the task token and launches the broker of an accept, once: a
// repeated visit finds the one that was launched, and none is launched while
// another may still run (P7). One that ended without a word is succeeded under the
// next epoch, so that whatever it may still have on the way changes nothing.
func (a *App) stepBroker(ctx context.Context, p Payload) (any, error) {
	o, t, done, err := a.merging(ctx, p)
	if err != nil {
		return nil, err
	}
	if done {
		return nil, fault.New(fault.Conflict, "%s is complete already", t.Name())
	}
	r, ok, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return nil, err
	}
	next := !ok
	if ok {
		over, err := a.lookAtBroker(ctx, t, &r)
		if err != nil {
			return nil, err
		}
		if over {
			o.Epoch++
			next = true
		}
	}
	if next {
		if err := a.beginBroker(ctx, t, o, p); err != nil {
			return nil, err
		}
		r = turn.Run{}
	} else if err := a.expectBroker(ctx, t, o, p, r.Ref); err != nil {
		return nil, err
	}
	if r.Ref != "" || r.State == RunReported {
		return struct{}{}, nil
	}
	return struct{}{}, a.launchBroker(ctx, t, o)
}

// lookAtBroker says whether the broker of an epoch is over without having done its
// work. One that has is not; neither is one that was never launched.
func (a *App) lookAtBroker(ctx context.Context, t task.Task, r *turn.Run) (over bool, err error) {
	if r.State == RunReported && r.Refused != brokerFailed {
		return false, nil
	}
	rep, err := a.observe(ctx, t, r)
	if err != nil {
		return false, err
	}
	silent := r.Hello.IsZero() && a.Now().Sub(r.Launched) > names.Nonce || !r.Hello.IsZero() && a.Now().Sub(r.Beat) > names.Adoption
	switch {
	case rep.Sight == runner.Gone:
		return r.Ref != "", nil // without a reference there was no launch
	case r.State == RunReported:
		return false, fault.New(fault.Unavailable, "the broker of this accept has failed and not ended yet")
	case !silent:
		return false, nil
	}
	if err := a.Runner.Stop(ctx, r.Ref, "it is silent, and another one takes its place"); err != nil {
		return false, err
	}
	return false, fault.New(fault.Unavailable, "the broker of this accept has not ended yet")
}

// beginBroker writes down that a broker is about to be launched, under the epoch of
// the operation; a next one is claimed in the same transaction.
func (a *App) beginBroker(ctx context.Context, t task.Task, o Op, p Payload) error {
	now := a.Now()
	r := turn.Run{
		Task: t.ID, Turn: id.Turn(o.ID), Epoch: o.Epoch, N: p.N, State: RunLaunching, Claimed: now, Launched: now, Tip: t.Tip,
		Salt: salt(), Token: p.Token, TokenFor: forBroker, NonceUntil: now.Add(names.Nonce),
	}
	w := runWrite(a.part(t).Run(o.Epoch), r, 0)
	if o.Epoch == t.Epoch {
		_, err := a.commit(ctx, Call{}, t, change{task: t, silent: true, writes: []store.Write{w, a.holds(t)}})
		if _, lost := errors.AsType[*store.ConflictError](err); lost {
			err = fault.Wrap(fault.Unavailable, err, "a broker of this accept is being launched")
		}
		return err
	}
	_, err := a.mutate(ctx, Call{}, t.Tenant, t.ID, func(t task.Task) (change, error) {
		if t.Epoch != o.Epoch-1 || !t.Claimed || t.Status != task.Merging {
			return change{}, fault.New(fault.Unavailable, "another broker of this accept has been launched")
		}
		ch := change{task: t}
		ch.task.Epoch = o.Epoch
		moved, err := a.opMoved(ctx, t.Tenant, o)
		ch.writes = []store.Write{w, moved}
		return ch, err
	})
	return err
}

// expectBroker lets the broker that is there, or is launched now, answer this
// execution's token. ref is where it was found.
func (a *App) expectBroker(ctx context.Context, t task.Task, o Op, p Payload, ref string) error {
	return a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		r.Token, r.TokenFor, r.N, r.Ref = p.Token, forBroker, p.N, cmp.Or(r.Ref, ref)
		ch := change{}
		switch {
		case r.State == RunReported:
			ch.jobs = []Job{{Kind: AnswerToken, Name: fmt.Sprintf("broker-%d-%d", o.Epoch, p.N), Turn: p.Turn, Epoch: o.Epoch}}
		case r.Ref == "":
			r.State, r.Launched, r.NonceUntil = RunLaunching, a.Now(), a.Now().Add(names.Nonce)
		}
		return ch, true, nil
	})
}

func (a *App) launchBroker(ctx context.Context, t task.Task, o Op) error {
	r, _, err := a.loadRun(ctx, t, o.Epoch)
	if err != nil {
		return err
	}
	ref, err := a.Runner.Launch(ctx, runner.Spec{
		Tenant: t.Tenant, Project: t.Project, Task: t.ID, Turn: id.Turn(o.ID), Epoch: o.Epoch, Nonce: a.nonceOf(t, r), Broker: true,
	})
	if err != nil {
		a.alarm(ctx, names.MetricLaunch, "the broker of an accept could not be started", t, fault.Of(err).Public)
		return err
	}
	return a.driveRun(ctx, t, o.Epoch, func(r *turn.Run) (change, bool, error) {
		if r.Ref == ref {
			return change{}, false, nil
		}
		r.Ref = ref
		return change{}, true, nil
	})
}

// landing is what the broker of t's accept is told: where its target stands now, and
// where everything lies that it needs.
func (a *App) landing(ctx context.Context, t task.Task, d Depot) (*turn.Landing, error) {
	l, err := d.Landing(ctx, t)
	if err != nil {
		return nil, err
	}
	l.Task, l.Target, l.Base, l.Tip, l.When, l.Intent = t.ID, t.Target, t.Base, t.Tip, t.Accept.Began, t.Accept.Commit
	l.Title, l.Reason = described(t)
	return l, nil
}

// ofAccept reports whether a runner's credential is that of an accept's broker.
func ofAccept(t task.Task, who identity.Caller) bool {
	return t.Accept != nil && string(who.Turn) == t.Accept.Operation
}

// notOfAccept refuses to a broker what only the run of a turn may do: it can do its
// one merge and nothing else.
func notOfAccept(t task.Task, who identity.Caller) error {
	if !ofAccept(t, who) {
		return nil
	}
	return fault.New(fault.Denied, "this credential is for one merge of %s and for nothing else. Nothing was done.", t.Name())
}

// Land takes what a broker made of its landing: it records the commit as the one
// that is meant to land, and moves the target to it if it still stands where the
// commit was made for (AP-018, GT-023). If it does not, the answer is the landing
// anew. Told again, it finds done what was done.
func (a *App) Land(ctx context.Context, who identity.Caller, in turn.LandIn) (turn.LandOut, error) {
	if in.Turn != who.Turn || in.Epoch != who.Epoch {
		return turn.LandOut{}, refusal.Of(refusal.InvalidArguments, "turn_id, epoch", "those of this runner's token", "others")
	}
	t, held, err := a.mine(ctx, who)
	if err != nil {
		return turn.LandOut{}, err
	}
	d, kept := a.repo(t).(Depot)
	if !ofAccept(t, who) || !kept {
		return turn.LandOut{}, fault.New(fault.Denied, "this credential is not that of an accept's broker. Nothing was merged.")
	}
	if !held || t.Status != task.Merging {
		return turn.LandOut{}, fenced(t, who.Epoch)
	}
	r, ok, err := a.loadRun(ctx, t, who.Epoch)
	if err != nil {
		return turn.LandOut{}, err
	}
	if ok && r.State == RunReported {
		return turn.LandOut{Landed: r.Refused == ""}, nil
	}
	if in.Failed != "" {
		return turn.LandOut{}, a.brokerSaid(ctx, t, who.Epoch, refusedAs(in.Failed), in.Reason)
	}
	head, err := d.Tip(ctx, t.Target)
	if err != nil {
		return turn.LandOut{}, err
	}
	m := t.Accept
	switch {
	case m.Commit != "" && head == m.Commit:
		return turn.LandOut{Landed: true}, a.brokerSaid(ctx, t, who.Epoch, "", "")
	case in.Head != head, m.Commit != "" && m.Commit != in.Commit && m.Commit != in.Intent:
		return a.anew(ctx, t, d)
	case in.Landed && in.Intent == m.Commit && m.Commit != "":
		return turn.LandOut{Landed: true}, a.brokerSaid(ctx, t, who.Epoch, "", "")
	case len(in.Conflict) > 0:
		why := a.planFault(t, &MergeConflict{Files: capped(in.Conflict)})
		return turn.LandOut{}, a.brokerSaid(ctx, t, who.Epoch, engine.ErrorName(why), fault.Of(why).Public)
	}
	if err := made(t, in); err != nil {
		return turn.LandOut{}, err
	}
	if err := d.Adopt(ctx, t, in.Packs); err != nil {
		return turn.LandOut{}, err
	}
	if t, err = a.landMade(ctx, t, who, in); fault.Code(err) == moved {
		return a.anew(ctx, t, d)
	}
	if err != nil {
		return turn.LandOut{}, err
	}
	return turn.LandOut{Landed: true}, a.brokerSaid(ctx, t, who.Epoch, "", "")
}

// landMade records a broker's commit as the intent and lands it, under the lease of
// the target.
func (a *App) landMade(ctx context.Context, t task.Task, who identity.Caller, in turn.LandIn) (task.Task, error) {
	o := Op{ID: string(who.Turn), Epoch: who.Epoch}
	if m := t.Accept; m.Commit != in.Commit || m.TargetHead != in.Head || m.Tree != in.Tree {
		err := a.setAccept(ctx, o, t, func(m *task.MergePhase) {
			m.TargetHead, m.Tree, m.Commit, m.Step = in.Head, in.Tree, in.Commit, "intended"
		})
		if err != nil {
			return t, err
		}
		var ok bool
		if t, ok, err = a.loadTask(ctx, t.Tenant, t.ID); err != nil || !ok || t.Accept == nil || t.Accept.Commit != in.Commit {
			return t, errors.Join(err, fenced(t, who.Epoch))
		}
	}
	release, err := a.lease(ctx, t, "branch/"+t.Target, o.ID)
	if err != nil {
		return t, err
	}
	err = a.landOnce(ctx, t)
	release(err == nil)
	return t, err
}

// anew is the answer to a landing that was made for where its target stands no more.
func (a *App) anew(ctx context.Context, t task.Task, d Depot) (turn.LandOut, error) {
	l, err := a.landing(ctx, t, d)
	return turn.LandOut{Next: l}, err
}

// made checks the form of a commit and of its packs.
func made(t task.Task, in turn.LandIn) error {
	bad := func(field string) error {
		return refusal.Of(refusal.InvalidArguments, field, "what the landing of "+t.Name()+" led to", "something else")
	}
	if len(in.Commit) != len(t.Tip) || !turn.IsPack(turn.PackLand+"/"+in.Commit) {
		return bad("commit")
	}
	if len(in.Tree) != len(t.Tip) || !turn.IsPack(turn.PackLand+"/"+in.Tree) {
		return bad("tree")
	}
	of := map[string]string{turn.PackLand + "/" + in.Commit: in.Commit, turn.PackKept + "/" + t.Tip: t.Tip}
	for _, p := range in.Packs {
		if of[p.Name] == "" || of[p.Name] != p.Commit {
			return bad("packs")
		}
		delete(of, p.Name)
	}
	if of[turn.PackLand+"/"+in.Commit] != "" {
		return bad("packs") // nobody could have what is to land
	}
	return nil
}

// refusedAs is the error a broker's token is failed with: what no other try would
// mend gives the accept up, as the same fault of a step does.
func refusedAs(kind string) string {
	mending := []fault.Kind{fault.Conflict, fault.Failed, fault.Denied, fault.Invalid, fault.NotFound}
	if slices.Contains(mending, fault.Kind(kind)) {
		return engine.ErrorName(fault.New(fault.Kind(kind), ""))
	}
	return brokerFailed
}

// brokerSaid records how a broker ended, which its token is answered from. The first
// word counts.
func (a *App) brokerSaid(ctx context.Context, t task.Task, epoch int64, refused, why string) error {
	return a.driveRun(ctx, t, epoch, func(r *turn.Run) (change, bool, error) {
		if r.State == RunReported {
			return change{}, false, nil
		}
		r.State, r.Ended, r.Refused, r.Reason = RunReported, a.Now(), refused, cut(why, 900)
		return change{follow: true}, true, nil
	})
}

// vaultFor is the task in whose vault a run reads: its own, or, for the broker of an
// accept, that of a task which its own was cut from.
func (a *App) vaultFor(ctx context.Context, t task.Task, who identity.Caller, of id.Task) (task.Task, error) {
	if of == "" || of == t.ID {
		return t, nil
	}
	for k, more := t, ofAccept(t, who); more; {
		p, below, err := a.parentOf(ctx, k)
		if err != nil {
			return t, err
		}
		if below && p.ID == of {
			return p, nil
		}
		k, more = p, below
	}
	return t, fault.New(fault.Denied, "the commits of that task are not this run's to read")
}

// packUploads gives the broker of an accept links to store what it made under.
func (a *App) packUploads(t task.Task, who identity.Caller, in []turn.Parcel, link func(key string, size int64, sum [32]byte) error) error {
	if len(in) == 0 {
		return nil
	}
	if !ofAccept(t, who) {
		return fault.New(fault.Denied, "only the broker of an accept stores packs of the repository")
	}
	for _, p := range in {
		land := turn.IsPack(p.Name) && len(p.Name) == len(turn.PackLand)+1+len(t.Tip) && p.Name[:len(turn.PackLand)+1] == turn.PackLand+"/"
		switch {
		case !land && p.Name != turn.PackKept+"/"+t.Tip:
			return refusal.Of(refusal.InvalidArguments, "put_packs.name", "the name of a pack of this landing", fmt.Sprintf("%q", cut(p.Name, 60)))
		case len(p.SHA256) != 32:
			return refusal.Of(refusal.InvalidArguments, "put_packs.sha256", "32 bytes", fmt.Sprint(len(p.SHA256)))
		case p.Size <= 0 || p.Size > turn.BundleMost:
			return fault.New(fault.TooLarge, "a pack of %d bytes is not stored; the limit is %d", p.Size, turn.BundleMost)
		}
		if err := link(PackKey(t.Tenant, t.Project, p.Name), p.Size, [32]byte(p.SHA256)); err != nil {
			return err
		}
	}
	return nil
}
