package box

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// inlet is what a supervisor sends to one process. Input is kept without bound
// of its own (a prompt is bounded where it is made), so that a process that never
// reads cannot hold up a signal.
type inlet struct {
	mu      sync.Mutex
	more    *sync.Cond
	input   [][]byte         // guarded by mu
	ended   bool             // guarded by mu; no more input comes
	signals []syscall.Signal // guarded by mu
	closed  bool             // guarded by mu; the process has ended, or its lease
}

func newInlet() *inlet {
	in := &inlet{}
	in.more = sync.NewCond(&in.mu)
	return in
}

// listen takes frames until the connection closes.
func (in *inlet) listen(conn net.Conn) {
	defer in.close()
	for {
		k, b, err := readFrame(conn)
		if err != nil {
			return
		}
		in.mu.Lock()
		switch {
		case k == kindInput:
			in.input = append(in.input, b)
		case k == kindClose:
			in.ended = true
		case k == kindSignal && len(b) == 1:
			in.signals = append(in.signals, syscall.Signal(b[0]))
		}
		in.more.Broadcast()
		in.mu.Unlock()
	}
}

func (in *inlet) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.more.Broadcast()
}

// feed writes the input to the process and closes its stdin after it.
func (in *inlet) feed(w io.WriteCloser) {
	defer w.Close()
	for {
		in.mu.Lock()
		for len(in.input) == 0 && !in.ended && !in.closed {
			in.more.Wait()
		}
		if in.closed || len(in.input) == 0 {
			in.mu.Unlock()
			return
		}
		b := in.input[0]
		in.input = in.input[1:]
		in.mu.Unlock()
		if _, err := w.Write(b); err != nil {
			return // it does not read its input; that is its business
		}
	}
}

// signal delivers signals in order until the process has ended.
func (in *inlet) signal(k *kid) {
	for {
		in.mu.Lock()
		for len(in.signals) == 0 && !in.closed {
			in.more.Wait()
		}
		if len(in.signals) == 0 {
			in.mu.Unlock()
			return
		}
		s := in.signals[0]
		in.signals = in.signals[1:]
		in.mu.Unlock()
		k.kill(s)
	}
}
