package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// bundleRef is what the commit is called in a bundle of the control plane's.
const bundleRef = "refs/heads/lazy"

// downloadMost bounds what is taken from storage.
const downloadMost = 8 << 30

func (e *Env) pullCommand() *cobra.Command {
	list := false
	c := &cobra.Command{
		Use:   "pull [BRANCH]",
		Short: "Take commits of the hosted project into this clone",
		Long: "pull takes a branch, the current one when none is named, from a project whose repository lies with the\n" +
			"control plane. It is then refs/remotes/lazy/BRANCH here, and your own branch follows where it has no commits\n" +
			"of its own. A task's branch is lazy/CODE; what a rejected task left is kept/SHORT-ID.",
		Example: "  lazy pull             # after an accept\n  lazy pull lazy/fix-login\n  lazy pull --list",
		Args:    optional(), ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, words []string) error {
			if list {
				return e.listBranches(c.Context())
			}
			branch, err := e.branchFor(c, words)
			if err != nil {
				return err
			}
			return e.pull(c.Context(), branch)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the branches, take none")
	e.jsonFlag(c)
	return c
}

func (e *Env) listBranches(ctx context.Context) error {
	raw, err := e.call(ctx, "listBranches", args{})
	if err != nil {
		return err
	}
	return show(e, raw, func(out op.BranchList) error {
		if len(out.Branches) == 0 {
			return e.printf("The project has no commits yet: lazy push\n")
		}
		for _, b := range out.Branches {
			mark := "  "
			if b.Name == out.Main {
				mark = "* "
			}
			if err := e.printf("%s%.7s  %s\n", mark, b.Head, line(b.Name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *Env) pull(ctx context.Context, branch string) error {
	here, err := e.git(ctx, "for-each-ref", "--count=100", "--sort=-committerdate", "--format=%(objectname)", "refs/heads", "refs/remotes/lazy")
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "this is no clone that commits could be taken into")
	}
	c, err := e.client(ctx)
	if err != nil {
		return err
	}
	have := strings.Fields(here)
	slices.Sort(have)
	in := args{"branch": branch}.with("have", slices.Compact(have))
	out := op.Transferred{State: stateOrdered}
	for out.State == stateOrdered {
		out = op.Transferred{}
		if err := c.Call(ctx, "pullBranch", in, &out); err != nil {
			return err
		}
	}
	at := "refs/remotes/lazy/" + branch
	if out.Link == nil {
		_, err = e.git(ctx, "update-ref", at, out.Head)
	} else {
		err = e.take(ctx, c, in, out, at)
	}
	if err != nil {
		return err
	}
	if got, err := e.git(ctx, "rev-parse", "--verify", "-q", at); err != nil || got != out.Head {
		return fault.Wrap(fault.Failed, err, "what was downloaded is not %s at %.7s", line(branch), out.Head)
	}
	followed := e.follow(ctx, branch, at)
	if e.json {
		return e.printMoved(out)
	}
	if followed {
		return e.printf("%s is at %.7s.\n", line(branch), out.Head)
	}
	return e.printf("lazy/%s is at %.7s; your own %s has commits or edits in the way: git merge lazy/%s\n", line(branch), out.Head, line(branch), line(branch))
}

// take downloads a bundle and brings it in under a ref.
func (e *Env) take(ctx context.Context, c Client, in args, out op.Transferred, at string) error {
	dir, err := os.MkdirTemp(e.TempDir, "lazy-pull-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "bundle")
	for try := 1; ; try++ {
		err := download(ctx, out, file)
		if err == nil {
			break
		}
		if try == linkTries || ctx.Err() != nil {
			return fault.Wrap(fault.Unavailable, err, "the commits could not be downloaded").WithNext("Pull again.")
		}
		if err := c.Call(ctx, "pullBranch", in, &out); err != nil {
			return err
		}
		if out.Link == nil {
			return fault.New(fault.Unavailable, "the commits could not be downloaded").WithNext("Pull again.")
		}
	}
	if _, err := e.git(ctx, "-c", "fetch.fsckObjects=true", "fetch", "-q", "--no-tags", "--no-write-fetch-head", file, "+"+bundleRef+":"+at); err != nil {
		return fault.Wrap(fault.Failed, err, "git does not take what was downloaded")
	}
	return nil
}

func download(ctx context.Context, out op.Transferred, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return errors.Join(client.NewStorage().Get(ctx, *out.Link, f, downloadMost), f.Close())
}

// follow brings the person's own branch along where nothing of theirs is in the way.
func (e *Env) follow(ctx context.Context, branch, at string) bool {
	if current, err := e.git(ctx, "symbolic-ref", "-q", "--short", "HEAD"); err == nil && current == branch {
		_, err = e.git(ctx, "merge", "-q", "--ff-only", at)
		return err == nil
	}
	_, err := e.git(ctx, "fetch", "-q", "--no-tags", "--no-write-fetch-head", ".", at+":refs/heads/"+branch)
	return err == nil
}
