package agentcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// install puts this program into a volume that another container sees read-only,
// so that an image without it can be an agent's (AG-026). It appears there whole.
func (p Program) install(_ context.Context, args []string, _ func(string) string, s Stdio) (err error) {
	f := flags("install", s)
	to := f.String("to", "", "directory to put it in")
	if err := parse(f, args, false); err != nil {
		return err
	}
	if !filepath.IsAbs(*to) {
		return fault.New(fault.Invalid, "lazy-agent install needs --to with an absolute path")
	}
	bin, err := p.self()
	if err != nil {
		return err
	}
	in, err := os.Open(bin)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer in.Close()
	if err := os.MkdirAll(*to, 0o755); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	out, err := os.CreateTemp(*to, ".install-*")
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Close()); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	at := filepath.Join(*to, names.AgentBinary)
	if err := os.Rename(out.Name(), at); err != nil {
		return fmt.Errorf("install: %w", err)
	}
	_, err = fmt.Fprintln(s.Out, at)
	return err
}
