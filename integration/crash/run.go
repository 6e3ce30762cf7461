package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
)

// Outcome is what one run of a scenario came to.
type Outcome struct {
	Points []string // every durable step, in the order of their number
	Died   []string // where processes were ended
	Lives  int      // of the plane
}

// Play runs a scenario in a world of its own and ends processes at the given
// points. The error says what was lost or done twice.
func Play(ctx context.Context, home, dir string, s Scenario, at ...int) (out Outcome, err error) {
	w, err := NewWorld(ctx, home, dir)
	if err != nil {
		return out, err
	}
	defer w.Close()
	defer func() {
		out.Died, out.Lives = w.Died(), int(w.lives.Load())
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, w.Scene())
			err = fmt.Errorf("%s, ended at %v %v: %w", s.Name, at, out.Died, err)
		}
	}()
	if err := w.Arm(at...); err != nil {
		return out, err
	}
	if err := w.Up(ctx); err != nil {
		return out, err
	}
	if err := s.Run(ctx, w); err != nil {
		return out, errors.Join(err, w.Sound(ctx))
	}
	if err := w.Sound(ctx); err != nil {
		return out, err
	}
	if err := w.Settled(ctx); err != nil {
		return out, err
	}
	out.Points, err = w.Reached()
	return out, err
}

// Places makes the folders worlds live in, below a short path: a socket's name
// must not be long.
type Places struct {
	Home string
	root string
	n    atomic.Int64
}

// NewPlaces makes the folder of all worlds.
func NewPlaces() (*Places, error) {
	root, err := os.MkdirTemp("", "lzc")
	if err != nil {
		return nil, err
	}
	p := &Places{Home: root + "/h", root: root}
	return p, os.Mkdir(p.Home, 0o700)
}

// Next makes the folder of a world.
func (p *Places) Next() (string, error) {
	dir := fmt.Sprintf("%s/%d", p.root, p.n.Add(1))
	return dir, os.Mkdir(dir, 0o700)
}

// Remove deletes everything.
func (p *Places) Remove() { _ = os.RemoveAll(p.root) }
