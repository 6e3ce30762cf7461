package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Storage moves files to and from the blob store by links, without holding one in
// memory.
type Storage struct{ HTTP *http.Client }

// NewStorage returns a Storage. A link is for one place: no redirect is followed.
func NewStorage() Storage {
	return Storage{&http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: 5 * time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ErrStored says that something lies under the link's name already: what was put
// by an earlier try, since a link puts its own bytes or none.
var ErrStored = errors.New("the object is stored already")

// StorageError is an answer of the blob store that another try may better.
type StorageError struct{ Status int }

func (e *StorageError) Error() string { return fmt.Sprintf("storage answers %d", e.Status) }

// Put uploads a file.
func (s Storage) Put(ctx context.Context, l turn.Link, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	res, err := s.do(ctx, l, f, fi.Size())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16))
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusPreconditionFailed:
		return ErrStored
	}
	return &StorageError{res.StatusCode}
}

// Get downloads what a link names into w, at most so many bytes.
func (s Storage) Get(ctx context.Context, l turn.Link, w io.Writer, most int64) error {
	res, err := s.do(ctx, l, nil, 0)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fault.New(fault.NotFound, "the object is not in storage")
	case res.StatusCode >= 300:
		return &StorageError{res.StatusCode}
	}
	n, err := io.Copy(w, io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return fmt.Errorf("download: %w", err)
	case n > most:
		return fault.New(fault.TooLarge, "the object is larger than %d bytes", most)
	case res.ContentLength >= 0 && res.ContentLength != n:
		return fmt.Errorf("download: %w", io.ErrUnexpectedEOF)
	}
	return nil
}

func (s Storage) do(ctx context.Context, l turn.Link, body io.Reader, size int64) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, l.Method, l.URL, body)
	if err != nil {
		return nil, fmt.Errorf("use link: %w", err)
	}
	if body != nil {
		r.ContentLength = size
		r.Body = io.NopCloser(body) // whoever opened it closes it
	}
	for k, v := range l.Header {
		r.Header.Set(k, v)
	}
	return s.HTTP.Do(r)
}
