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
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// The one list of exit codes (HA-035, OT-052). Refusals and failures take theirs
// from the fault table.
const (
	exitDone    = 0
	exitFailed  = 1
	exitRefused = 2
	exitStill   = 5
)

// usageError is a command line nobody could have meant.
type usageError struct{ text, command string }

func (u *usageError) Error() string { return u.text }

func usage(c *cobra.Command, format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...), command: c.CommandPath()}
}

// stillError says that work goes on although the command stops following it.
type stillError struct {
	what string // "the start of hello"
	id   string // operation to re-attach to
	next string // the command that re-attaches
}

func (s *stillError) Error() string { return s.what + " is still running" }

// Main runs one command line and returns the exit code.
func Main(ctx context.Context, e *Env, args []string) int {
	root := e.root()
	root.SetArgs(args)
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	return e.report(err)
}

func (e *Env) root() *cobra.Command {
	dir := ""
	c := &cobra.Command{
		Use:   "lazy",
		Short: "Run coding agents as reviewable, crash-safe, mergeable tasks",
		Long: "lazy runs coding agents as tasks: each works in a sealed worktree of your repository,\n" +
			"commits through a broker, and is merged only when you accept it.\n\n" +
			"Try it: lazy demo. In your own repository: lazy init, then lazy create.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			near := ""
			if s := c.SuggestionsFor(args[0]); len(s) > 0 {
				near = "; did you mean " + strings.Join(s, " or ") + "?"
			}
			return usage(c, "there is no command %q%s", args[0], near)
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return nil
			}
			at := dir
			if !filepath.IsAbs(at) {
				at = filepath.Join(e.Dir, at)
			}
			if info, err := os.Stat(at); err != nil || !info.IsDir() {
				return usage(c, "%s is not a directory", dir)
			}
			e.Dir = at
			return nil
		},
		SuggestionsMinimumDistance: 2,
	}
	c.PersistentFlags().StringVarP(&dir, "dir", "C", "", "work as if started in this directory")
	c.CompletionOptions.DisableDefaultCmd = true
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, "%s", err) })
	for _, group := range e.commands() {
		c.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, sub := range group.commands {
			sub.GroupID = group.id
			c.AddCommand(sub)
		}
	}
	return c
}

type group struct {
	id, title string
	commands  []*cobra.Command
}

// report prints what went wrong and what to do next, and picks the exit code.
func (e *Env) report(err error) int {
	say := func(format string, args ...any) { fmt.Fprintf(e.Err, format+"\n", args...) }
	if u, ok := errors.AsType[*usageError](err); ok {
		say("lazy: %s", clean(u.text))
		say("  next: %s --help", u.command)
		return exitRefused
	}
	if s, ok := errors.AsType[*stillError](err); ok {
		say("lazy: %s; operation %s", s.Error(), s.id)
		say("  next: %s", s.next)
		return exitStill
	}
	if w, ok := errors.AsType[*waitError](err); ok {
		say("lazy: %s", clean(w.Error()))
		say("  next: lazy wait %s", clean(strings.Join(w.words, " ")))
		return exitStill
	}
	if lost, ok := errors.AsType[*client.LostError](err); ok {
		say("lazy: %s", clean(lost.Error()))
		if lost.Operation != "" {
			say("  next: lazy wait --operation %s", lost.Operation)
			return exitStill
		}
		say("  next: look at the task before you try again")
		return exitFailed
	}
	if away, ok := errors.AsType[*client.UnreachableError](err); ok {
		say("lazy: %s", clean(away.Error()))
		say("  next: lazy plane status")
		return exitFailed
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) {
			say("lazy: interrupted")
			return exitFailed
		}
		say("lazy: %s", clean(err.Error()))
		return exitFailed
	}
	public := f.Public
	if f.Kind == fault.Internal && f.Err != nil && public == "internal error" {
		public += ": " + f.Err.Error() // this process's own error, on the person's own machine
	}
	say("lazy: %s", clean(public))
	for _, n := range f.Next {
		if f.Code == string(refusal.UsagePaused) && !e.TTY(e.Err) {
			continue // how to pass it is for a person on their own terminal (US-014)
		}
		if n.For == "" || n.For == "cli" || n.For == "person" {
			say("  next: %s", clean(n.Text))
		}
	}
	return fault.Exit(f)
}

// exactly accepts as many arguments as names, and says which one is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usage(c, "%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return usage(c, "%q is one argument too many", args[len(names)])
		}
		for i, a := range args {
			if text.Blank(a) {
				return usage(c, "%s is empty", names[i])
			}
		}
		return nil
	}
}

// between accepts min to max arguments of one kind; max < 0 is any number.
func between(min, max int, name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usage(c, "%s is missing", name)
		case max >= 0 && len(args) > max:
			return usage(c, "%q is one argument too many", args[max])
		}
		if slices.ContainsFunc(args, text.Blank) {
			return usage(c, "%s is empty", name)
		}
		return nil
	}
}

// firstThen accepts one argument, which may not be empty, and any further words.
func firstThen(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(c, "%s is missing", name)
		}
		if text.Blank(args[0]) {
			return usage(c, "%s is empty", name)
		}
		return nil
	}
}
