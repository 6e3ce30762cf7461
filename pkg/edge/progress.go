package edge

import (
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Progress renders the state of an operation for an audience.
func Progress(p app.Progress, to envelope.Audience, request string) envelope.Progress {
	w := envelope.Progress{Operation: p.Operation, Done: p.Done, Cursor: p.Cursor}
	for _, ph := range p.Phases {
		w.Phases = append(w.Phases, envelope.Phase(ph))
	}
	switch {
	case !p.Done:
		w.Resume = envelope.Resume
	case p.Error != nil:
		status, e := envelope.Render(p.Error, to, request)
		w.Status, w.Error = status, &e
	default:
		w.Status, w.Result = fault.HTTP(nil), p.Result
	}
	return w
}
