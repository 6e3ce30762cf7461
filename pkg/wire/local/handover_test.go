package local_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// What a fresh conversation is told of the lost one: everything that people said
// in it, comments too, what the agent answered, in their order, and to look
// before it repeats anything. The words of its own turn are in its prompt only.
func TestAHandoverTellsALostConversationFromTheRecord(t *testing.T) {
	req.Covers(t, "CS-18", "CR-013", "CR-014")
	inBubble(t, func(t *testing.T, r *rig) {
		says := func(words string) func(*sup) {
			return func(s *sup) {
				s.begin()
				s.settle(turn.Response{Outcome: "ok", Text: words, Session: "s-1"})
			}
		}
		r.host.next(says("I have begun"), says("It is blue"), says("Because of the sky"))
		tid := r.create("one", in{"prompt": "the very first words"})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		r.do("addComment", in{"task_id": "one", "message": "mind the GAP"})
		r.do("unblockTask", in{"task_id": "one", "feedback": "make it blue"})
		r.rest(tid, task.Blocked)
		r.do("askTask", in{"task_id": "one", "question": "why blue?"})
		r.rest(tid, task.Blocked)
		told := make(chan string, 1)
		r.host.next(func(s *sup) {
			s.begin()
			err := s.plane(func(ctx context.Context, a *app.App) error {
				out, err := a.Beat(ctx, s.runner, turn.BeatIn{Turn: s.cmd.Turn, Epoch: s.cmd.Epoch, State: "running", Lost: s.cmd.Session})
				told <- out.Handover
				return err
			})
			if err != nil {
				s.die(1, err.Error())
			}
			s.settle(turn.Response{Outcome: "ok", Text: "red it is", Session: "s-2", Lost: s.cmd.Session})
		})
		r.do("unblockTask", in{"task_id": "one", "feedback": "now make it red"})
		r.rest(tid, task.Blocked)
		h := <-told
		at := -1
		for _, want := range []string{"s-1, is lost", "the very first words", "I have begun", "mind the GAP", "make it blue", "It is blue", "why blue?", "Because of the sky"} {
			i := strings.Index(h, want)
			if i < at {
				t.Errorf("%q is missing or out of order in %q", want, h)
			}
			at = i
		}
		if strings.Contains(h, "now make it red") || !strings.Contains(h, "before you repeat anything") {
			t.Errorf("the handover is %q", h)
		}
		all := r.turns(tid)
		if last := all[len(all)-1]; last.Lost != "s-1" || all[len(all)-3].Lost != "" {
			t.Errorf("the turn does not say that its conversation was lost: %+v", last)
		}
		if s := r.task(tid).Session; s != "s-2" {
			t.Errorf("the conversation of the task is %q", s)
		}
	})
}

// An answer may be longer than a row of the store: the turn ends all the same,
// with what it handed over.
func TestAVeryLongAnswerIsNoReasonToLoseTheTurn(t *testing.T) {
	req.Covers(t, "CR-019", "HF-005")
	inBubble(t, func(t *testing.T, r *rig) {
		r.host.next(func(s *sup) {
			s.begin()
			entry := turn.Handoff{Kind: "journal", Content: strings.Repeat("<ä>", 6_000)}
			handed := []turn.Handoff{entry, entry, entry, entry}
			for i := range handed {
				handed[i].Content += string(rune('a' + i))
			}
			s.settle(turn.Response{Outcome: "ok", Text: strings.Repeat("<ä>", 1<<18), Handoff: handed})
		})
		tid := r.create("one", in{"prompt": "write a lot"})
		r.do("startTask", in{"task_id": "one"})
		r.rest(tid, task.Blocked)
		all := r.turns(tid)
		last := all[len(all)-1]
		if last.Side != turn.Answer || last.Outcome != "ok" || last.Body == "" {
			t.Errorf("the turn is %+v", last)
		}
		if n := r.task(tid).Journal; n != 4 {
			t.Errorf("%d of 4 journal entries arrived", n)
		}
	})
}
