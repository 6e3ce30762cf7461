package supervisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const (
	// landings is how often a target may move away under a broker before it gives up.
	landings = 20
	// landTries is how often a broker's word is sent that the control plane did not
	// take.
	landTries = 12
)

// lander is the broker of one accept: it merges in a repository of its own, which
// it makes from packs and throws away. There is no agent near it, and it can do
// nothing but this merge (GT-023).
type lander struct {
	*run
	keeper *keeper
	repo   *git.Repo
	sent   []string // names of packs that are stored
}

// Land carries out the merge of the accept that is described in the protocol
// directory. Died at any point, another broker does it again and comes to the same
// commit; the control plane moves the target once.
func Land(ctx context.Context, o Options) (err error) {
	self, err := o.hold()
	if err != nil {
		return err
	}
	defer o.Lock.Close()
	defer func() { o.recordExit(err) }()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-o.Shutdown:
			stop(fault.New(fault.Unavailable, "the broker was asked to end"))
		case <-ctx.Done():
		}
	}()
	b := &lander{run: &run{Options: o, state: "preparing", stop: stop, kick: make(chan struct{}, 1), granted: make(chan struct{})}}
	if err := b.begun(); err != nil {
		return err
	}
	defer b.link.close()
	b.keeper = &keeper{r: b.run, depot: newDepot(b.link)}
	key, err := b.helloKey()
	if err != nil {
		return err
	}
	w, err := b.link.hello(ctx, turn.Hello{Nonce: b.start.Nonce, Key: key, PID: self.PID, Started: self.Mark, Version: b.Version})
	if err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	if w.Landing == nil || w.Landing.Task != b.start.Task || w.Command.Turn != b.start.Turn || w.Command.Epoch != b.start.Epoch {
		return fault.New(fault.Internal, "the control plane names no landing for this broker")
	}
	b.Crash("broker.hello")
	b.link.use(w.RunnerToken, "")
	defer b.beating(ctx)()
	b.enter("running", "merge")
	at := filepath.Join(b.Dir, "repository")
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	if b.repo, err = git.InitBare(ctx, at, w.Landing.Repository.Format); err != nil {
		return err
	}
	return b.land(ctx, *w.Landing)
}

// beating tells the control plane that the broker lives, and ends it when another
// one has taken its place.
func (b *lander) beating(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.beats(ctx)
	}()
	return func() { cancel(); <-done }
}

// land makes landings until one is on the target, or none can be.
func (b *lander) land(ctx context.Context, l turn.Landing) error {
	for n := 0; ; n++ {
		in, err := b.makes(ctx, l)
		if n == landings {
			err = fault.New(fault.Unavailable, "%s keeps moving", l.Target)
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b.log.Error("the merge cannot be made", "err", err)
			f := fault.Of(err)
			in = turn.LandIn{Failed: string(f.Kind), Reason: f.Public}
		}
		in.Turn, in.Epoch, in.Head, in.Intent = b.start.Turn, b.start.Epoch, l.Head, l.Intent
		out, lerr := b.tell(ctx, in)
		if refusal.Is(lerr, refusal.Fenced) || refusal.Is(lerr, refusal.SessionEnded) {
			b.log.Info("this merge is nobody's wish any more", "err", lerr)
			return nil
		}
		if lerr != nil || err != nil {
			return errors.Join(err, lerr)
		}
		b.Crash("broker.told")
		if out.Next == nil {
			b.log.Info("the merge is over", "landed", out.Landed)
			return nil
		}
		l = *out.Next
	}
}

// tell says what came of a landing until the control plane has taken it. Saying it
// again is the same.
func (b *lander) tell(ctx context.Context, in turn.LandIn) (turn.LandOut, error) {
	for n, pause := 1, names.ReconnectFirst; ; n, pause = n+1, min(2*pause, names.ReconnectMost) {
		try, cancel := context.WithTimeout(ctx, callMost)
		out, err := b.link.client(0).Land(try, in)
		cancel()
		if err == nil || !passing(err) || n == landTries {
			return out, err
		}
		b.log.Warn("the landing is not taken yet", "err", err)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return out, context.Cause(ctx)
		}
	}
}

