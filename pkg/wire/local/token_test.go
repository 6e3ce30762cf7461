package local_test

import (
	"context"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// The record of a task's token is lost in the middle of a turn.
func TestATaskTokenWhoseRecordIsGoneComesToItsLiveRunAlone(t *testing.T) {
	req.Covers(t, "MC-020", "MC-021", "CM-047")
	inBubble(t, func(t *testing.T, r *rig) {
		type got struct {
			out turn.TokenOut
			err error
		}
		said := make(chan got, 4)
		ask := func(s *sup) {
			var g got
			g.err = s.plane(func(ctx context.Context, a *app.App) (err error) {
				g.out, err = a.Token(ctx, s.runner, turn.TokenIn{Turn: s.cmd.Turn, Epoch: s.cmd.Epoch})
				return err
			})
			said <- g
		}
		r.host.next(func(s *sup) {
			s.begin()
			if err := s.plane(func(context.Context, *app.App) error {
				return r.now().db.Transact(s.ctx, store.Write{Act: store.Delete, Item: store.Item{Key: store.For(tenant).Token(s.agent.Hash)}})
			}); err != nil {
				s.die(1, err.Error())
			}
			ask(s)
			ask(s)
			s.sleep(20 * time.Second)
			s.ok("done")
		})
		tid := r.create("one")
		r.do("startTask", in{"task_id": "one"})
		first, second := <-said, <-said
		if first.err != nil || !first.out.Issued || second.err != nil || second.out.Issued || first.out.TaskToken != second.out.TaskToken {
			t.Fatalf("issued %+v, then %+v", first, second)
		}
		who, err := r.app().Authenticate(t.Context(), first.out.TaskToken, "mcp")
		if err != nil || who.Task() != tid {
			t.Fatalf("the new record opens %+v, %v", who, err)
		}
		r.rest(tid, task.Blocked)

		// A later epoch takes it from the run before, and the end of the task for good.
		var old identity.Caller
		r.host.next(func(s *sup) { s.begin(); s.sleep(time.Minute); s.ok("done") })
		run := r.host.run(tid, 1)
		<-run.gone
		old = run.runner
		r.do("unblockTask", in{"task_id": "one", "feedback": "more"})
		if _, err := r.app().Token(t.Context(), old, turn.TokenIn{Turn: old.Turn, Epoch: old.Epoch}); fault.Code(err) != "fenced" {
			t.Errorf("an old epoch: %v", err)
		}
		if _, err := r.app().Token(t.Context(), old, turn.TokenIn{Turn: old.Turn, Epoch: old.Epoch + 1}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("another run's name: %v", err)
		}
		r.rest(tid, task.Blocked)
		r.do("closeTask", in{"task_id": "one", "reason": "enough"})
		r.rest(tid, task.Abandoned)
		if _, err := r.app().Token(t.Context(), old, turn.TokenIn{Turn: old.Turn, Epoch: old.Epoch}); err == nil {
			t.Error("a token came after the end of the task")
		}
		if _, err := r.app().Authenticate(t.Context(), first.out.TaskToken, "mcp"); err == nil {
			t.Error("the token lives on")
		}
	})
}
