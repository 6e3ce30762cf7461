package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Depot is a Repository that the control plane keeps itself, where no forge has
// it: people bring their commits to it and take them from it as bundles.
type Depot interface {
	Repository
	// Branches lists the branches with their heads; main is the one that new tasks
	// aim at, "" before the first push.
	Branches(ctx context.Context) (all []Branch, main string, err error)
	// Take imports what was uploaded for a push and moves its branch, on condition
	// that it stands where the push expects it. Taking it again is a success.
	Take(ctx context.Context, t Transfer) error
	// Give puts the commits that a pull lacks where it may download them. A size of 0
	// says that it lacks none.
	Give(ctx context.Context, t Transfer) (size int64, err error)
	// Packs is what a run needs to have the repository in its container.
	Packs(ctx context.Context) (*turn.Repository, error)
	// Landing is what a broker needs to put t on its target where that stands now:
	// the head, the packs, the commits that are in none, the author.
	Landing(ctx context.Context, t task.Task) (*turn.Landing, error)
	// Adopt makes packs that t's broker has stored the repository's. Adopting one again
	// is a success.
	Adopt(ctx context.Context, t task.Task, packs []turn.Pack) error
}

// Branch is a branch of a hosted project's repository.
type Branch struct {
	Name string    `json:"name" jsonschema:"its name"`
	Head string    `json:"head" jsonschema:"the commit it stands at"`
	Task id.Task   `json:"task_id,omitempty" jsonschema:"the task whose branch it is"`
	At   time.Time `json:"at,omitzero" jsonschema:"when it was moved last"`
}

// BranchList answers listBranches.
type BranchList struct {
	Main     string   `json:"main" jsonschema:"the branch that new tasks aim at; empty before the first push"`
	Branches []Branch `json:"branches" jsonschema:"all branches, tasks' own among them"`
}

// Transfer is a bundle of commits on its way between a person's clone and a hosted
// project's repository.
type Transfer struct {
	ID       string         `json:"id"`
	Tenant   string         `json:"tenant"`
	Project  string         `json:"project"`
	Way      string         `json:"way"` // push or pull
	Branch   string         `json:"branch"`
	Head     string         `json:"head"`             // of the branch, after it
	Expect   string         `json:"expect,omitempty"` // where a push expects the branch; "" nowhere
	Force    bool           `json:"force,omitempty"`  // the branch may lose commits
	Have     []string       `json:"have,omitempty"`   // commits that whoever pulls has
	Size     int64          `json:"size,omitempty"`
	SHA256   []byte         `json:"sha256,omitempty"`
	State    string         `json:"state"` // open, ordered, done, failed
	Failure  *lastingError  `json:"failure,omitempty"`
	Attempts int            `json:"attempts,omitempty"`
	Actor    identity.Actor `json:"by"`
	At       time.Time      `json:"at"`
	Version  int64          `json:"version"`
}

// The ways and states of a transfer.
const (
	wayPush = "push"
	wayPull = "pull"

	transferOpen    = "open"
	transferOrdered = "ordered"
	transferDone    = "done"
	transferFailed  = "failed"
)

// FlowTransfer names what does the work of a transfer: the row itself is its order,
// as an outbox row is.
const FlowTransfer = "transfer"

// lastingError is a refusal as it is kept until somebody asks.
type lastingError struct {
	Kind   fault.Kind   `json:"kind"`
	Code   string       `json:"code"`
	Public string       `json:"message"`
	Next   []fault.Next `json:"next,omitempty"`
}

// Limits of transfers.
const (
	// TransferMost is the most bytes of one bundle: what one step can take in.
	TransferMost  = turn.BundleMost
	transferTries = 5
	transferLife  = 24 * time.Hour // of one that nobody finishes, and of a download
	transferLook  = time.Second
	transferHave  = 100
)

// PushIn begins a push.
type PushIn struct {
	Branch string
	Head   string
	Expect string
	Force  bool
	Size   int64
	SHA256 string // hex
}

// Transferred answers pushBranch, finishPush and pullBranch.
type Transferred struct {
	ID     string     `json:"push_id,omitempty" jsonschema:"the push, for finishPush"`
	Branch string     `json:"branch" jsonschema:"the branch"`
	Head   string     `json:"head" jsonschema:"the commit it stands at, or is to stand at"`
	State  string     `json:"state" jsonschema:"open until everything is uploaded, ordered while it is being worked on (ask again), done"`
	Link   *turn.Link `json:"link,omitempty" jsonschema:"where to upload to or download from; nothing when there is nothing to move"`
}

