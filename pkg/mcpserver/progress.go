package mcpserver

import (
	"fmt"
	"sync"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
)

// progress tells a client that its call is alive (MC-022): a notification at
// once, at each heartbeat and for each phase, strictly counting from 1, only if
// the request carried a token, and none after the result. A client without a
// token gets comments at the same times.
type progress struct {
	out *writer
	// notify sends the nth notification; nil when no token was sent.
	notify func(n int, message string)

	mu      sync.Mutex
	n       int            // guarded by mu
	message string         // guarded by mu; the last phase
	ended   bool           // guarded by mu
	told    map[int]string // guarded by mu; the last state told of each phase

	quit chan struct{}
	done chan struct{}
}

// start sends the first sign of life and one more every so often until stop.
func (p *progress) start(every time.Duration) {
	p.quit, p.done = make(chan struct{}), make(chan struct{})
	p.out.comment()
	p.tick()
	go func() {
		defer close(p.done)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-t.C:
				if p.notify == nil {
					p.out.comment()
				}
				p.tick()
			}
		}
	}()
}

// stop returns once nothing more will be sent.
func (p *progress) stop() {
	close(p.quit)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// phase tells a phase of the operation at once, unless it was told already or
// has yet to begin: a look at an operation shows all of its phases.
func (p *progress) phase(ph app.Phase) {
	if ph.State == "planned" {
		return
	}
	text := fmt.Sprintf("%d/%d %s: %s", ph.N, ph.Of, ph.Name, ph.State)
	if ph.N == 0 {
		text = ph.Name + ": " + ph.State
	}
	if ph.Note != "" {
		text += " (" + ph.Note + ")"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[ph.N] == text {
		return
	}
	if p.told == nil {
		p.told = map[int]string{}
	}
	p.told[ph.N], p.message = text, text
	p.send()
}

func (p *progress) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send()
}

// send wants mu held.
func (p *progress) send() {
	if p.ended || p.notify == nil {
		return
	}
	p.n++
	p.notify(p.n, p.message)
}
