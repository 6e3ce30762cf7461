package supervisor

import (
	"bytes"
	"os"
	"sync"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	b   []byte
	cut bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - 2*names.LogTailBytes; over > 0 {
		t.b = append(t.b[:0], t.b[len(t.b)-names.LogTailBytes:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the last lines, bounded, with control characters made visible.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, _ := text.Escape(spool.LastLines(t.b, t.cut))
	return s
}

// Bounds of what is kept of an agent's output.
const (
	logMost  = 8 << 20
	lineMost = 8 << 20   // a CLI puts a whole answer, or a tool's whole result, into one
	textMost = 256 << 10 // runes of what is handed in as the agent's last words
)

// transcript is the agent's output on disk, where it is found after a crash of
// the supervisor. It starts over when it gets too long.
type transcript struct {
	mu sync.Mutex
	f  *os.File
	n  int64
}

func openTranscript(path string) (*transcript, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &transcript{f: f}, nil
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n += int64(len(p)); t.n > logMost {
		if err := t.f.Truncate(0); err != nil {
			return 0, err
		}
		t.n = int64(len(p))
	}
	return t.f.Write(p)
}

func (t *transcript) close() { _ = t.f.Close() }

// lines hands each line of stdout to a driver's reader. A line that is longer than
// lineMost is left out as a whole: a part of it could read as something else.
type lines struct {
	to   agent.Reader
	take func([]agent.Event)
	part []byte
	over bool
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return n, nil
		}
		if len(l.part) == 0 && !l.over {
			l.take(l.to.Line(p[:i]))
		} else {
			l.add(p[:i])
			l.flush()
		}
		p = p[i+1:]
	}
}

func (l *lines) add(p []byte) {
	if l.over = l.over || len(l.part)+len(p) > lineMost; l.over {
		l.part = nil
		return
	}
	l.part = append(l.part, p...)
}

func (l *lines) flush() {
	if !l.over {
		l.take(l.to.Line(l.part))
	}
	if l.part, l.over = l.part[:0], false; cap(l.part) > lineMost/16 {
		l.part = nil
	}
}

func (l *lines) end() {
	if len(l.part) > 0 {
		l.flush()
	}
	l.take(l.to.End())
}
