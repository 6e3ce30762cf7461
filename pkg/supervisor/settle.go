package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/text"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// settle describes what the turn left. All of it is derived by looking; the agent
// is never asked (TE-002).
func (r *run) settle(ctx context.Context, res result, began bool) turn.Response {
	r.mu.Lock()
	words, _ := text.Cut(r.text, textMost)
	resp := turn.Response{
		Turn: r.start.Turn, Epoch: r.start.Epoch, Outcome: "ok", Settled: true, Host: r.cmd.Host,
		Session: r.session, Lost: r.lost, LostWhy: r.lostWhy, Text: words, ExitCode: r.exitCode, Agent: r.agentTime,
		Setup: r.setup, SetupFailed: r.setupFailed, Failure: res.failure,
	}
	if r.gateway != nil {
		resp.Usage, resp.Readings = r.gateway.Usage(), r.gateway.Readings()
	} else {
		resp.Usage = r.counted
	}
	r.mu.Unlock()
	switch {
	case res.stopped != nil:
		resp.Outcome, resp.Stopped = "stopped", res.stopped.why
		if resp.Failure == nil {
			resp.Failure = &turn.Failure{Class: turn.Unknown, Reason: res.stopped.text, Attempts: res.attempts}
		}
	case res.failure != nil:
		resp.Outcome, resp.Wait, resp.Pace = "error", res.wait, res.pace
	}
	if began {
		resp.Log = spool.Tail(filepath.Join(r.Dir, spool.AgentLog))
		resp.Log, _ = text.Escape(resp.Log)
	}
	if r.broker == nil {
		resp.Head = r.cmd.Tip
		return resp
	}
	if began && r.cmd.Kind != turn.Ask { // asks hand nothing over (HF-007)
		resp.Handoff = r.collectHandoff()
	}
	r.broker.describe(ctx, &resp, r)
	return resp
}

// describe adds the state of branch and workspace. An unresolved merge is taken
// back first: none is ever found at rest (GT-013).
func (b *broker) describe(ctx context.Context, resp *turn.Response, r *run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.resolve(ctx); err != nil {
		r.log.Error("find out about an unanswered commit", "err", err)
	}
	resp.Head, resp.Commits = b.tip, b.commits
	st, err := b.tree.Status(ctx)
	if err != nil {
		r.log.Error("read workspace", "err", err)
		resp.Settled = false
		return
	}
	resp.Drifted = st.Drifted
	if len(st.Unmerged) > 0 {
		resp.MergeState = st.Unmerged
		done, err := b.tree.Settle(ctx, git.Recovery{Dir: filepath.Join(r.cmd.State, "recovery"), When: b.now()})
		if err != nil {
			r.log.Error("settle merge", "err", err)
		}
		resp.Recovery, resp.Settled = done.Patch, err == nil && done.Settled
		if resp.Settled {
			b.forgetMerge()
			if err := r.link.git(ctx, turn.GitIn{Op: "merge_abort"}); err != nil {
				r.log.Warn("record the end of the merge", "err", err)
			}
		}
		if st, err = b.tree.Status(ctx); err != nil {
			r.log.Error("read workspace", "err", err)
			return
		}
	}
	resp.Uncommitted = turn.Leftover{Total: len(st.Dirty), Paths: st.Dirty[:min(len(st.Dirty), names.UncommittedKept)]}
}

// status looks at the workspace.
func (b *broker) status(ctx context.Context) (git.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tree.Status(ctx)
}

// made counts the commits of this run.
func (b *broker) made() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// The hand-off file, below the worktree (HF-001).
const (
	handoffDir  = ".lazy-task-sandbox"
	handoffFile = "turn-handoff.jsonl"
	handoffMost = 8 << 20
)

// clearHandoff removes a stale file before the agent runs (HF-003) and leaves the
// directory in which the next one goes, ignored by git (HF-001).
func (r *run) clearHandoff() error {
	root, err := os.OpenRoot(r.cmd.Tree)
	if err != nil {
		return fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	if fi, err := root.Lstat(handoffDir); err == nil && !fi.IsDir() {
		if err := root.Remove(handoffDir); err != nil {
			return fmt.Errorf("clear the hand-off directory: %w", err)
		}
	}
	if err := root.RemoveAll(handoffDir + "/" + handoffFile); err != nil {
		return fmt.Errorf("clear the hand-off file: %w", err)
	}
	if err := root.Mkdir(handoffDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the hand-off directory: %w", err)
	}
	rules := handoffDir + "/.gitignore"
	if fi, err := root.Lstat(rules); err == nil && fi.Mode().IsRegular() && fi.Size() == 2 {
		return nil
	}
	if err := root.RemoveAll(rules); err != nil {
		return fmt.Errorf("make the hand-off directory: %w", err)
	}
	f, err := root.OpenFile(rules, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("make the hand-off directory: %w", err)
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// collectHandoff reads what the agent left for when its tools are lost. The file
// is hostile: a regular file below the tree, no link, bounded; a bad line is
// skipped alone (HF-005, GT-027).
func (r *run) collectHandoff() []turn.Handoff {
	root, err := os.OpenRoot(r.cmd.Tree)
	if err != nil {
		return nil
	}
	defer root.Close()
	name := handoffDir + "/" + handoffFile
	was, err := root.Lstat(name)
	if err != nil {
		return nil // normal: there is none
	}
	if !was.Mode().IsRegular() {
		r.log.Warn("the hand-off file is not a regular file and was not read")
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || !os.SameFile(was, fi) {
		return nil
	}
	got, over, bad := parseHandoff(io.LimitReader(f, handoffMost))
	if over > 0 || bad > 0 {
		r.log.Warn("hand-off entries left out", "beyond_the_limit", over, "unreadable", bad)
	}
	if over > 0 {
		got = append(got, turn.Handoff{
			Kind: "journal", Content: fmt.Sprintf("lazy: %d further hand-off entries were beyond the limit of %d and are lost", over, names.HandoffEntries),
		})
	}
	return got
}

// parseHandoff reads entries, at most 50 of at most 20 000 characters; what is
// beyond is counted (HF-008).
func parseHandoff(in io.Reader) (got []turn.Handoff, over, bad int) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if s := bytes.TrimSpace(line); len(s) > 0 {
			h, ok := parseEntry(s)
			switch {
			case !ok:
				bad++
			case len(got) == names.HandoffEntries:
				over++
			default:
				got = append(got, h)
			}
		}
		if err != nil {
			return got, over, bad
		}
	}
}

func parseEntry(line []byte) (turn.Handoff, bool) {
	var h turn.Handoff
	if !utf8.Valid(line) || json.Unmarshal(line, &h) != nil || strings.TrimSpace(h.Content) == "" {
		return h, false
	}
	switch h.Kind {
	case "journal":
		h.Blocking = false
	case "raised":
	case "followup": // a raised item that does not block (HF-002)
		h.Kind, h.Blocking = "raised", false
	default:
		return h, false
	}
	h.Content = text.Prose(h.Content)
	h.Content, _ = text.Cut(h.Content, names.HandoffChars)
	return h, true
}
