package box

import (
	"errors"
	"os"
	"sync"
)

// pipes are the three streams of a process.
type pipes struct {
	in, out, err    *os.File // ours
	tIn, tOut, tErr *os.File // theirs
	kept            bool
	reading         sync.WaitGroup
}

func openPipes() (*pipes, error) {
	var p pipes
	var e1, e2, e3 error
	p.tIn, p.in, e1 = os.Pipe()
	p.out, p.tOut, e2 = os.Pipe()
	p.err, p.tErr, e3 = os.Pipe()
	if err := errors.Join(e1, e2, e3); err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, err
	}
	return &p, nil
}

func (p *pipes) theirs() []uintptr { return []uintptr{p.tIn.Fd(), p.tOut.Fd(), p.tErr.Fd()} }

func (p *pipes) closeTheirs() {
	for _, f := range []*os.File{p.tIn, p.tOut, p.tErr} {
		_ = f.Close()
	}
}

func (p *pipes) closeOurs() {
	_ = p.in.Close()
	if p.kept {
		go func() {
			p.reading.Wait()
			_ = p.out.Close()
			_ = p.err.Close()
		}()
		return
	}
	_ = p.out.Close()
	_ = p.err.Close()
}

// keep leaves the output streams open until their last holder has ended.
func (p *pipes) keep() { p.kept = true }
