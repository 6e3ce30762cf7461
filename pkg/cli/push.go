package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// linkTries is how often bytes are moved, each time by a new link.
const linkTries = 3

// stateOrdered is the state of a transfer that goes on.
const stateOrdered = "ordered"

func (e *Env) pushCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "push [BRANCH]",
		Short: "Bring commits of this clone to the hosted project",
		Long: "push brings a branch, the current one when none is named, to a project whose repository lies with the\n" +
			"control plane. The branch there moves only if nobody else moved it meanwhile, and loses no commit.",
		Example: "  lazy push             # the first push makes the project's repository\n  lazy push main",
		Args:    optional(), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			branch, err := e.branchFor(c, words)
			if err != nil {
				return err
			}
			return e.push(c.Context(), branch, force)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "let the branch lose commits that yours lacks")
	e.jsonFlag(c)
	return c
}

// branchFor is the branch a command is about: the one named, else the current one.
func (e *Env) branchFor(c *cobra.Command, words []string) (string, error) {
	if len(words) > 0 {
		return words[0], nil
	}
	at, err := e.git(c.Context(), "symbolic-ref", "-q", "--short", "HEAD")
	if err != nil || at == "" {
		if _, err := config.GitRoot(e.Dir); err != nil {
			return "", err
		}
		return "", usage(c, "no branch is checked out here, so name one")
	}
	return at, nil
}

// git runs git in the person's clone.
func (e *Env) git(ctx context.Context, args ...string) (string, error) {
	out, err := e.Output(ctx, e.Dir, append([]string{"git"}, args...)...)
	return strings.TrimSpace(out), err
}

func (e *Env) push(ctx context.Context, branch string, force bool) error {
	head, err := e.git(ctx, "rev-parse", "--verify", "-q", "refs/heads/"+branch+"^{commit}")
	if err != nil {
		if _, err := config.GitRoot(e.Dir); err != nil {
			return err
		}
		return fault.Wrap(fault.NotFound, err, "there is no branch %s in this clone", line(branch))
	}
	if shallow, err := e.git(ctx, "rev-parse", "--is-shallow-repository"); err == nil && shallow == "true" {
		return fault.New(fault.Invalid, "this clone is shallow: it lacks commits that the pushed ones build on").
			WithNext("git fetch --unshallow")
	}
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	var list op.BranchList
	if err := c.Call(ctx, "listBranches", args{}, &list); err != nil {
		return err
	}
	expect := ""
	for _, b := range list.Branches {
		if b.Name == branch {
			expect = b.Head
		}
	}
	if expect == head {
		return e.pushed(op.Transferred{Branch: branch, Head: head, State: "done"}, expect)
	}
	if expect != "" && !force && !e.contains(ctx, head, expect) {
		return refusal.Of(refusal.NotFastForward, branch, expect[:min(12, len(expect))])
	}
	dir, err := os.MkdirTemp(e.TempDir, "lazy-push-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "bundle")
	create := append([]string{"bundle", "create", "-q", file, "refs/heads/" + branch, "--not"}, e.shared(ctx, head, list)...)
	if _, err := e.git(ctx, create...); err != nil {
		return fault.Wrap(fault.Failed, err, "git cannot bundle %s", line(branch))
	}
	size, sum, err := digest(file)
	if err != nil {
		return err
	}
	in := args{"branch": branch, "head": head, "size": size, "sha256": sum}.with("expect", expect).with("force", force)
	out, err := e.upload(ctx, c, in, file)
	if err != nil {
		return err
	}
	for out.ID != "" && out.State != "done" {
		if err := c.Call(ctx, "finishPush", args{"push_id": out.ID}, &out); err != nil {
			return err
		}
	}
	// Only a note for the person: where the project's branch was last seen.
	_, _ = e.git(ctx, "update-ref", "refs/remotes/lazy/"+branch, head)
	return e.pushed(out, expect)
}

func (e *Env) pushed(out op.Transferred, was string) error {
	if e.json {
		return e.printMoved(out)
	}
	at := line(out.Branch) + " is at " + out.Head[:min(7, len(out.Head))]
	switch {
	case was == out.Head:
		return e.printf("%s already.\n", at)
	case was == "":
		return e.printf("%s. It was made.\n", at)
	}
	return e.printf("%s. It was at %s.\n", at, was[:min(7, len(was))])
}

// printMoved prints an answer without its link, which works for whoever has it.
func (e *Env) printMoved(out op.Transferred) error {
	out.Link = nil
	raw, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return e.printJSON(raw)
}

// optional is an argument that may be left out, once.
func optional() cobra.PositionalArgs {
	return func(c *cobra.Command, words []string) error {
		if len(words) > 1 {
			return usage(c, "%q is one argument too many", words[1])
		}
		return nil
	}
}

// contains reports whether a commit of this clone has another in its history.
func (e *Env) contains(ctx context.Context, head, sha string) bool {
	_, err := e.git(ctx, "merge-base", "--is-ancestor", sha, head)
	return err == nil
}

// shared are the heads of the project that this clone has as well: what they hold
// need not be sent. A bundle has to have something in it.
func (e *Env) shared(ctx context.Context, head string, list op.BranchList) []string {
	var all []string
	for _, b := range list.Branches {
		if b.Task != "" || len(all) == 100 || slices.Contains(all, b.Head) {
			continue
		}
		if _, err := e.git(ctx, "cat-file", "-e", b.Head+"^{commit}"); err == nil && !e.contains(ctx, b.Head, head) {
			all = append(all, b.Head)
		}
	}
	return all
}

// upload announces a bundle and puts it where the answer says.
func (e *Env) upload(ctx context.Context, c Client, in args, file string) (op.Transferred, error) {
	for try := 1; ; try++ {
		var out op.Transferred
		if err := c.Call(ctx, "pushBranch", in, &out); err != nil || out.Link == nil || out.State != "open" {
			return out, err
		}
		err := client.NewStorage().Put(ctx, *out.Link, file)
		if err == nil || errors.Is(err, client.ErrStored) {
			return out, nil
		}
		if try == linkTries || ctx.Err() != nil {
			return out, fault.Wrap(fault.Unavailable, err, "the commits could not be uploaded; no branch has moved").WithNext("Push again.")
		}
	}
}

func digest(file string) (int64, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, "", fmt.Errorf("read bundle: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return 0, "", fmt.Errorf("read bundle: %w", err)
	}
	return n, hex.EncodeToString(h.Sum(nil)), nil
}
