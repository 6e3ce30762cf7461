package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// work is an agent that writes one file, commits, declares and ends.
func work(name, text string) func(*sup) {
	return func(s *sup) {
		s.begin()
		if s.cmd.Kind != turn.Work {
			s.ok("nothing to do")
		}
		s.write(name, text)
		if err := s.commit("write " + name); err != nil && !errors.Is(err, git.ErrNothing) {
			s.die(1, err.Error())
		}
		if _, err := s.tool("lazy_final", in{"note": "as asked"}); err != nil {
			s.die(1, err.Error())
		}
		s.ok("I wrote " + name + ".")
	}
}

// crash is an agent whose supervisor dies with a code after a while.
func crash(after time.Duration, code int, reason string) func(*sup) {
	return func(s *sup) {
		s.begin()
		s.goOn(after)
		s.die(code, reason)
	}
}

// gitIn runs git as the agent does, in its workspace.
func gitIn(c turn.Command, args ...string) (string, error) {
	w := git.Workspace{State: c.State, Tree: c.Tree, GitDir: c.GitDir, Objects: c.Objects, Shared: c.Shared, Borrowed: c.Borrowed}
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = c.Tree, append(os.Environ(), w.Env()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
