package supervisor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/supervisor"
)

// limitsFile, beside a task's runs, gives its supervisors another clock for the
// time an agent has for a step. They write a line into it for each that begins.
const limitsFile = "limits"

// limits has the supervisors of r take that time for over as soon as the next
// begins, or, with a name, when the n-th run of the agent has made the file
// name+n and has been heard. begun is how often it began.
func (r *rig) limits(name string) (begun func() int) {
	r.t.Helper()
	at := filepath.Join(spool.TaskDir(r.state, taskID), limitsFile)
	if name != "" {
		name = filepath.Join(r.ws.Tree, name)
	}
	must(r.t, os.MkdirAll(filepath.Dir(at), 0o700))
	must(r.t, os.WriteFile(at, []byte(name+"\n"), 0o600))
	return func() int {
		b, err := os.ReadFile(at)
		must(r.t, err)
		return bytes.Count(b, []byte("\n")) - 1
	}
}

// limits is that clock, nil without its file.
func limits(at string) func(context.Context, string, time.Duration) <-chan struct{} {
	b, err := os.ReadFile(at)
	if err != nil {
		return nil
	}
	name, _, _ := strings.Cut(string(b), "\n")
	n := 0
	var last chan struct{}
	return func(ctx context.Context, what string, d time.Duration) <-chan struct{} {
		over := make(chan struct{})
		if what != supervisor.WaitWatchdog {
			t := time.AfterFunc(d, func() { close(over) })
			context.AfterFunc(ctx, func() { t.Stop() })
			return over
		}
		n++
		if f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			fmt.Fprintln(f, d)
			_ = f.Close()
		}
		switch {
		case name != "":
			go until(ctx, fmt.Sprint(name, n), over)
		case last != nil:
			close(last)
		}
		last = over
		return over
	}
}

// until closes over when the agent has made the file and its words are kept.
func until(ctx context.Context, file string, over chan<- struct{}) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		said, _ := os.ReadFile(spool.AgentLog)
		if _, err := os.Stat(file); err == nil && len(said) > 0 {
			close(over)
			return
		}
		<-look.C
	}
}
