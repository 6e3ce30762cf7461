package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// depot keeps objects in memory under the rules of the real one: written once,
// and a pointer that only the newest may move.
type depot struct {
	mu      sync.Mutex
	objects map[string][]byte
	epoch   int64 // of the task
	at      checkpoint.Pointer
	fail    error // of the next Put
	gets    int
}

func newDepot() *depot { return &depot{objects: map[string][]byte{}, epoch: 1} }

func (d *depot) Put(_ context.Context, name string, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fail; err != nil {
		d.fail = nil
		return err
	}
	if _, err := checkName(name); err != nil {
		return err
	}
	if old, ok := d.objects[name]; ok && !bytes.Equal(old, data) {
		return fmt.Errorf("%s is written already", name)
	}
	d.objects[name] = bytes.Clone(data)
	return nil
}

func checkName(name string) (int64, error) {
	_, seq, _, err := turn.ParseObject(name)
	return seq, err
}

func (d *depot) Get(_ context.Context, name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gets++
	b, ok := d.objects[name]
	if !ok {
		return nil, errors.New("no such object")
	}
	return b, nil
}

func (d *depot) Point(_ context.Context, p checkpoint.Pointer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Epoch != d.epoch || !p.Newer(d.at) {
		return fault.New(fault.Conflict, "superseded")
	}
	d.at = p
	return nil
}

func key(t testing.TB) checkpoint.Cipher {
	t.Helper()
	c, err := checkpoint.NewCipher(bytes.Repeat([]byte{7}, checkpoint.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// list describes everything below dir, content included.
func list(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		line := fmt.Sprintf("%q %v", rel, fi.Mode())
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			at, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" -> %q", at)
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(b), sha1.Sum(b))
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// base describes a directory as a commit would have it, and keeps its content.
func base(t testing.TB, dir string) (map[string]checkpoint.Blob, func(context.Context, string, io.Writer) error) {
	t.Helper()
	blobs, content := map[string]checkpoint.Blob{}, map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		fi, err := e.Info()
		if err != nil {
			return err
		}
		var b []byte
		link := fi.Mode()&fs.ModeSymlink != 0
		if link {
			at, _ := os.Readlink(p)
			b = []byte(at)
		} else if b, err = os.ReadFile(p); err != nil {
			return err
		}
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00%s", len(b), b)
		id := hex.EncodeToString(h.Sum(nil))
		content[id] = b
		blobs[rel] = checkpoint.Blob{ID: id, Link: link, Exec: fi.Mode()&0o100 != 0}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blobs, func(_ context.Context, id string, w io.Writer) error {
		b, ok := content[id]
		if !ok {
			return errors.New("no such blob")
		}
		_, err := w.Write(b)
		return err
	}
}

func draw(rt *rapid.T, dir string, steps int) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		rt.Fatal(err)
	}
	defer root.Close()
	name := rapid.SampledFrom([]string{"a", "b", "c", "dir", "ünï", "x y", "nl\n", "bad\xff\xfe", "-v", ":(top)", "z.crlf"})
	for range steps {
		p := name.Draw(rt, "name")
		for rapid.Bool().Draw(rt, "deeper") && strings.Count(p, "/") < 3 {
			p += "/" + name.Draw(rt, "name")
		}
		up := filepath.Dir(p)
		clear := func() { // whatever stands where p or a directory above it goes
			for d := p; d != "."; d = filepath.Dir(d) {
				if fi, err := root.Lstat(d); err == nil && (d == p || !fi.IsDir()) {
					root.RemoveAll(d)
				}
			}
			if err := root.MkdirAll(up, 0o755); err != nil {
				rt.Fatal(err)
			}
		}
		switch rapid.IntRange(0, 6).Draw(rt, "what") {
		case 0, 1, 2:
			clear()
			content := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "bytes")
			if rapid.IntRange(0, 9).Draw(rt, "big") == 0 {
				content = bytes.Repeat(append(content, "\r\n"...), 100_000)
			}
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o755, 0o600, 0o444, 0o640}).Draw(rt, "mode")
			if err := root.WriteFile(p, content, 0o644); err != nil {
				rt.Fatal(err)
			}
			if err := root.Chmod(p, mode); err != nil {
				rt.Fatal(err)
			}
		case 3:
			clear()
			if err := root.Symlink(rapid.SampledFrom([]string{"a", "../..", "/etc/passwd", "nowhere\xff"}).Draw(rt, "to"), p); err != nil {
				rt.Fatal(err)
			}
		case 4:
			clear()
			if err := root.Mkdir(p, 0o755); err != nil {
				rt.Fatal(err)
			}
			if err := root.Chmod(p, rapid.SampledFrom([]fs.FileMode{0o755, 0o700, 0o775}).Draw(rt, "mode")); err != nil {
				rt.Fatal(err)
			}
		case 5:
			root.RemoveAll(p)
		case 6:
			if fi, err := root.Lstat(p); err == nil && fi.Mode().IsRegular() {
				if err := root.Chmod(p, 0o755); err != nil {
					rt.Fatal(err)
				}
			}
		}
	}
}

// usual gives the base what a checkout gives: the two modes git knows, no empty
// directories.
func usual(t testing.TB, dir string) {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if e.IsDir() || fi.Mode()&0o100 != 0 {
			mode = 0o755
		}
		if e.IsDir() {
			dirs = append(dirs, p)
		}
		return os.Chmod(p, mode)
	})
	for _, d := range slices.Backward(dirs) {
		os.Remove(d)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// clone copies a tree with its modes and links.
func clone(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, p)
		at := filepath.Join(to, rel)
		fi, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			return os.Chmod(at, fi.Mode().Perm())
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, b, fi.Mode().Perm()); err != nil {
			return err
		}
		return os.Chmod(at, fi.Mode().Perm())
	})
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
