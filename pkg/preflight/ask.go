package preflight

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// asker asks services by hand: five small reads do not deserve five clients, each
// of which is larger than this program.
type asker struct{ Config }

// refused is an answer of a service that is none.
type refused struct{ service, code, message string }

func (e *refused) Error() string {
	if e.message == "" {
		return e.service + " answers " + e.code
	}
	return e.service + " answers " + e.code + ": " + e.message
}

// address is where a service is asked, and the Region that its requests are signed
// for.
func (a asker) address(service string) (host, region string) {
	suffix := "amazonaws.com"
	if strings.HasPrefix(a.Region, "cn-") {
		suffix += ".cn"
	}
	host, region = "https://"+service+"."+a.Region+"."+suffix, a.Region
	if service == "iam" && !strings.HasPrefix(a.Region, "cn-") {
		host, region = "https://iam."+suffix, "us-east-1"
	}
	if a.Endpoint != "" {
		host = strings.TrimRight(a.Endpoint, "/")
	}
	return host, region
}

// send signs a request and returns the body of the answer.
func (a asker) send(ctx context.Context, service, method, path string, header map[string]string, body []byte) ([]byte, error) {
	host, region := a.address(service)
	req, err := http.NewRequestWithContext(ctx, method, host+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", service, err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	creds, err := a.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("there are no credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, creds, req, hex.EncodeToString(sum[:]), service, region, a.Now()); err != nil {
		return nil, fmt.Errorf("sign for %s: %w", service, err)
	}
	res, err := a.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", service, err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", service, err)
	}
	if res.StatusCode/100 != 2 {
		return nil, refusal(service, res, out)
	}
	return out, nil
}

// refusal reads the two shapes that errors have.
func refusal(service string, res *http.Response, body []byte) error {
	e := &refused{service: service, code: res.Status}
	var x struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	var j struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	switch {
	case xml.Unmarshal(body, &x) == nil && x.Code != "":
		e.code, e.message = x.Code, x.Message
	case json.Unmarshal(body, &j) == nil:
		if h := res.Header.Get("X-Amzn-Errortype"); h != "" {
			j.Type = h
		}
		if j.Type != "" {
			// service#Code, or Code:where
			e.code, _, _ = strings.Cut(j.Type[strings.LastIndexByte(j.Type, '#')+1:], ":")
		}
		e.message = j.Message
	}
	return e
}

func (a asker) query(ctx context.Context, service, version, action string, in url.Values, out any) error {
	form := url.Values{"Action": {action}, "Version": {version}}
	maps.Copy(form, in)
	body, err := a.send(ctx, service, http.MethodPost, "/", map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}, []byte(form.Encode()))
	if err != nil {
		return err
	}
	if err := xml.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return nil
}

func (a asker) json(ctx context.Context, service, target string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("ask %s: %w", service, err)
	}
	body, err := a.send(ctx, service, http.MethodPost, "/", map[string]string{"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target}, raw)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return nil
}

func (a asker) rest(ctx context.Context, service, path string, out any) error {
	body, err := a.send(ctx, service, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", service, err)
	}
	return nil
}
