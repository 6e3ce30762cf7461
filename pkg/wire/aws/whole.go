package aws

import (
	"bytes"
	"io"
	"net/http"
)

// whole sends each request with a body of its own. The SDK closes a request's body
// as soon as it has the head of the answer; from a server nearby that can be while
// net/http still reads the body's end, which then fails the request.
type whole struct{ next http.RoundTripper }

func (o whole) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		b, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(b))
	}
	return o.next.RoundTrip(req)
}
