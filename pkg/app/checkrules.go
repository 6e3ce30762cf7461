package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// verdicts collects what is wrong with one task.
type verdicts struct {
	task string
	all  []Finding
}

func (v *verdicts) add(promise, next, format string, args ...any) {
	v.all = append(v.all, Finding{promise, v.task, fmt.Sprintf(format, args...), next})
}

func (a *App) checkTask(ctx context.Context, p *partition, live store.Item, listed bool, w surroundings) ([]Finding, error) {
	v := &verdicts{task: p.task.Name()}
	for _, s := range p.strange {
		v.add("P2", "", "%s", s)
	}
	p.checkHistory(v)
	p.checkLive(v, live, listed)
	p.checkClaim(v, a, w)
	p.checkRows(v)
	p.checkWords(v)
	return v.all, errors.Join(a.checkBodies(ctx, p, v), a.checkGit(ctx, p, v, w))
}

// checkHistory walks the record of status changes (P2).
func (p *partition) checkHistory(v *verdicts) {
	t, at := p.task, task.None
	version := int64(0)
	for i, h := range p.history {
		if h.From != at {
			v.add("P2", "", "change %d begins at %s, but the one before ended at %s", i+1, h.From, at)
		}
		known := slices.ContainsFunc(task.Edges(), func(e task.Edge) bool {
			return e.ID == h.Edge && e.From == h.From && e.To == h.To && slices.Contains(e.On, h.Trigger) && slices.Contains(e.By, h.Actor.Role)
		})
		if !known {
			v.add("P2", "", "change %d (%s to %s, %s by %s) is no edge of the table", i+1, h.From, h.To, h.Trigger, h.Actor.Role)
		}
		if h.Version < version || h.Version > t.Version {
			v.add("P2", "", "change %d is of version %d, after %d, of a task at version %d", i+1, h.Version, version, t.Version)
		}
		at, version = h.To, h.Version
	}
	if at != t.Status {
		v.add("P2", "", "its history ends at %s and its status is %s", at, t.Status)
	}
}

// checkLive compares the list row with the task (P2).
func (p *partition) checkLive(v *verdicts, live store.Item, listed bool) {
	switch {
	case p.task.Status.Terminal() && listed:
		v.add("P2", "", "it is %s and still on the list of live tasks", p.task.Status)
	case !p.task.Status.Terminal() && !listed:
		v.add("P2", "", "it is %s and not on the list of live tasks", p.task.Status)
	case listed:
		l, err := decode[Live](live)
		if err != nil {
			v.add("P2", "", "its list row cannot be read: %v", err)
			return
		}
		want := liveOf(p.task)
		if p.task.Status == task.Working {
			l.Commits, want.Commits = 0, 0 // a listing reads them off the task while it works
		}
		for _, d := range differing(l, want) {
			v.add("P2", "", "its list row and its record differ: %s", d)
		}
	}
}

