package lambdafake

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// separator ends the head of a streamed answer.
var separator = make([]byte, 8)

// Head is the first part of a streamed answer.
type Head struct {
	Status  int                 `json:"statusCode"`
	Headers map[string]string   `json:"headers"`
	Multi   map[string][]string `json:"multiValueHeaders"`
}

// headMost bounds the head of an answer.
const headMost = 1 << 20

// HTTP splits a streamed answer into its head and its body.
func (r *Reply) HTTP() (Head, *bufio.Reader, error) {
	if r.ContentType != "application/vnd.awslambda.http-integration-response" {
		return Head{}, nil, fmt.Errorf("lambdafake: an answer of type %q is no streamed one", r.ContentType)
	}
	in := bufio.NewReader(r.Body)
	var text []byte
	for !bytes.HasSuffix(text, separator) {
		b, err := in.ReadByte()
		if err != nil {
			return Head{}, nil, fmt.Errorf("lambdafake: the answer has no head: %w", err)
		}
		if text = append(text, b); len(text) > headMost {
			return Head{}, nil, errors.New("lambdafake: the head of the answer does not end")
		}
	}
	var h Head
	if err := json.Unmarshal(bytes.TrimSuffix(text, separator), &h); err != nil {
		return Head{}, nil, fmt.Errorf("lambdafake: read the head: %w", err)
	}
	return h, in, nil
}

// Event is the request as a REST API hands it to a function.
func Event(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	head := map[string]string{"Host": r.Host}
	multi := map[string][]string{"Host": {r.Host}}
	for name, values := range r.Header {
		head[name], multi[name] = values[len(values)-1], values
	}
	return json.Marshal(events.APIGatewayProxyRequest{
		Resource: "/{proxy+}", Path: r.URL.Path, HTTPMethod: r.Method, Headers: head, MultiValueHeaders: multi,
		MultiValueQueryStringParameters: r.URL.Query(), Body: base64.StdEncoding.EncodeToString(body), IsBase64Encoded: true,
		RequestContext: events.APIGatewayProxyRequestContext{Identity: events.APIGatewayRequestIdentity{SourceIP: "192.0.2.1"}},
	})
}

// Gateway is the part of a REST API with response streaming that functions see:
// the first element of the path names the function, and what the function writes
// is passed on as it comes.
func Gateway(functions map[string]*Function) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		f, ok := functions[name]
		if !ok {
			http.Error(w, `{"message":"Missing Authentication Token"}`, http.StatusForbidden)
			return
		}
		event, err := Event(r)
		if err != nil {
			http.Error(w, `{"message":"Bad Request"}`, http.StatusBadRequest)
			return
		}
		reply, err := f.Invoke(r.Context(), event)
		if err != nil {
			http.Error(w, `{"message":"Internal server error"}`, http.StatusBadGateway)
			return
		}
		defer func() { _ = reply.Body.Close() }()
		head, body, err := reply.HTTP()
		if err != nil {
			http.Error(w, `{"message":"Internal server error"}`, http.StatusBadGateway)
			return
		}
		for name, value := range head.Headers {
			w.Header().Set(name, value)
		}
		for name, values := range head.Multi {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		w.WriteHeader(head.Status)
		rc := http.NewResponseController(w)
		buf := make([]byte, 32<<10)
		for {
			n, err := body.Read(buf)
			if n > 0 {
				if _, werr := w.Write(buf[:n]); werr != nil {
					return
				}
				_ = rc.Flush()
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				panic(http.ErrAbortHandler) // the answer is not whole, and the client must see that
			}
		}
	})
}
