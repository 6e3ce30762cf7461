package spool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// socketPath is what the address of a unix socket holds everywhere.
const socketPath = 100

// Dial connects to a unix socket however long its path is.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	at, done, err := Short(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", at)
}

// Listen replaces a unix socket and listens on it, however long its path is.
func Listen(ctx context.Context, path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace socket: %w", err)
	}
	at, done, err := Short(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", at)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false)
	return u, nil
}

// Short returns a path of a socket that fits its address, through a link in a
// directory nobody else can guess or enter, until done is called.
func Short(path string) (at string, done func(), err error) {
	if len(path) <= socketPath {
		return path, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "lazy-")
	if err != nil {
		return "", nil, fmt.Errorf("shorten socket path: %w", err)
	}
	link := filepath.Join(dir, "d")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		return "", nil, errors.Join(fmt.Errorf("shorten socket path: %w", err), os.RemoveAll(dir))
	}
	return filepath.Join(link, filepath.Base(path)), func() { _ = os.RemoveAll(dir) }, nil
}
