package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

const syncTool = "lazy_sync"

// sync relays lazy_sync. About any task but the one this run works on, the control
// plane's answer is the answer. About its own it says what to merge, and the
// broker merges here, where the workspace is (CM-037): whether the task is the
// agent's own was decided there, from the token and our stamps (CM-039).
func (s *relay) sync(args json.RawMessage, beat func()) envelope.Reply {
	s.commits.Add(1) // a merge under way is finished before the turn is
	defer s.commits.Done()
	got, err := s.send(s.work, client.ToolCall{Tool: syncTool, Arguments: args, Beat: beat})
	if err != nil {
		return refuse(unanswered(syncTool, err))
	}
	reply := envelope.Reply{Status: got.Status, Body: got.Raw}
	var body struct {
		Structured op.Synced `json:"structuredContent"`
	}
	if got.Fault() != nil || json.Unmarshal(got.Raw, &body) != nil || body.Structured.Upstream == "" {
		return reply
	}
	out := body.Structured
	if out.Task != s.r.start.Task || s.r.broker == nil {
		return refuse(fault.New(fault.Internal, "the control plane named another task to merge into"))
	}
	if err := s.r.broker.syncInside(s.work, &out, s.r.link); err != nil {
		if away, lost := apart(err); away || lost {
			return refuse(unanswered(syncTool, err))
		}
		if fault.KindOf(err) == fault.Internal {
			s.r.log.Error("sync", "err", err)
		}
		return refuse(err)
	}
	s.r.Crash("sync.answered")
	return told(out)
}

// syncInside brings the branch up to date in the middle of a turn. A conflict stays
// in the workspace for the agent that asked (CM-038); what is in the way of a merge
// refuses it, and then nothing has changed.
func (b *broker) syncInside(ctx context.Context, out *op.Synced, l *link) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.resolve(ctx); err != nil {
		return err
	}
	if out.Head != "" && out.Head != b.tip {
		// An accept into this branch moved it on while the agent worked.
		if err := b.begin(ctx, out.Head); err != nil {
			return err
		}
	}
	st, err := b.tree.Status(ctx)
	if err != nil {
		return err
	}
	if st.MidMerge {
		return unsettled(out.Code, st)
	}
	var merged []string
	for _, m := range []turn.Merge{{Upstream: out.OwnUpstream, Ref: out.OwnRef}, {Upstream: out.Upstream, Ref: out.Ref}} {
		if m.Upstream == "" {
			continue
		}
		got, err := b.merge(ctx, m, l)
		if err != nil {
			return err
		}
		if len(got.edits) > 0 || got.undone || got.kind == git.UpToDate {
			if err := l.git(ctx, turn.GitIn{Op: "merge_abort"}); err != nil { // no merge is under way
				return err
			}
		}
		switch {
		case len(got.edits) > 0:
			what := "Nothing was merged."
			if len(merged) > 0 {
				what = strings.Join(merged, "; ") + ", and nothing else was merged."
			}
			return fault.New(fault.Conflict, "uncommitted edits are in the way of the merge: %s. %s", strings.Join(got.edits, ", "), what).
				WithNext("Commit them with lazy_commit, then call lazy_sync again.").WithDetail("files", got.edits)
		case got.undone:
			return unsettled(out.Code, st)
		case got.kind == git.UpToDate:
		case got.kind == git.Conflicted:
			out.Conflicts = got.conflict
			out.Next = "The conflict markers are in your worktree. Resolve each file so that both changes hold, git add it, conclude the merge with " +
				"lazy_commit without naming files, then call lazy_sync once more."
			out.Merged, out.Head = strings.Join(merged, "; "), b.tip
			return nil
		default:
			merged = append(merged, fmt.Sprintf("Merged %s @ %.7s", m.Ref, m.Upstream))
		}
	}
	if len(merged) == 0 {
		out.Next = "Your branch has everything of " + out.Ref + " already."
	}
	out.Merged, out.Head = strings.Join(merged, "; "), b.tip
	return nil
}

// unsettled refuses a sync on top of a merge that is not concluded yet.
func unsettled(code string, st git.Status) error {
	files := strings.Join(st.Unmerged, ", ")
	next := "Resolve each file, git add it, conclude the merge with lazy_commit without naming files, then call lazy_sync again."
	if files == "" {
		files, next = "resolved, and not committed", "Conclude the merge with lazy_commit without naming files, then call lazy_sync again."
	}
	e := refusal.Of(refusal.UnresolvedMerge, code, files).WithDetail("files", st.Unmerged)
	e.Next = []fault.Next{{Text: next}}
	return e
}

// told is the answer of a tool in the form of the control plane's own.
func told(out any) envelope.Reply {
	text, err := json.Marshal(out)
	if err == nil {
		var body []byte
		if body, err = json.Marshal(map[string]any{
			"content": []map[string]string{{"type": "text", "text": string(text)}}, "structuredContent": out, "isError": false,
		}); err == nil {
			return envelope.Reply{Status: http.StatusOK, Body: body}
		}
	}
	return refuse(fault.Wrap(fault.Internal, err, "the answer cannot be encoded"))
}
