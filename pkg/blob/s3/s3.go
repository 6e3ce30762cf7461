// Package s3 keeps blobs in an S3 bucket: each put on condition that the key is
// free, and checked by a SHA-256 at both ends. The bucket encrypts; what must not
// be readable to those who read the bucket is sealed before it comes here.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Life is how long a link works: longer than an upload takes, shorter than
// anybody has use for it.
const Life = 10 * time.Minute

// Store is a bucket. It is safe for concurrent use.
type Store struct {
	api    *s3.Client
	sign   *s3.PresignClient
	bucket string
	now    func() time.Time
}

var (
	_ blob.Store  = (*Store)(nil)
	_ blob.Purger = (*Store)(nil)
	_ blob.Signer = (*Store)(nil)
)

// New returns the store in an existing bucket.
func New(api *s3.Client, bucket string, now func() time.Time) *Store {
	return &Store{
		api: api, bucket: bucket, now: now,
		// What a link binds is sent as headers: S3 does not hold an upload to a
		// checksum that stands in the query.
		sign: s3.NewPresignClient(api, s3.WithPresignExpires(Life), func(o *s3.PresignOptions) {
			o.Presigner = v4.NewSigner(func(o *v4.SignerOptions) {
				o.DisableHeaderHoisting, o.DisableURIPathEscaping = true, true
			})
		}),
	}
}

func encode(sum [sha256.Size]byte) *string {
	return aws.String(base64.StdEncoding.EncodeToString(sum[:]))
}

// Put stores data under key, if it is free or holds the same bytes.
func (s *Store) Put(ctx context.Context, key string, data []byte) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	_, err := s.api.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		IfNoneMatch: aws.String("*"), ChecksumSHA256: encode(sha256.Sum256(data)),
	})
	if taken(err) { // by an attempt of this put whose answer was lost, or by another
		have, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, blob.ErrNotFound):
			return fault.New(fault.Unavailable, "storage is busy with this object")
		case err != nil:
			return err
		case !bytes.Equal(have, data):
			return fmt.Errorf("%w: %s", blob.ErrExists, key)
		}
		return nil
	}
	return typed(ctx, "put", err)
}

// Get reads what was put under key, and checks that it is that.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	// The SDK retries a request, not the reading of its answer.
	for try := 0; ; try++ {
		b, err := s.get(ctx, key)
		if err == nil || errors.Is(err, blob.ErrNotFound) || fault.KindOf(err) != fault.Unavailable || try == 2 || ctx.Err() != nil {
			return b, err
		}
	}
}

func (s *Store) get(ctx context.Context, key string) ([]byte, error) {
	out, err := s.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
	if _, ok := errors.AsType[*types.NoSuchKey](err); ok {
		return nil, blob.ErrNotFound
	}
	if err != nil {
		return nil, typed(ctx, "get", err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err == nil && out.ContentLength != nil && *out.ContentLength != int64(len(b)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.Wrap(fault.Unavailable, err, "storage did not hand over an object whole")
	}
	return b, nil
}

// Delete removes a blob; an absent one is a success.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return typed(ctx, "delete", err)
}

// Purge removes every blob below prefix.
func (s *Store) Purge(ctx context.Context, prefix string) error {
	if err := blob.CheckKey(prefix); err != nil {
		return err
	}
	// Always the first page: what was on it is gone when it is asked for again.
	for {
		page, err := s.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(prefix + "/")})
		if err != nil {
			return typed(ctx, "list", err)
		}
		if len(page.Contents) == 0 {
			return nil
		}
		del := &types.Delete{Quiet: aws.Bool(true)}
		for _, o := range page.Contents {
			del.Objects = append(del.Objects, types.ObjectIdentifier{Key: o.Key})
		}
		out, err := s.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &s.bucket, Delete: del})
		if err != nil {
			return typed(ctx, "purge", err)
		}
		if len(out.Errors) > 0 { // in a 200 answer
			e := out.Errors[0]
			return fault.New(fault.Unavailable, "storage kept %d of %d objects: %s", len(out.Errors), len(del.Objects), aws.ToString(e.Code))
		}
	}
}

// Upload gives a link that puts exactly these bytes under a free key.
func (s *Store) Upload(ctx context.Context, key string, size int64, sum [sha256.Size]byte) (blob.Link, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Link{}, err
	}
	if size <= 0 {
		return blob.Link{}, fault.New(fault.Invalid, "an upload of %d bytes binds nothing", size)
	}
	until := s.now().Add(Life)
	req, err := s.sign.PresignPutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, ContentLength: &size, IfNoneMatch: aws.String("*"), ChecksumSHA256: encode(sum),
	})
	if err != nil {
		return blob.Link{}, typed(ctx, "sign", err)
	}
	return link(req, until), nil
}

// Download gives a link that reads a key.
func (s *Store) Download(ctx context.Context, key string) (blob.Link, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Link{}, err
	}
	until := s.now().Add(Life)
	req, err := s.sign.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return blob.Link{}, typed(ctx, "sign", err)
	}
	return link(req, until), nil
}

func link(req *v4.PresignedHTTPRequest, until time.Time) blob.Link {
	l := blob.Link{Method: req.Method, URL: req.URL, Header: map[string]string{}, Until: until}
	for name := range req.SignedHeader {
		if name != "Host" {
			l.Header[name] = req.SignedHeader.Get(name)
		}
	}
	return l
}

// taken reports whether a conditional put was refused: 412 when the key holds
// something, 409 when another put of it is under way.
func taken(err error) bool {
	code := status(err)
	return code == http.StatusPreconditionFailed || code == http.StatusConflict
}

func status(err error) int {
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return e.HTTPStatusCode()
	}
	return 0
}

// typed says what a caller may do about an error of S3. A refusal of our own
// rights is for whoever deployed us, and passes when that is mended.
func typed(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := status(err)
	name := ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		name = api.ErrorCode()
	}
	if e := fault.Deployment(err, "the bucket"); e != nil {
		return e
	}
	switch {
	case code == http.StatusForbidden: // without a name, as in the answer to a HEAD
		return fault.Wrap(fault.Unavailable, err, "storage refuses the control plane").
			WithNext("Check the bucket and the rights of the control plane's role.")
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && name != "BadDigest":
		return fmt.Errorf("%s blob: %w", verb, err)
	}
	// 5xx, SlowDown, a cut connection, or bytes that arrived other than they left.
	return fault.Wrap(fault.Unavailable, err, "storage does not answer")
}