var (
	commitName = pattern.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	transferID = pattern.New(`^[0-9a-f]{32}$`)
	// sharedName is what people may call a branch of a hosted repository: those of
	// tasks are not theirs to move.
	sharedName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}$`)
)

func cleanBranch(name string, own bool) error {
	bad := !sharedName.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "//") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".")
	if bad {
		return refusal.Of(refusal.InvalidArguments, "branch", "a branch name of letters, digits and . _ / + -", fmt.Sprintf("%q", cut(name, 60)))
	}
	if own && (strings.HasPrefix(name, "lazy/") || strings.HasPrefix(name, "kept/")) {
		return refusal.Of(refusal.InvalidArguments, "branch", "a branch that belongs to no task", name)
	}
	return nil
}

// depot is the caller's project's repository, where the control plane keeps it.
func (a *App) depot(c Call, what string) (Depot, blob.Signer, error) {
	d, ok := a.repoOf(c.Who.Tenant, c.Who.Project).(Depot)
	s := a.signer()
	if !ok || s == nil {
		return nil, nil, refusal.Of(refusal.HostedOnly, what)
	}
	return d, s, nil
}

// TransferKey is where the bytes of a transfer lie on their way.
func TransferKey(tenant, project, id string) string {
	return tenant + "/projects/" + project + "/transfer/" + id
}

// PackKey is where an object of a hosted project's repository lies.
func PackKey(tenant, project, name string) string {
	return tenant + "/projects/" + project + "/git/" + name
}

// ListBranches lists the branches of a hosted project's repository.
func (a *App) ListBranches(ctx context.Context, c Call) (BranchList, error) {
	d, _, err := a.depot(c, "listBranches")
	if err != nil {
		return BranchList{}, err
	}
	all, main, err := d.Branches(ctx)
	if all == nil {
		all = []Branch{}
	}
	return BranchList{main, all}, err
}

// PushBranch begins to bring commits in: it says where to upload a bundle of
// exactly the announced bytes. No branch moves before finishPush. Beginning the
// same push again is the same push.
func (a *App) PushBranch(ctx context.Context, c Call, in PushIn) (Transferred, error) {
	d, s, err := a.depot(c, "push")
	if err != nil {
		return Transferred{}, err
	}
	sum, serr := hex.DecodeString(in.SHA256)
	switch {
	case cleanBranch(in.Branch, true) != nil:
		return Transferred{}, cleanBranch(in.Branch, true)
	case !commitName.MatchString(in.Head):
		return Transferred{}, refusal.Of(refusal.InvalidArguments, "head", "the full id of a commit", fmt.Sprintf("%q", cut(in.Head, 60)))
	case in.Expect != "" && !commitName.MatchString(in.Expect):
		return Transferred{}, refusal.Of(refusal.InvalidArguments, "expect", "the full id of a commit, or nothing for a new branch", fmt.Sprintf("%q", cut(in.Expect, 60)))
	case serr != nil || len(sum) != sha256.Size:
		return Transferred{}, refusal.Of(refusal.InvalidArguments, "sha256", "64 hexadecimal digits", fmt.Sprintf("%q", cut(in.SHA256, 80)))
	case in.Size <= 0:
		return Transferred{}, refusal.Of(refusal.InvalidArguments, "size", "the length of the bundle in bytes", fmt.Sprint(in.Size))
	case in.Size > TransferMost:
		return Transferred{}, fault.New(fault.TooLarge, "a bundle of %d bytes is not taken; the limit is %d MB", in.Size, TransferMost>>20).
			WithNext("Push an older commit of the branch first, then the rest.")
	}
	out := Transferred{Branch: in.Branch, Head: in.Head, State: transferDone}
	at, err := headOf(ctx, d, in.Branch)
	if err != nil {
		return Transferred{}, err
	}
	if at == in.Head {
		return out, nil
	}
	if at != in.Expect {
		return Transferred{}, MovedOn(in.Branch, at, in.Expect)
	}
	t := Transfer{
		Way: wayPush, Branch: in.Branch, Head: in.Head, Expect: in.Expect, Force: in.Force, Size: in.Size, SHA256: sum,
		State: transferOpen, Actor: c.Actor(), At: a.Now(),
	}
	t.ID = transferName(fmt.Sprintf("push %s %s %s %s %t", in.Branch, in.Head, in.Expect, in.SHA256, in.Force))
	if t, err = a.openTransfer(ctx, c, t); err != nil {
		return Transferred{}, err
	}
	l, err := s.Upload(ctx, TransferKey(c.Who.Tenant, c.Who.Project, t.ID), t.Size, [32]byte(t.SHA256))
	if err != nil {
		return Transferred{}, err
	}
	link := turn.Link(l)
	out.ID, out.State, out.Link = t.ID, t.State, &link
	return out, nil
}

// FinishPush imports what was uploaded and moves the branch, in one conditional
// write. It is held until that has happened, and answers "ordered" when it takes
// longer than a request may.
func (a *App) FinishPush(ctx context.Context, c Call, push string) (Transferred, error) {
	if !transferID.MatchString(push) {
		return Transferred{}, refusal.Of(refusal.NotFound, "push", cut(push, 60))
	}
	k := store.For(c.Who.Tenant).Project(c.Who.Project).Push(push)
	t, ok, err := get[Transfer](ctx, a.Store, k)
	if err != nil {
		return Transferred{}, err
	}
	if !ok || t.Way != wayPush {
		return Transferred{}, refusal.Of(refusal.NotFound, "push", push)
	}
	if _, _, err := a.depot(c, "push"); err != nil {
		return Transferred{}, err
	}
	if t.State == transferOpen {
		if t, err = a.orderTransfer(ctx, k, t); err != nil {
			return Transferred{}, err
		}
	}
	t, err = a.awaitTransfer(ctx, c, k, t)
	return Transferred{ID: t.ID, Branch: t.Branch, Head: t.Head, State: t.State}, err
}

// PullBranch says where to download the commits of a branch that the caller lacks.
func (a *App) PullBranch(ctx context.Context, c Call, branch string, have []string) (Transferred, error) {
	d, s, err := a.depot(c, "pull")
	if err != nil {
		return Transferred{}, err
	}
	if err := cleanBranch(branch, false); err != nil {
		return Transferred{}, err
	}
	if len(have) > transferHave {
		have = have[:transferHave]
	}
	for _, h := range have {
		if !commitName.MatchString(h) {
			return Transferred{}, refusal.Of(refusal.InvalidArguments, "have", "full ids of commits", fmt.Sprintf("%q", cut(h, 60)))
		}
	}
	at, err := headOf(ctx, d, branch)
	if err != nil {
		return Transferred{}, err
	}
	if at == "" {
		return Transferred{}, refusal.Of(refusal.NotFound, "branch", branch)
	}
	out := Transferred{Branch: branch, Head: at, State: transferDone}
	if slices.Contains(have, at) {
		return out, nil
	}
	t := Transfer{Way: wayPull, Branch: branch, Head: at, Have: have, State: transferOpen, Actor: c.Actor(), At: a.Now()}
	t.ID = transferName(fmt.Sprintf("pull %s %s %s", branch, at, strings.Join(have, " ")))
	if t, err = a.openTransfer(ctx, c, t); err != nil {
		return Transferred{}, err
	}
	k := store.For(c.Who.Tenant).Project(c.Who.Project).Push(t.ID)
	if t.State == transferOpen {
		if t, err = a.orderTransfer(ctx, k, t); err != nil {
			return Transferred{}, err
		}
	}
	if t, err = a.awaitTransfer(ctx, c, k, t); err != nil {
		return Transferred{}, err
	}
	out.State = t.State
	if t.State == transferDone && t.Size > 0 {
		l, err := s.Download(ctx, TransferKey(c.Who.Tenant, c.Who.Project, t.ID))
		if err != nil {
			return Transferred{}, err
		}
		link := turn.Link(l)
		out.Link = &link
	}
	return out, nil
}

// headOf is where a branch stands, "" when there is none.
func headOf(ctx context.Context, d Depot, branch string) (string, error) {
	at, err := d.Tip(ctx, branch)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	return at, err
}

// MovedOn refuses a push whose branch is at a commit and not where it is expected.
func MovedOn(branch, at, expect string) error {
	name := func(sha string) string {
		if sha == "" {
			return "no commit"
		}
		return short(sha)
	}
	return refusal.Of(refusal.BranchMoved, branch, name(at), name(expect)).WithDetail("head", at)
}

// transferName names a transfer after what it does, so that asking for it again is
// the same one.
func transferName(what string) string {
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:16])
}

// openTransfer writes a transfer down, or finds it. One that failed begins anew.
func (a *App) openTransfer(ctx context.Context, c Call, t Transfer) (Transfer, error) {
	t.Tenant, t.Project = c.Who.Tenant, c.Who.Project
	k := store.For(t.Tenant).Project(t.Project).Push(t.ID)
	for n := 0; ; n++ {
		old, ok, err := get[Transfer](ctx, a.Store, k)
		if err != nil {
			return t, err
		}
		if ok && old.State != transferFailed {
			return old, nil
		}
		cond := store.Absent()
		if ok {
			cond = store.VersionIs(old.Version)
		}
		t.Version = old.Version + 1
		err = a.Store.Transact(ctx, a.transferWrite(k, t, a.Now().Add(transferLife), cond))
		if _, lost := errors.AsType[*store.ConflictError](err); lost && n < tries {
			continue
		}
		return t, err
	}
}

func (a *App) transferWrite(k store.Key, t Transfer, due time.Time, conds ...store.Cond) store.Write {
	w := put(k, "transfer", t, conds...)
	w.Item.Attr[store.AttrVersion] = t.Version
	w.Item.Index = map[store.Index]store.Slot{store.Due: store.DueAt(k, due)}
	if t.State == transferOrdered && t.Attempts == 0 {
		w.Item.Attr[store.AttrFollow] = true
	}
	return w
}

// orderTransfer leaves the work to the outbox: it may take longer than a request.
func (a *App) orderTransfer(ctx context.Context, k store.Key, t Transfer) (Transfer, error) {
	next := t
	next.State, next.Version = transferOrdered, t.Version+1
	err := a.Store.Transact(ctx, a.transferWrite(k, next, a.Now().Add(names.OutboxFirst), store.VersionIs(t.Version)))
	if lost, ok := errors.AsType[*store.ConflictError](err); ok {
		return decode[Transfer](lost.Current) // somebody else ordered it
	}
	if err != nil {
		return t, err
	}
	a.Publish(k)
	return next, nil
}

// awaitTransfer holds a request until a transfer has ended, and raises what it
// ended with.
func (a *App) awaitTransfer(ctx context.Context, c Call, k store.Key, t Transfer) (Transfer, error) {
	hold := a.Hop
	if c.Hold > 0 {
		hold = min(hold, c.Hold)
	}
	until := a.Now().Add(hold)
	for {
		switch {
		case t.State == transferFailed && t.Failure != nil:
			f := t.Failure
			return t, &fault.Error{Kind: f.Kind, Code: f.Code, Public: f.Public, Next: f.Next}
		case t.State != transferOrdered || !a.Now().Add(transferLook).Before(until):
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-a.After(transferLook):
		}
		now, ok, err := get[Transfer](ctx, a.Store, k)
		if err != nil {
			return t, err
		}
		if !ok {
			return t, refusal.Of(refusal.NotFound, t.Way, t.ID)
		}
		t = now
	}
}

// lasting reports whether trying a transfer again would end the same.
func lasting(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Conflict, fault.NotFound, fault.TooLarge, fault.Denied:
		return true
	default:
		return false
	}
}

// serveTransfer does the work of a transfer that was ordered, and forgets one that
// is old. It may be called any number of times.
func (a *App) serveTransfer(ctx context.Context, k store.Key, t Transfer) error {
	tenant, project := t.Tenant, t.Project
	if t.State != transferOrdered {
		if a.Now().Sub(t.At) < transferLife {
			return nil
		}
		if err := a.Blob.Delete(ctx, TransferKey(tenant, project, t.ID)); err != nil {
			return err
		}
		return won(a.Store.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.VersionIs(t.Version)}}))
	}
	d, ok := a.repoOf(tenant, project).(Depot)
	if !ok {
		return fault.New(fault.Internal, "a transfer of a project whose repository is not kept here")
	}
	next := t
	next.Version++
	var err error
	if t.Way == wayPull {
		next.Size, err = d.Give(ctx, t)
	} else {
		err = d.Take(ctx, t)
	}
	if ctx.Err() != nil {
		return ctx.Err() // it is due, and comes again
	}
	due := a.Now().Add(transferLife)
	switch {
	case err == nil:
		next.State, next.At = transferDone, a.Now()
	case lasting(err) || t.Attempts+1 >= transferTries:
		f := fault.Of(err)
		next.State, next.At = transferFailed, a.Now()
		next.Failure = &lastingError{Kind: f.Kind, Code: fault.Code(err), Public: f.Public, Next: f.Next}
	default:
		next.Attempts++
		due = a.Now().Add(min(names.OutboxFirst<<next.Attempts, names.OutboxMost))
	}
	if t.Way == wayPush && next.State != transferOrdered {
		// What was taken lies sealed in the repository; what was refused is of no use.
		if derr := a.Blob.Delete(ctx, TransferKey(tenant, project, t.ID)); derr != nil {
			return errors.Join(err, derr)
		}
	}
	werr := won(a.Store.Transact(ctx, a.transferWrite(k, next, due, store.VersionIs(t.Version))))
	if next.State == transferFailed && lasting(err) {
		err = nil // it is an answer to whoever pushed
	}
	return errors.Join(err, werr)
}

// won takes a lost race for done: somebody else wrote what was to be written.
func won(err error) error {
	if _, lost := errors.AsType[*store.ConflictError](err); lost {
		return nil
	}
	return err
}
