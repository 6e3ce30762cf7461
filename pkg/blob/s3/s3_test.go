package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/blob/blobtest"
	"github.com/lazyplane/lazyplane/pkg/blob/s3"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func client(endpoint string) *awss3.Client {
	return awss3.NewFromConfig(moto.Config(endpoint), func(o *awss3.Options) {
		o.UsePathStyle = true
		o.Retryer = aws.NopRetryer{}
	})
}

// bucket makes an empty bucket.
func bucket(t *testing.T, endpoint, name string) *awss3.Client {
	t.Helper()
	c := client(endpoint)
	if _, err := c.CreateBucket(t.Context(), &awss3.CreateBucketInput{
		Bucket: &name, CreateBucketConfiguration: &types.CreateBucketConfiguration{LocationConstraint: moto.Region},
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestABucketKeepsTheContract(t *testing.T) {
	endpoint := moto.Start(t)
	var n atomic.Int64
	blobtest.Run(t, func(t *testing.T) blobtest.Store {
		name := fmt.Sprintf("blobs-%d", n.Add(1))
		return s3.New(bucket(t, endpoint, name), name, time.Now)
	})
}

// judge stands before the emulator and does what S3 does and moto does not: it
// checks the signature of a link, over the headers as they came, and that the
// bytes are those whose length and SHA-256 were signed.
func judge(t *testing.T, endpoint string) string {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.URL.Query().Has("X-Amz-Signature") {
			if err := verify(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			sum := sha256.Sum256(body)
			if want := r.Header.Get("X-Amz-Checksum-Sha256"); want != "" && want != base64.StdEncoding.EncodeToString(sum[:]) {
				http.Error(w, "<Error><Code>BadDigest</Code></Error>", http.StatusBadRequest)
				return
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Host = to.Host
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// verify signs the request again with the headers that it really has.
func verify(r *http.Request) error {
	q := r.URL.Query()
	got := q.Get("X-Amz-Signature")
	signed := strings.Split(q.Get("X-Amz-SignedHeaders"), ";")
	at, err := time.Parse("20060102T150405Z", q.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	for _, p := range []string{"X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date", "X-Amz-Algorithm", "X-Amz-Credential"} {
		q.Del(p)
	}
	u := *r.URL
	u.Scheme, u.Host, u.RawQuery = "http", r.Host, q.Encode()
	again, err := http.NewRequest(r.Method, u.String(), nil)
	if err != nil {
		return err
	}
	for _, h := range signed {
		switch h {
		case "host":
		case "content-length":
			again.ContentLength = r.ContentLength
		default:
			again.Header[http.CanonicalHeaderKey(h)] = r.Header.Values(h)
		}
	}
	creds := aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}
	want, _, err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableHeaderHoisting, o.DisableURIPathEscaping = true, true }).
		PresignHTTP(context.Background(), creds, again, "UNSIGNED-PAYLOAD", "s3", moto.Region, at)
	if err != nil {
		return err
	}
	w, err := url.Parse(want)
	if err != nil {
		return err
	}
	if w.Query().Get("X-Amz-Signature") != got {
		return errors.New("SignatureDoesNotMatch")
	}
	return nil
}

// send does what a link allows, with changes.
func send(t *testing.T, l blob.Link, body []byte, change func(*http.Request)) (int, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), l.Method, l.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range l.Header {
		r.Header.Set(k, v)
	}
	if change != nil {
		change(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b
}

func TestALinkPutsExactlyTheBytesItWasMadeForOnce(t *testing.T) {
	req.Covers(t, "UW-011", "RP-022")
	endpoint := judge(t, moto.Start(t))
	s := s3.New(bucket(t, endpoint, "blobs"), "blobs", time.Now)
	data := []byte("a checkpoint")
	key := "acme/tasks/t/00000001/00000001/pack-0"
	l, err := s.Upload(t.Context(), key, int64(len(data)), sha256.Sum256(data))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		body   []byte
		change func(*http.Request)
	}{
		"other bytes of the same length": {[]byte("A checkpoint"), nil},
		"more bytes":                     {append(bytes.Clone(data), '!'), nil},
		"fewer bytes":                    {data[:5], nil},
		"another checksum": {[]byte("A checkpoint"), func(r *http.Request) {
			sum := sha256.Sum256([]byte("A checkpoint"))
			r.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
		}},
		"no checksum":    {data, func(r *http.Request) { r.Header.Del("X-Amz-Checksum-Sha256") }},
		"no condition":   {data, func(r *http.Request) { r.Header.Del("If-None-Match") }},
		"another key":    {data, func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "pack-0", "pack-1", 1) }},
		"another tenant": {data, func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "acme", "emca", 1) }},
		"another verb":   {nil, func(r *http.Request) { r.Method = http.MethodDelete }},
		"a longer life": {data, func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "Expires=600", "Expires=900", 1)
		}},
		"no signature at all": {data, func(r *http.Request) {
			r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "X-Amz-Signature=", "X-Amz-Signature=0", 1)
		}},
	} {
		if code, _ := send(t, l, c.body, c.change); code < 400 {
			t.Errorf("%s: %d", what, code)
		}
	}
	if _, err := s.Get(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
		t.Fatalf("a refused upload left something: %v", err)
	}
	if code, b := send(t, l, data, nil); code != http.StatusOK {
		t.Fatalf("the upload it was made for: %d %s", code, b)
	}
	if code, _ := send(t, l, data, nil); code != http.StatusPreconditionFailed {
		t.Errorf("the same upload again: %d, want %d", code, http.StatusPreconditionFailed)
	}
	d, err := s.Download(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if code, b := send(t, d, nil, nil); code != http.StatusOK || !bytes.Equal(b, data) {
		t.Errorf("the download: %d %q", code, b)
	}
	if code, _ := send(t, d, nil, func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "pack-0", "pack-1", 1) }); code != http.StatusForbidden {
		t.Errorf("a download of another key: %d", code)
	}
	if _, err := s.Upload(t.Context(), key, 0, sha256.Sum256(nil)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("an upload of nothing: %v", err)
	}
}

