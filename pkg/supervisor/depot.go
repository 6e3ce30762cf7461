package supervisor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// depot is the task's vault as a run reaches it: the control plane gives a link
// for each object, and the bytes go to storage without passing through it.
type depot struct {
	link  *link
	http  *http.Client
	store client.Storage // moves files
}

func newDepot(l *link) *depot {
	return &depot{link: l, store: client.NewStorage(), http: &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: time.Minute},
		// A link is for one place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// parcelTries is how often an object is sent or fetched, each time by a new link.
const parcelTries = 3

// errStorage is an answer of storage that another try may better.
type errStorage struct{ status int }

func (e *errStorage) Error() string { return fmt.Sprintf("storage answers %d", e.status) }

// again repeats what storage or the way to it failed at.
func (d *depot) again(ctx context.Context, once func(try int) error) error {
	for try := 0; ; try++ {
		err := once(try)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if f, ok := errors.AsType[*fault.Error](err); ok && !fault.Retryable(f) || try == parcelTries-1 {
			return err
		}
		t := time.NewTimer(names.ReconnectFirst << try)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// Put stores an object under a name that nothing was stored under before.
func (d *depot) Put(ctx context.Context, name string, data []byte) error {
	sum := sha256.Sum256(data)
	return d.again(ctx, func(try int) error {
		out, err := d.link.upload(ctx, turn.UploadIn{Put: []turn.Parcel{{Name: name, Size: int64(len(data)), SHA256: sum[:]}}})
		if err != nil {
			return err
		}
		if len(out.Put) != 1 {
			return fault.New(fault.Internal, "the control plane gives no link")
		}
		res, err := d.send(ctx, out.Put[0], data)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
		switch {
		case res.StatusCode < 300:
			return nil
		case res.StatusCode == http.StatusPreconditionFailed && try > 0:
			return nil // an earlier try arrived: a link puts these bytes or none
		case res.StatusCode == http.StatusPreconditionFailed:
			return fault.New(fault.Conflict, "%s is stored already", name)
		}
		return &errStorage{res.StatusCode}
	})
}

// Get fetches an object.
func (d *depot) Get(ctx context.Context, name string) (b []byte, err error) {
	err = d.again(ctx, func(int) error {
		out, err := d.link.upload(ctx, turn.UploadIn{Get: []string{name}})
		if err != nil {
			return err
		}
		if len(out.Get) != 1 {
			return fault.New(fault.Internal, "the control plane gives no link")
		}
		res, err := d.send(ctx, out.Get[0], nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		switch {
		case res.StatusCode == http.StatusNotFound:
			return fault.New(fault.NotFound, "%s is not in storage", name)
		case res.StatusCode >= 300:
			return &errStorage{res.StatusCode}
		}
		b, err = io.ReadAll(io.LimitReader(res.Body, turn.BundleMost+1))
		if err == nil && res.ContentLength >= 0 && res.ContentLength != int64(len(b)) {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return b, err
}

// Point moves the checkpoint pointer.
func (d *depot) Point(ctx context.Context, p turn.Checkpoint) error {
	_, err := d.link.upload(ctx, turn.UploadIn{Point: &p})
	return err
}

func (d *depot) send(ctx context.Context, l turn.Link, data []byte) (*http.Response, error) {
	var body io.Reader
	if data != nil {
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, l.Method, l.URL, body)
	if err != nil {
		return nil, fmt.Errorf("use link: %w", err)
	}
	for k, v := range l.Header {
		r.Header.Set(k, v)
	}
	return d.http.Do(r)
}
