package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/box"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// Container says where the agent's own container is met. Both containers see the
// same paths; the agent's has nothing else of this one's (AG-022).
type Container struct {
	Sockets string // directory of the sockets; the agent's user cannot write it
	Exec    string // socket of the helper; the agent's user cannot connect to it
	Helper  string // this program there
	Home    string // the agent's home directory
	UID     int    // the agent's user; 0 is ours
}

// containerWait bounds the start of the agent's container, whose image may be large.
const containerWait = 10 * time.Minute

// joinContainer waits for the helper in the agent's container.
func (r *run) joinContainer(ctx context.Context) error {
	c := r.Container
	if err := os.MkdirAll(r.boxDir(), 0o700); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	r.view = sandbox.View{Helper: c.Helper, Sockets: c.Sockets, Home: c.Home, Tmp: "/tmp"}
	r.tools = filepath.Join(c.Sockets, toolSocket)
	home, err := r.agentHome()
	if err != nil {
		return err
	}
	r.home = home
	if err := chown(c.Home, c.UID, nil); err != nil {
		return fmt.Errorf("hand over home: %w", err)
	}
	r.box = box.Client{Socket: c.Exec}
	ctx, cancel := context.WithTimeout(ctx, containerWait)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		h, err := r.box.Health(ctx)
		if err == nil && !strings.HasPrefix(h.Sentinel, names.Sentinel) {
			return fault.New(fault.Unavailable, "what listens in the agent's container is not lazy-agent")
		}
		if err == nil {
			h.Home = c.Home
			r.settleDesk(h)
			return nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if s := stopOf(ctx); s != nil {
				return s
			}
			return fault.Wrap(fault.Unavailable, errors.Join(err, context.Cause(ctx)), "the agent's container did not start").
				WithNext("Look at the stopped task in ECS: its image may not run here.")
		}
	}
}

// leaveContainer ends the agent's container, which takes no signal: until it has
// ended, the task goes on and costs.
func (r *run) leaveContainer() {
	ctx, cancel := context.WithTimeout(context.Background(), r.Grace)
	defer cancel()
	if err := (box.Client{Socket: r.Container.Exec}).End(ctx); err != nil {
		r.log.Warn("end the agent's container", "err", err)
	}
}

// listen makes a socket of the run's that the agent may connect to.
func (r *run) listen(ctx context.Context, name string) (*net.UnixListener, error) {
	if r.Container == nil {
		return spool.Listen(ctx, filepath.Join(r.sandboxDir(), "run", name))
	}
	at := filepath.Join(r.Container.Sockets, name)
	l, err := spool.Listen(ctx, at)
	if err != nil {
		return nil, err
	}
	// The directory keeps others from replacing it.
	if err := os.Chmod(at, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open socket to the agent: %w", err), l.Close())
	}
	return l, nil
}

// handOver gives the agent's user what it works on, and keeps what says where
// things are (GT-002).
func (r *run) handOver() error {
	if r.Container == nil || r.Container.UID == 0 {
		return nil
	}
	for dir, ours := range map[string][]string{
		r.cmd.Tree:    {".git"},
		r.cmd.GitDir:  {"commondir", "gitdir", "config.worktree", "locked"},
		r.cmd.Objects: {"info"},
	} {
		if err := chown(dir, r.Container.UID, ours); err != nil {
			return fmt.Errorf("hand over workspace: %w", err)
		}
	}
	return nil
}

// shut is the mode of a directory whose user may do in it what he likes with what is
// his, and cannot take away or replace what is not.
const shut = fs.ModeSticky | 0o775

// chown gives a directory and all below it to a user, but for the names at its top
// that stay ours. Where there are such names the directory itself stays ours as
// well: whoever owns it could put others in their place. Nothing is followed.
func chown(dir string, uid int, ours []string) error {
	if uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	kept := map[string]bool{}
	for _, name := range ours {
		kept[name] = true
	}
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if p == "." && len(ours) > 0 {
			return errors.Join(root.Lchown(p, os.Geteuid(), uid), root.Chmod(p, shut))
		}
		if kept[p] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has gone
		}
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
			return nil
		}
		if err := root.Lchown(p, uid, uid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}