// differing lists the fields in which two list rows differ. When it last changed
// is not one: a change that a list does not show leaves the row alone.
func differing(a, b Live) []string {
	a.Updated, b.Updated = time.Time{}, time.Time{}
	fields := func(l Live) (m map[string]json.RawMessage) {
		_ = json.Unmarshal(encode(l), &m) // a record that was just encoded
		return m
	}
	was, is := fields(a), fields(b)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if string(was[k]) != string(is[k]) {
			out = append(out, fmt.Sprintf("%s is %s and %s", k, was[k], is[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[k]; !ok {
			out = append(out, fmt.Sprintf("%s is %s and absent", k, was[k]))
		}
	}
	return out
}

// checkClaim looks at who holds the task and what of it runs (P1, P7).
func (p *partition) checkClaim(v *verdicts, a *App, w surroundings) {
	t := p.task
	held := t.Status == task.Working || t.Status == task.Merging || t.Status == task.Pairing
	if t.Claimed != held {
		v.add("P1", "", "it is %s and its epoch %d is held: %t", t.Status, t.Epoch, t.Claimed)
	}
	if t.Claimed && !p.due {
		v.add("P9", "", "it is %s and nothing will ever look at it again", t.Status)
	}
	for _, k := range p.undue {
		v.add("P11", "", "outbox row %s is not due at any time, so a lost hint loses its work", k)
	}
	alive := 0
	for _, s := range w.runs {
		if s.Short != t.ID.Short() || s.Place {
			continue
		}
		if s.Sight == runner.Alive {
			alive++
		}
		switch {
		case t.Status.Terminal():
			v.add("P7", "", "run %d goes on although the task is %s", s.Epoch, t.Status)
		case s.Epoch != t.Epoch || !t.Claimed:
			r, ok := p.answers[s.Epoch]
			if ok && r.Epoch == s.Epoch && s.Epoch == t.Epoch {
				continue // it has reported and is on its way out
			}
			v.add("P7", "lazy stop "+t.Name(), "run %d goes on although the task is at epoch %d (held: %t)", s.Epoch, t.Epoch, t.Claimed)
		}
	}
	if alive > 1 {
		v.add("P1", "lazy stop "+t.Name(), "%d runs of it are alive", alive)
	}
	if t.Claimed && t.Status == task.Working && t.Wait == nil {
		if !p.claimed(t.Epoch) {
			v.add("P9", "", "epoch %d is held by a turn that has no record", t.Epoch)
		}
		if now := a.Now(); now.Sub(t.Updated) > overdueBy && !slices.ContainsFunc(w.runs, func(s runner.Seen) bool { return s.Short == t.ID.Short() }) {
			v.add("P9", "lazy plane restart", "it is working since %s and no process of it exists", t.Updated.UTC().Format("2006-01-02 15:04:05"))
		}
	}
}

// checkRows finds what a refused or lost request left behind (P6), and gaps.
func (p *partition) checkRows(v *verdicts) {
	t := p.task
	seen := map[int64]int{}
	for _, tr := range p.turns {
		if tr.Seq > t.TurnSeq {
			v.add("P6", "", "turn %d was written although the task counts %d", tr.Seq, t.TurnSeq)
		}
		if tr.Epoch > t.Epoch {
			v.add("P6", "", "turn %d is of epoch %d, which was never claimed", tr.Seq, tr.Epoch)
		}
		if tr.Side == turn.Input || tr.Side == turn.Note {
			seen[tr.Epoch]++
		}
	}
	for e, n := range seen {
		if n > 1 && e > 0 {
			v.add("P1", "", "epoch %d was claimed by %d turns", e, n)
		}
	}
	for _, r := range p.runs {
		if r.Epoch > t.Epoch {
			v.add("P6", "", "run %d was written although the task is at epoch %d", r.Epoch, t.Epoch)
		}
	}
	for e := range p.answers {
		if !p.claimed(e) {
			v.add("P9", "", "there is an answer of epoch %d, which no turn claimed", e)
		}
	}
	for _, c := range p.commits {
		if c.Commit == "" || c.Parent == "" {
			v.add("P9", "", "the row of a commit names no commit")
		}
	}
}

// claimed reports whether an epoch was begun by a turn, or by the next run of one
// that had waited.
func (p *partition) claimed(epoch int64) bool {
	return slices.ContainsFunc(p.turns, func(tr turn.Turn) bool { return tr.Epoch == epoch }) ||
		slices.ContainsFunc(p.runs, func(r turn.Run) bool { return r.Epoch == epoch })
}

// checkWords follows the words people typed (P3): whatever a turn that ended
// normally was given is delivered, and each turn that ended has its own record.
func (p *partition) checkWords(v *verdicts) {
	t := p.task
	inputs := map[string]turn.Turn{}
	for _, tr := range p.turns {
		if tr.Side == turn.Input || tr.Side == turn.Note {
			inputs[string(tr.ID)] = tr
			if tr.Body != "" {
				if _, ok := p.bodies[tr.Body]; !ok {
					v.add("P3", "", "the words of turn %d are not stored", tr.Seq)
				}
			}
		}
	}
	for _, tr := range p.turns {
		if tr.Side != turn.Answer || tr.Outcome != "ok" {
			continue
		}
		in, ok := inputs[string(tr.Answers)]
		if !ok {
			v.add("P3", "", "turn %d answers a turn that is not there", tr.Seq)
			continue
		}
		if !slices.ContainsFunc(p.runs, func(r turn.Run) bool {
			_, stored := p.bodies[cmp.Or(r.PromptBody, promptOf(in.Seq))]
			return r.Epoch == in.Epoch && (stored || r.Prompt != "")
		}) {
			v.add("P3", "", "the prompt of turn %d is not stored", in.Seq)
		}
		if t.Epoch == tr.Epoch && t.Claimed {
			continue // its end is being settled
		}
		if !in.Delivered(tr.Normal) {
			v.add("P3", "lazy show "+t.Name(), "turn %d was answered and the words it carried are not marked delivered", in.Seq)
		}
	}
	for _, in := range inputs {
		if in.Epoch == 0 || in.ID == t.Turn && t.Claimed && t.Status != task.Merging {
			continue
		}
		if !slices.ContainsFunc(p.turns, func(tr turn.Turn) bool {
			return tr.Answers == in.ID && (tr.Side == turn.Answer || tr.Side == turn.Crash)
		}) {
			v.add("P9", "lazy show "+t.Name(), "turn %d ended and left no record of its end", in.Seq)
		}
	}
}

func (a *App) checkBodies(ctx context.Context, p *partition, v *verdicts) error {
	for name, b := range p.bodies {
		if b.Blob == "" {
			continue
		}
		if _, err := a.Blob.Get(ctx, b.Blob); errors.Is(err, blob.ErrNotFound) {
			v.add("P9", "", "the text %s is not in the blob store", name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkGit compares the records with the repository (P4, P9).
func (a *App) checkGit(ctx context.Context, p *partition, v *verdicts, w surroundings) error {
	in, ok := a.repo(p.task).(Inspector)
	if !ok {
		return nil
	}
	t := p.task
	if _, err := a.repo(t).Tip(ctx, t.Target); fault.KindOf(err) == fault.NotFound {
		return nil // it went into the branch of a task that ended itself
	} else if err != nil {
		return err
	}
	if acc := t.Accept; acc != nil && acc.Commit != "" {
		landed, err := a.repo(t).Contains(ctx, t.Target, acc.Commit)
		if err != nil {
			return err
		}
		switch {
		case t.Status == task.Complete && t.Merge == acc.Commit && !landed:
			v.add("P4", "git log "+t.Target, "it is complete, and %s does not contain its merge %s", t.Target, short(acc.Commit))
		case t.Status != task.Complete && t.Status != task.Merging && landed && acc.Step != "complete":
			// A completed accept that is followed by a reopen is history.
			v.add("P4", "lazy show "+t.Name(), "it is %s, and %s contains the merge %s of its accept", t.Status, t.Target, short(acc.Commit))
		}
	}
	n, err := in.Landings(ctx, t.Target, t.ID)
	if err != nil {
		return err
	}
	if most := p.accepts(); n > most {
		v.add("P4", "git log "+t.Target, "%s has %d merges of it, and it was completed %d times", t.Target, n, most)
	}
	if t.Status.Terminal() || t.Tip == "" || t.Workspace == nil {
		return nil
	}
	head, ok := w.branches[t.Branch]
	switch {
	case !ok:
		v.add("P9", "git branch "+t.Branch+" "+short(t.Tip), "its branch %s is gone; its work is commit %s", t.Branch, short(t.Tip))
	case head != t.Tip && !t.Claimed && !p.unfinished(head):
		v.add("P9", "lazy show "+t.Name(), "its branch is at %s and its record at %s", short(head), short(t.Tip))
	}
	return nil
}

// accepts counts the merges the history allows: the completed ones and the one in
// flight.
func (p *partition) accepts() int {
	n := 0
	for _, h := range p.history {
		if h.Trigger == task.Landed {
			n++
		}
	}
	if p.task.Status == task.Merging {
		n++
	}
	return n
}

// unfinished reports whether the branch still stands before the recorded commits
// of a run that died: the next turn or the accept finishes them (UW-013).
func (p *partition) unfinished(head string) bool {
	return slices.ContainsFunc(p.commits, func(c CommitRow) bool { return c.Parent == head })
}

// checkWorld finds what belongs to nobody, or to a task that ended.
func (a *App) checkWorld(known map[string]task.Task, w surroundings) []Finding {
	v := &verdicts{}
	byBranch := map[string]task.Task{}
	for _, t := range known {
		byBranch[t.Branch] = t
	}
	for b, head := range w.branches {
		t, ok := byBranch[b]
		switch {
		case !ok && strings.HasPrefix(b, "lazy/"):
			v.task = ""
			v.add("P9", "git branch -D "+b, "branch %s (%s) belongs to no task", b, short(head))
		case ok && t.Status.Terminal() && t.Workspace == nil && head == t.Tip && t.Epoch > 0:
			v.task = t.Name()
			v.add("P9", "git branch -D "+b, "branch %s of a task that is %s was left behind", b, t.Status)
		}
	}
	for _, s := range w.places {
		t, ok := known[s]
		switch {
		case !ok:
			v.task = s
			v.add("P9", "", "a workspace belongs to no task")
		case t.Status.Terminal() && t.Workspace == nil:
			v.task = t.Name()
			v.add("P9", "", "the workspace of a task that is %s was left behind", t.Status)
		}
	}
	for _, s := range w.runs {
		t, ok := known[s.Short]
		v.task = s.Short
		switch {
		case !ok:
			v.add("P7", "", "run %d belongs to no task", s.Epoch)
		case s.Place && t.Status.Terminal() && t.Workspace == nil:
			v.task = t.Name()
			v.add("P7", "", "the sandbox of a task that is %s still runs", t.Status)
		}
	}
	return v.all
}