// faulty is an S3 that answers what it is told to. It stands for what moto never
// does: errors of the server, answers that stop, connections that are cut.
func faulty(t *testing.T, answer http.HandlerFunc) *s3.Store {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	return s3.New(client(srv.URL), "blobs", time.Now)
}

func TestErrorsOfStorageSayWhatACallerMayDo(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want fault.Kind
	}{
		"an internal error":     {500, "InternalError", fault.Unavailable},
		"an error of a proxy":   {502, "", fault.Unavailable},
		"too many requests":     {503, "SlowDown", fault.Unavailable},
		"bytes arrived changed": {400, "BadDigest", fault.Unavailable},
		"no right":              {403, "AccessDenied", fault.Unavailable},
		"an expired credential": {403, "ExpiredToken", fault.Unavailable},
		"a disabled key":        {400, "KMS.DisabledException", fault.Unavailable},
		"no bucket":             {404, "NoSuchBucket", fault.Unavailable},
		"a refusal without why": {403, "", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := faulty(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(c.code)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>secret-detail</Message></Error>", c.body)
			})
			_, getErr := s.Get(t.Context(), "acme/a")
			for verb, err := range map[string]error{
				"put": s.Put(t.Context(), "acme/a", []byte("x")), "get": getErr,
				"delete": s.Delete(t.Context(), "acme/a"), "purge": s.Purge(t.Context(), "acme/a"),
			} {
				if fault.KindOf(err) != c.want || errors.Is(err, blob.ErrNotFound) {
					t.Errorf("%s: %v, want a fault of kind %s", verb, err, c.want)
				}
				if strings.Contains(fault.Of(err).Public, "secret-detail") {
					t.Errorf("%s tells people %q", verb, fault.Of(err).Public)
				}
			}
		})
	}
}

func TestAnUploadThatIsCutIsNoSuccess(t *testing.T) {
	s := faulty(t, func(w http.ResponseWriter, r *http.Request) {
		io.CopyN(io.Discard, r.Body, 1000)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	err := s.Put(t.Context(), "acme/a", make([]byte, 10<<20))
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v, want that storage does not answer", err)
	}
}

func TestADownloadThatIsCutIsReadAgainAndNeverTakenForWhole(t *testing.T) {
	for name, whole := range map[string]int32{"once": 2, "always": 99} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			s := faulty(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "10")
				w.WriteHeader(http.StatusOK)
				if asked.Add(1) >= whole {
					io.WriteString(w, "0123456789")
				} else {
					io.WriteString(w, "01234")
				}
			})
			b, err := s.Get(t.Context(), "acme/a")
			if whole == 2 && (err != nil || string(b) != "0123456789") {
				t.Errorf("got %q, %v", b, err)
			}
			if whole == 99 && (fault.KindOf(err) != fault.Unavailable || b != nil) {
				t.Errorf("got %q, %v, want that it was not handed over whole", b, err)
			}
		})
	}
}

func TestAnObjectThatChangedInStorageIsNotHandedOut(t *testing.T) {
	s := faulty(t, func(w http.ResponseWriter, _ *http.Request) {
		sum := sha256.Sum256([]byte("what was put"))
		w.Header().Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
		io.WriteString(w, "what is there")
	})
	if b, err := s.Get(t.Context(), "acme/a"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %q, %v", b, err)
	}
}

func TestAPurgeThatLeavesSomethingSaysSo(t *testing.T) {
	s := faulty(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			io.WriteString(w, `<ListBucketResult><Contents><Key>acme/t/1</Key></Contents></ListBucketResult>`)
			return
		}
		io.WriteString(w, `<DeleteResult><Error><Key>acme/t/1</Key><Code>InternalError</Code></Error></DeleteResult>`)
	})
	if err := s.Purge(t.Context(), "acme/t"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v, want that an object was kept", err)
	}
}

func TestAPutWhoseAnswerWasLostSucceedsWhenItIsRepeated(t *testing.T) {
	endpoint := moto.Start(t)
	bucket(t, endpoint, "blobs")
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var puts atomic.Int32
	pass := httputil.NewSingleHostReverseProxy(to)
	s := faulty(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && puts.Add(1) == 1 {
			pass.ServeHTTP(httptest.NewRecorder(), r)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return
		}
		pass.ServeHTTP(w, r)
	})
	if err := s.Put(t.Context(), "acme/a", []byte("x")); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("the first put: %v", err)
	}
	if err := s.Put(t.Context(), "acme/a", []byte("x")); err != nil {
		t.Errorf("the same put again: %v", err)
	}
	if err := s.Put(t.Context(), "acme/a", []byte("y")); !errors.Is(err, blob.ErrExists) {
		t.Errorf("another put: %v", err)
	}
}
