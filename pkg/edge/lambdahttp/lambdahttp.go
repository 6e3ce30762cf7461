// Package lambdahttp serves an http.Handler as a Lambda function behind a REST
// API with response streaming. What the handler writes leaves at once, and a
// handler that outlasts the function is answered for before it is cut off.
package lambdahttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// The time before the end of the function at which the handler's context ends,
// and at which the answer is given or ended for a handler that goes on all the
// same.
const (
	Margin = 1500 * time.Millisecond
	Last   = 500 * time.Millisecond
)

// late is the answer of a handler that had not begun one when its time was over.
const late = `{"error":{"code":"unavailable","message":"This request was cut off before its outcome was known; what it began may go on.","next":[],"details":{}}}` + "\n"

// Function is what lambda.Start takes.
type Function func(context.Context, events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error)

// Handler returns the function that h is served by.
func Handler(h http.Handler) Function {
	return func(ctx context.Context, e events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
		r, err := request(ctx, e)
		if err != nil {
			return nil, err
		}
		var over <-chan struct{} // without a deadline nothing is cut off
		cancel := func() {}
		if end, ok := ctx.Deadline(); ok {
			last, free := context.WithDeadline(context.WithoutCancel(ctx), end.Add(-Last))
			work, stop := context.WithDeadline(ctx, end.Add(-Margin))
			ctx, over, cancel = work, last.Done(), func() { stop(); free() }
		}
		body, pipe := io.Pipe()
		w := &writer{header: http.Header{}, pipe: pipe, begun: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer cancel()
			defer close(ended)
			w.end(run(h, w, r.WithContext(ctx)))
		}()
		select {
		case <-w.begun:
		case <-over:
			if w.begin(http.StatusServiceUnavailable, http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}) {
				_ = body.CloseWithError(http.ErrHandlerTimeout)
				return response(w, io.NopCloser(bytes.NewReader([]byte(late)))), nil
			}
		}
		go func() {
			select {
			case <-ended:
			case <-over:
				_ = pipe.CloseWithError(errOutlasted)
			}
		}()
		return response(w, body), nil
	}
}

var errOutlasted = errors.New("lambdahttp: the handler outlasted its function")

func response(w *writer, body io.Reader) *events.APIGatewayProxyStreamingResponse {
	return &events.APIGatewayProxyStreamingResponse{StatusCode: w.status, MultiValueHeaders: w.sent, Body: body}
}

// run ends a handler that panics as net/http does: what it had written stays.
func run(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("lambdahttp: the handler panicked: %v", v)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

func request(ctx context.Context, e events.APIGatewayProxyRequest) (*http.Request, error) {
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, fmt.Errorf("read the event's body: %w", err)
		}
	}
	query := url.Values(e.MultiValueQueryStringParameters)
	u := url.URL{Path: e.Path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, e.HTTPMethod, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	for name, value := range e.Headers {
		r.Header.Set(name, value)
	}
	for name, values := range e.MultiValueHeaders {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Host = r.Header.Get("Host")
	r.RemoteAddr = e.RequestContext.Identity.SourceIP
	r.RequestURI = u.RequestURI()
	return r, nil
}
