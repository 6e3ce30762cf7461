package depot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// storageTries is how often an object is moved, each time by a new link.
const storageTries = 3

// again repeats what storage or the way to it failed at.
func again(ctx context.Context, once func() error) error {
	for try := 0; ; try++ {
		err := once()
		_, typed := errors.AsType[*fault.Error](err)
		if err == nil || typed || ctx.Err() != nil || try == storageTries-1 {
			if err != nil && !typed && ctx.Err() == nil {
				err = fault.Wrap(fault.Unavailable, err, "storage does not answer")
			}
			return err
		}
		t := time.NewTimer(200 * time.Millisecond << try)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// fetch downloads an object into a file.
func (d *Depot) fetch(ctx context.Context, key, to string, most int64) error {
	return again(ctx, func() error {
		l, err := d.signer.Download(ctx, key)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(d.storage.Get(ctx, turn.Link(l), f, most), f.Close())
	})
}

// send uploads a file under a key of its own. What lies there already was put by an
// earlier try: a key names what is under it.
func (d *Depot) send(ctx context.Context, key, from string) (size int64, err error) {
	size, sum, err := measure(from)
	if err != nil {
		return 0, err
	}
	return size, again(ctx, func() error {
		l, err := d.signer.Upload(ctx, key, size, sum)
		if err != nil {
			return err
		}
		err = d.storage.Put(ctx, turn.Link(l), from)
		if errors.Is(err, client.ErrStored) {
			return nil
		}
		return err
	})
}

func measure(file string) (size int64, sum [32]byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, sum, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return 0, sum, fmt.Errorf("read bundle: %w", err)
	}
	return size, [32]byte(h.Sum(nil)), nil
}
