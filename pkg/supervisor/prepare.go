package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// check is the part of the startup checks that needs no sandbox: git and this
// program, each named when it is missing (AG-004).
func (r *run) check() error {
	if r.Worktree != "" && filepath.Clean(r.Worktree) != filepath.Clean(r.cmd.Tree) {
		return fault.New(fault.Invalid, "this supervisor was started for %s, and the command is for %s", r.Worktree, r.cmd.Tree)
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fault.Wrap(fault.Unavailable, err, "git is missing: it is not installed, or not on the PATH of the supervisor").
			WithNext("Install git 2.38 or newer.")
	}
	if fi, err := os.Stat(r.Bin); err != nil || fi.Mode()&0o111 == 0 {
		return fault.Wrap(fault.Unavailable, err, "%s is missing: %s cannot be run", names.AgentBinary, r.Bin).
			WithNext("Run `lazy doctor`, or install lazy again.")
	}
	return nil
}

// lookup checks that the agent's program is inside the sandbox (AG-004).
func (r *run) lookup(ctx context.Context, program string, env []string) error {
	err := r.box.Look(ctx, program, r.cmd.Tree, env)
	if fault.KindOf(err) == fault.NotFound {
		return fault.Wrap(fault.NotFound, err, "the agent program %q is missing: it is not on the PATH inside the sandbox", program).
			WithNext(r.advice())
	}
	return err
}

// sync brings in what is left to merge, in its order, up to the first conflict. That
// is the agent's to resolve, so it is told of it in its prompt. A sync that finds
// something in the way says so and ends, while a turn with other work goes on.
func (r *run) sync(ctx context.Context) (m turn.Merge, conflict []string, err error) {
	for len(r.merges) > 0 {
		m, r.merges = r.merges[0], r.merges[1:]
		got, err := r.broker.sync(ctx, m, r.link)
		if err != nil {
			return m, nil, err
		}
		r.log.Info("sync", "upstream", m.Ref, "note", got.note(m))
		r.Crash("synced")
		if len(got.conflict) > 0 {
			return m, got.conflict, nil
		}
		if r.cmd.Kind == turn.Sync && (got.undone || len(got.edits) > 0) {
			return m, nil, fault.New(fault.Conflict, "%s", got.note(m)).WithNext("The files are as they were. Have them committed, then sync again.")
		}
	}
	return m, nil, nil
}

// toMerge lists what a command asks to be merged: the task's own branch first, then
// the one it merges into (SN-001).
func toMerge(c turn.Command) []turn.Merge {
	var out []turn.Merge
	for _, m := range []*turn.Merge{c.Own, c.Merge} {
		if m != nil {
			out = append(out, *m)
		}
	}
	return out
}

// setupMark remembers that a workspace was set up, so that it happens once
// however often its first turn is run again.
const setupMark = "setup.json"

type setupDone struct {
	Digest string `json:"digest"`
}

// prepareWorkspace copies the chosen files and runs the project's setup, once per
// workspace, the latter inside the sandbox like everything that the repository
// can write.
func (r *run) prepareWorkspace(ctx context.Context) error {
	if r.cmd.Setup == "" && len(r.cmd.Copy) == 0 {
		return nil
	}
	h := sha256.Sum256([]byte(r.cmd.Setup + "\x00" + strings.Join(r.cmd.Copy, "\x00")))
	sum := hex.EncodeToString(h[:])
	var done setupDone
	if ok, err := spool.Read(r.boxDir(), setupMark, &done); err != nil {
		return err
	} else if ok && done.Digest == sum {
		return nil
	}
	if err := r.copyFiles(ctx); err != nil {
		return err
	}
	if r.cmd.Setup != "" {
		r.enter("preparing", "workspace setup")
		if err := r.runSetup(ctx); err != nil {
			return err
		}
	}
	return spool.Write(r.boxDir(), setupMark, setupDone{sum})
}

func (r *run) runSetup(ctx context.Context) error {
	var out tail
	x, err := r.box.Run(ctx, box.Command{
		Argv: []string{"sh", "-c", r.cmd.Setup}, Env: r.baseEnv(), Dir: r.cmd.Tree,
	}, nil, &out, &out)
	r.setup += out.String()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("run workspace setup: %w", err)
	}
	if x.Code != 0 {
		r.setupFailed = true
		return fault.New(fault.Failed, "workspace setup failed: %s", runner.Reason(x.Code)).
			WithNext("Its output is on the turn. Correct [workspace] setup in lazy.toml, then resume.")
	}
	return nil
}

// copyMost bounds one copied file.
const copyMost = 64 << 20

// classOf sorts a failure before the agent ran: what a person has to set right is
// fatal, the rest may pass.
func classOf(err error) turn.Class {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Denied, fault.Failed, fault.Conflict, fault.TooLarge, fault.Unavailable:
		return turn.FatalConfig
	default:
		return turn.Unknown
	}
}
