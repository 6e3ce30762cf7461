package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// Client reaches the helper of one sandbox.
type Client struct{ Socket string }

// Process is a process the helper runs for us.
type Process struct {
	conn net.Conn

	mu   sync.Mutex // one writer of frames at a time
	done chan struct{}
	exit Exit  // set before done is closed
	err  error // set before done is closed
}

func (c Client) dial(ctx context.Context, req request) (net.Conn, error) {
	conn, err := spool.Dial(ctx, c.Socket)
	if err != nil {
		return nil, fmt.Errorf("reach sandbox: %w", err)
	}
	if err := writeJSON(conn, kindRequest, req); err != nil {
		return nil, errors.Join(fmt.Errorf("ask sandbox: %w", err), conn.Close())
	}
	return conn, nil
}

// Start runs a command in the sandbox and returns once it runs. A program that is
// not there is fault.NotFound. The streams are read until the process has ended;
// what descendants print later is dropped, never refused.
func (c Client) Start(ctx context.Context, cmd Command, stdin io.Reader, stdout, stderr io.Writer) (*Process, error) {
	conn, err := c.dial(ctx, request{Op: opRun, Command: cmd})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	k, b, err := readFrame(conn)
	if !stop() {
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
	if err == nil && k != kindStarted {
		err = faultOf(k, b)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p := &Process{conn: conn, done: make(chan struct{})}
	go p.feed(stdin)
	go p.read(stdout, stderr)
	return p, nil
}

func faultOf(k kind, b []byte) error {
	if k != kindFault {
		return fmt.Errorf("sandbox answered with frame %q", byte(k))
	}
	var r refused
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("read sandbox refusal: %w", err)
	}
	return fault.New(r.Kind, "%s", r.Text)
}

func (p *Process) write(k kind, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return writeFrame(p.conn, k, b)
}

func (p *Process) feed(stdin io.Reader) {
	if stdin != nil {
		buf := make([]byte, 32<<10)
		for {
			n, err := stdin.Read(buf)
			if n > 0 && p.write(kindInput, buf[:n]) != nil {
				return
			}
			if err != nil {
				break
			}
		}
	}
	_ = p.write(kindClose, nil)
}

func (p *Process) read(stdout, stderr io.Writer) {
	defer close(p.done)
	defer p.conn.Close()
	for {
		k, b, err := readFrame(p.conn)
		if err != nil {
			p.err = fmt.Errorf("sandbox is gone: %w", err)
			p.exit = Exit{Code: -1}
			return
		}
		switch k {
		case kindOut:
			_, _ = stdout.Write(b)
		case kindErr:
			_, _ = stderr.Write(b)
		case kindDone:
			if p.err = json.Unmarshal(b, &p.exit); p.err == nil && p.exit.Limit != "" {
				p.err = fault.Wrap(fault.Failed, ErrLimit, "everything in the sandbox was ended: %s", p.exit.Limit).
					WithNext("Raise that limit in lazy.toml, or have the agent do with less.")
			}
			return
		default:
			p.err, p.exit = faultOf(k, b), Exit{Code: -1}
			return
		}
	}
}

// Signal sends a signal to the process and its group.
func (p *Process) Signal(s syscall.Signal) error { return p.write(kindSignal, []byte{byte(s)}) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended; only after Done. An error means that the
// sandbox went away with it.
func (p *Process) Exit() (Exit, error) { return p.exit, p.err }

// Run runs a command to its end. A canceled context kills it.
func (c Client) Run(ctx context.Context, cmd Command, stdin io.Reader, stdout, stderr io.Writer) (Exit, error) {
	p, err := c.Start(ctx, cmd, stdin, stdout, stderr)
	if err != nil {
		return Exit{Code: -1}, err
	}
	select {
	case <-p.Done():
		return p.Exit()
	case <-ctx.Done():
		_ = p.conn.Close() // the helper ends what a lost supervisor started
		<-p.done
		return Exit{Code: -1}, ctx.Err()
	}
}

// Look reports whether a program can be found from dir with the PATH of env;
// fault.NotFound says that it cannot (AG-004).
func (c Client) Look(ctx context.Context, program, dir string, env []string) error {
	_, err := c.ask(ctx, request{Op: opLook, Command: Command{Argv: []string{program}, Dir: dir, Env: env}})
	return err
}

// Write writes a file inside.
func (c Client) Write(ctx context.Context, f File) error {
	_, err := c.ask(ctx, request{Op: opWrite, File: &f})
	return err
}

// Health asks the helper for a sign of life.
func (c Client) Health(ctx context.Context) (Health, error) { return c.ask(ctx, request{Op: opHealth}) }

// End ends the helper and everything it started.
func (c Client) End(ctx context.Context) error {
	_, err := c.ask(ctx, request{Op: opEnd})
	return err
}

func (c Client) ask(ctx context.Context, req request) (Health, error) {
	conn, err := c.dial(ctx, req)
	if err != nil {
		return Health{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	k, b, err := readFrame(conn)
	if err != nil {
		return Health{}, fmt.Errorf("read sandbox answer: %w", err)
	}
	if k != kindHealth {
		return Health{}, faultOf(k, b)
	}
	var h Health
	if err := json.Unmarshal(b, &h); err != nil {
		return Health{}, fmt.Errorf("read sandbox answer: %w", err)
	}
	return h, nil
}

// Abandon drops the process: the helper ends what a lost supervisor started.
func (p *Process) Abandon() { _ = p.conn.Close() }