// makes is one landing: the merge commit on the target as it stands, stored with all
// that nobody else has of it.
func (b *lander) makes(ctx context.Context, l turn.Landing) (in turn.LandIn, err error) {
	if err := b.gather(ctx, l); err != nil {
		if fault.KindOf(err) != fault.Internal && fault.KindOf(err) != fault.Conflict {
			err = fault.Wrap(fault.Unavailable, err, "the project's repository cannot be read")
		}
		return in, err
	}
	b.Crash("broker.gathered")
	if l.Intent != "" && b.repo.Has(ctx, l.Intent) {
		if in.Landed, err = b.repo.Contains(ctx, l.Head, l.Intent); err != nil || in.Landed {
			return in, err
		}
	}
	sq, err := b.repo.PlanSquashOn(ctx, l.Target, l.Head, l.Tip)
	if c, ok := errors.AsType[*git.Conflict](err); ok {
		in.Conflict = c.Files
		return in, nil
	}
	if err != nil {
		return in, err
	}
	subjects, err := b.repo.Subjects(ctx, l.Base, l.Tip)
	if err != nil {
		return in, err
	}
	message := turn.MergeMessage(l.Task, l.Title, l.Reason, subjects)
	in.Tree = sq.Tree
	if in.Commit, err = b.repo.CommitSquash(ctx, sq, message, git.Person{Name: l.Author, Email: l.Email}, l.When); err != nil {
		return in, err
	}
	b.Crash("broker.made")
	return in, b.stores(ctx, l, &in)
}

// gather brings in what the repository of this broker lacks for a landing.
func (b *lander) gather(ctx context.Context, l turn.Landing) error {
	if l.Repository == nil {
		return fault.New(fault.Internal, "the control plane names no packs")
	}
	if err := b.keeper.packs(ctx, b.repo, l.Repository); err != nil {
		return err
	}
	for _, c := range l.Chain {
		key, err := checkpoint.NewCipher(c.Key)
		if err != nil {
			return err
		}
		for _, x := range c.Bundles {
			if b.repo.Has(ctx, x.Commit) {
				continue
			}
			err := b.keeper.bring(ctx, b.repo, key, x, func(ctx context.Context) (turn.Link, error) {
				out, err := b.link.upload(ctx, turn.UploadIn{Get: []string{x.Name}, Of: c.Task})
				return one(out.Get, err)
			})
			if err != nil {
				return err
			}
		}
	}
	for _, sha := range []string{l.Head, l.Tip, l.Base} {
		if sha != "" && !b.repo.Has(ctx, sha) {
			return fault.New(fault.NotFound, "commit %.12s is not in this project's repository", sha)
		}
	}
	return nil
}

// stores makes the merge commit durable, and the task's own commits, which go with
// their branch. What lies under one of their names was put by an earlier broker: a
// name says what is under it.
func (b *lander) stores(ctx context.Context, l turn.Landing, in *turn.LandIn) error {
	key, err := checkpoint.NewCipher(l.Repository.Key)
	if err != nil {
		return err
	}
	want := []turn.Pack{{Name: turn.PackLand + "/" + in.Commit, Commit: in.Commit}}
	kept := false
	for _, h := range l.Have {
		if kept, err = b.repo.Contains(ctx, h, l.Tip); err != nil || kept {
			break
		}
	}
	if err != nil {
		return err
	}
	if !kept {
		want = append(want, turn.Pack{Name: turn.PackKept + "/" + l.Tip, Commit: l.Tip})
	}
	for _, p := range want {
		there := slices.Contains(b.sent, p.Name) || slices.ContainsFunc(l.Repository.Packs, func(x turn.Bundle) bool { return x.Name == p.Name })
		if !there {
			if p.Size, err = b.send(ctx, key, p, l.Have); err != nil {
				return err
			}
			b.sent = append(b.sent, p.Name)
		}
		in.Packs = append(in.Packs, p)
	}
	b.Crash("broker.stored")
	return nil
}

// send stores what a commit has and the repository's packs lack.
func (b *lander) send(ctx context.Context, key checkpoint.Cipher, p turn.Pack, have []string) (size int64, err error) {
	err = b.keeper.files(func(open, shut string) error {
		if err := into(open, func(w io.Writer) error { return b.repo.BundleSince(ctx, w, p.Commit, have) }); err != nil {
			return err
		}
		if err := through(open, shut, func(w io.Writer, r io.Reader) error { return key.SealStream(p.Name, w, r) }); err != nil {
			return err
		}
		var sum []byte
		if size, sum, err = measured(shut); err != nil {
			return err
		}
		return b.keeper.depot.again(ctx, func(int) error {
			out, err := b.link.upload(ctx, turn.UploadIn{PutPacks: []turn.Parcel{{Name: p.Name, Size: size, SHA256: sum}}})
			l, err := one(out.PutPacks, err)
			if err != nil {
				return err
			}
			b.Crash("broker.put")
			if err = b.keeper.depot.store.Put(ctx, l, shut); errors.Is(err, client.ErrStored) {
				return nil
			}
			return err
		})
	})
	return size, err
}

// measured is the size and digest of a file.
func measured(file string) (size int64, sum []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, nil, err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, h.Sum(nil), errors.Join(err, f.Close())
}
