package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/config"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/text"
)

func (e *Env) initCommand() *cobra.Command {
	var name, command, agent string
	c := &cobra.Command{
		Use:   "init",
		Short: "Set a repository up for lazy: write its lazy.toml",
		Long: "init writes a lazy.toml at the root of the repository you are in. It changes nothing else, and\n" +
			"leaves a lazy.toml that is there alone. State lies outside the repository, in LAZY_HOME or ~/.lazy.\n" +
			"An agent CLI that is installed becomes the project's agent, when you do not choose another.",
		Example: "  lazy init\n  lazy init --agent codex\n  lazy init --command './agent.sh \"$LAZY_PROMPT_FILE\"'",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return e.init(c.Context(), name, command, agent)
		},
	}
	c.Flags().StringVar(&name, "project", "", "name of the project; the folder's name by default")
	c.Flags().StringVar(&agent, "agent", "", "the project's agent: "+strings.Join(names.AgentCLIs(), ", "))
	c.Flags().StringVar(&command, "command", "", "shell command that is the agent; it finds its task in $LAZY_PROMPT_FILE")
	return c
}

func (e *Env) init(ctx context.Context, name, command, agent string) error {
	if command != "" && agent != "" {
		return fault.New(fault.Invalid, "--agent and --command both say what the agent is; give one of them")
	}
	root, err := e.repository(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(root, config.File)
	if _, err := os.Lstat(path); err == nil {
		if _, err := config.LoadProject(path); err != nil {
			return err
		}
		return e.printf("%s is there already and is left as it is.\n", clean(path))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Failed, err, "%s cannot be read: %v", path, cause(err))
	}
	if name == "" {
		name = filepath.Base(root)
	}
	var about string
	if command == "" {
		if agent, about, err = e.chooseAgent(agent); err != nil {
			return err
		}
	}
	text := starter(name, command, agent)
	if _, problems := config.ParseProject([]byte(text)); len(problems) > 0 {
		return fault.New(fault.Invalid, "that would not be a valid %s:\n  %s", config.File, strings.Join(problems, "\n  "))
	}
	if err := writeNew(path, text); err != nil {
		return fault.Wrap(fault.Failed, err, "%s cannot be written: %v", path, cause(err)).
			WithNext("Nothing was set up. Free the disk or correct the permissions, then try again.")
	}
	if err := e.printf("Wrote %s\n", clean(path)); err != nil {
		return err
	}
	if about != "" {
		if err := e.printf("%s", about); err != nil {
			return err
		}
	}
	return e.printf("Next: commit lazy.toml, then `lazy create --goal \"…\"` and `lazy start`.\n")
}

// writeNew writes a file that must not exist yet, whole or not at all.
func writeNew(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".lazy-init-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // refuses a file that appeared meanwhile
}

// repository is the root of the repository at hand, refused in each of the
// states that lazy cannot work from, with the way out of it.
func (e *Env) repository(ctx context.Context) (string, error) {
	git := func(args ...string) (string, error) {
		out, err := e.Output(ctx, e.Dir, append([]string{"git"}, args...)...)
		return strings.TrimSpace(out), err
	}
	if _, err := e.LookPath("git"); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "git is not installed").WithNext("Install git, then run `lazy init` again.")
	}
	bare, err := git("rev-parse", "--is-bare-repository")
	if err != nil {
		if strings.Contains(err.Error(), "dubious ownership") {
			return "", fault.Wrap(fault.Invalid, err, "the repository at %s belongs to another user, so git refuses to work on it", e.Dir).
				WithNext("Run lazy as its owner, or allow it: `git config --global --add safe.directory ⟨path⟩`.")
		}
		return "", fault.Wrap(fault.Invalid, err, "%s is not inside a git repository", e.Dir).
			WithNext("Make one: `git init`, a first commit, then `lazy init`.")
	}
	if bare == "true" {
		return "", fault.New(fault.Invalid, "%s is a bare repository, which has no work tree to set up", e.Dir).
			WithNext("Clone it, and run `lazy init` in the clone.")
	}
	root, err := git("rev-parse", "--show-toplevel")
	if err != nil || root == "" {
		return "", fault.Wrap(fault.Invalid, err, "%s is inside a repository's .git folder, not in its work tree", e.Dir).
			WithNext("Go to the work tree, then run `lazy init`.")
	}
	if main, linked := e.linked(git, root); linked {
		return "", fault.New(fault.Invalid, "%s is a linked worktree; lazy works on the repository it belongs to", root).
			WithNext("Run `lazy init` in " + main + ".")
	}
	if _, err := git("rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "%s has no commit yet, so there is nothing a task could start from", root).
			WithNext("Make a first commit: `git commit --allow-empty -m \"Begin\"`, then run `lazy init` again.")
	}
	if _, err := git("symbolic-ref", "--quiet", "HEAD"); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "%s has a detached HEAD, so there is no branch that tasks could be merged into", root).
			WithNext("Check a branch out: `git switch ⟨branch⟩`, then run `lazy init` again.")
	}
	return root, nil
}

// linked finds the main work tree of a linked one.
func (e *Env) linked(git func(...string) (string, error), root string) (string, bool) {
	own, err1 := git("rev-parse", "--path-format=absolute", "--git-dir")
	common, err2 := git("rev-parse", "--path-format=absolute", "--git-common-dir")
	if err1 != nil || err2 != nil || own == common {
		return root, false
	}
	return filepath.Dir(common), true
}

// starter is the lazy.toml that init writes: short, and every setting a person
// is likely to want is there to be switched on.
func starter(name, command, cli string) string {
	if cli != "" {
		return fmt.Sprintf(starterHead, text.TOML(name)) + fmt.Sprintf(`# The agent is a CLI that lazy starts by itself; docs/agents.md says more. Its
# model's key is stored once with "lazy auth add" and never reaches the agent.
[agent]
agent_id = %s
`, text.TOML(cli)) + starterTail
	}
	agent := `# This one does nothing but say that no agent is set up yet.
command = ["/bin/echo", "No agent is set up: put its command under [agents.command] in lazy.toml, then lazy resume."]
`
	if command != "" {
		agent = "command = [\"/bin/sh\", \"-c\", " + text.TOML(command) + "]\n"
	}
	return fmt.Sprintf(starterHead, text.TOML(name)) + fmt.Sprintf(`# The agent is any program. It works in the task's own work tree, finds what to do
# in the file $LAZY_PROMPT_FILE, and acts through lazy-agent, for example:
#   lazy-agent call lazy_commit '{"message":"…"}'
#   lazy-agent call lazy_final '{}'
[agent]
agent_id = "command"

[agents.command]
%s`, agent) + starterTail
}

const starterHead = `# How lazy works on this repository. docs/configuration.md explains every setting.

# network = "none"        # what an agent may reach: "open", "none" or "allow:host,…"

[project]
name = %s

`

const starterTail = `
# [workspace]
# setup = "npm ci"        # run once in a task's work tree before its first turn
# copy = [".env"]         # ignored files the work tree needs a copy of

# [protection]
# paths = ["infra/**"]    # an agent's change to these needs approval at accept;
#                         # read once, when lazy first runs here: later, lazy protect
`
