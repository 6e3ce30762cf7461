package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// ignorer asks git which untracked paths are ignored. git sees the copies of
// the .gitignore files in the shadow tree, so its answer is exact and it opens
// nothing an agent can write. The process starts with the first question.
type ignorer struct {
	p    *private
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs *tail
}

func (g *ignorer) start(ctx context.Context) error {
	i := g.p.invocation(nil, []string{"check-ignore", "-z", "--stdin", "--verbose", "--non-matching", "--no-index"}, "GIT_FLUSH=1", "GIT_LITERAL_PATHSPECS=0")
	g.cmd = g.p.r.git.command(ctx, i)
	g.errs = &tail{max: 4 << 10}
	g.cmd.Stderr = g.errs
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	g.out = bufio.NewReaderSize(out, 64<<10)
	return g.cmd.Start()
}

// ignored answers for paths of one directory, in order.
func (g *ignorer) ignored(ctx context.Context, paths []string) ([]bool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if g.cmd == nil {
		if err := g.start(ctx); err != nil {
			return nil, fmt.Errorf("start git check-ignore: %w", err)
		}
	}
	wrote := make(chan error, 1)
	go func() {
		// "./" keeps a name that begins with a colon from being read as magic;
		// this command does not take literal pathspecs.
		_, err := io.WriteString(g.in, "./"+strings.Join(paths, "\x00./")+"\x00")
		wrote <- err
	}()
	answers := make([]bool, len(paths))
	var rerr error
	for i := range paths {
		var f [4]string // source, line, pattern, path
		for j := range f {
			if f[j], rerr = g.out.ReadString(0); rerr != nil {
				break
			}
		}
		if rerr != nil {
			// The writer cannot finish once the reader is gone.
			rerr = errors.Join(rerr, g.in.Close())
			break
		}
		pattern := strings.TrimSuffix(f[2], "\x00")
		answers[i] = pattern != "" && !strings.HasPrefix(pattern, "!")
	}
	if err := errors.Join(rerr, <-wrote); err != nil {
		return nil, fmt.Errorf("ask git check-ignore: %w: %s", err, strings.TrimSpace(g.errs.String()))
	}
	return answers, nil
}

// close ends the process. Its status says only whether something was ignored.
func (g *ignorer) close() error {
	if g.cmd == nil || g.cmd.Process == nil {
		return nil
	}
	err := g.in.Close()
	if werr := g.cmd.Wait(); werr != nil {
		if x, ok := errors.AsType[*exec.ExitError](werr); !ok || x.ExitCode() != 1 {
			err = errors.Join(err, werr)
		}
	}
	return err
}
