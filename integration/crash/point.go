// Package crash ends real processes at every durable step of whole scenarios and
// looks whether anything was lost or done twice (DESIGN 10, P9). The program it
// runs is the product itself, built into the binary of the test: that binary
// starts itself again as the control plane and as lazy-agent.
package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// The files by which the processes of one world and its harness agree. They lie
// in one folder of the project's state, which a supervisor finds from the folder
// of its run: its environment carries nothing.
const (
	folder    = "crash"
	pointFile = "points" // every point reached by any process, in order
	armedFile = "armed"  // numbers of the points at which to die
	diedFile  = "died"   // the points somebody died at
	clockFile = "clock"  // nanoseconds the plane's clock is ahead
)

// width is the length of one record of the points file: its number is its place,
// so that processes count together.
const width = 64

// counter counts the durable steps of one process into the world's common count.
type counter struct {
	mu   sync.Mutex
	dir  string
	role string
}

// counting returns the hook of a process, nil where no world counts.
func counting(dir, role string) func(point string) {
	if _, err := os.Stat(filepath.Join(dir, armedFile)); err != nil {
		return nil
	}
	return (&counter{dir: dir, role: role}).point
}

// idle are the answers that change nothing and come as often as somebody asks: a
// count of them would say nothing.
var idle = []string{"reply.rpc.getStatus", "reply.rpc.checkDeep", "reply.rpc.listActive", "reply.runner.beat"}

// point counts, and ends the process when the world wants it dead here. It is
// called around each durable step, so before and after are two points.
func (c *counter) point(name string) {
	for _, w := range idle {
		if strings.Contains(name, w) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.count(name)
	if err != nil {
		panic(fmt.Sprintf("crash: count %s: %v", name, err)) // a world that miscounts proves nothing
	}
	if slices.Contains(armed(c.dir), n) {
		c.die(n, name)
	}
}

func (c *counter) count(name string) (int, error) {
	f, err := os.OpenFile(filepath.Join(c.dir, pointFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	rec := fmt.Appendf(nil, "%-*s\n", width-1, cutTo(c.role+" "+name, width-1))
	if _, err := f.WriteAt(rec, info.Size()); err != nil {
		return 0, err
	}
	return int(info.Size()/width) + 1, nil
}

func cutTo(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func (c *counter) die(n int, name string) {
	f, err := os.OpenFile(filepath.Join(c.dir, diedFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, _ = fmt.Fprintf(f, "%d %s %s\n", n, c.role, name)
		_ = f.Close()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// armed reads the points at which to die.
func armed(dir string) []int {
	b, err := os.ReadFile(filepath.Join(dir, armedFile))
	if err != nil {
		return nil
	}
	var out []int
	for w := range strings.FieldsSeq(string(b)) {
		if n, err := strconv.Atoi(w); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// points lists what was reached so far.
func points(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, pointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for rec := range slices.Chunk(b, width) {
		out = append(out, string(bytes.TrimSpace(rec)))
	}
	return out, nil
}

// replace writes a file whole, so that no reader sees a part of it.
func replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".w-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
