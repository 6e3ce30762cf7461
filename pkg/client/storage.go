package client

import (
	"context"
	"net/http"
)

// StorageClient calls /builder/storage for one builder session.
type StorageClient struct {
	Base  string
	Token string // the session's token
	HTTP  *http.Client
	Wait  Wait
}

// Call runs one of the surface's methods and decodes its answer into out, which
// may be nil. All of them may be sent again (CV-008).
func (c *StorageClient) Call(ctx context.Context, method string, params, out any) error {
	body, err := encode(map[string]any{"method": method, "params": params})
	if err != nil {
		return err
	}
	q := request{http: c.HTTP, base: c.Base, path: "/builder/storage", token: c.Token, body: body}
	return c.Wait.do(ctx, func() error {
		r, err := q.send(ctx)
		if err != nil {
			return err
		}
		return r.answer(out)
	})
}
