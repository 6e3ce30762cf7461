// Package sqs is the queue port on Amazon SQS.
package sqs

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/queue"
)

// Queue is one queue.
type Queue struct {
	api *sqs.Client
	url string
}

var _ queue.Queue = (*Queue)(nil)

// New returns the queue at url.
func New(api *sqs.Client, url string) *Queue { return &Queue{api: api, url: url} }

// Send sends one message. Bytes that a message cannot carry are replaced, since
// what is put aside is read by people.
func (q *Queue) Send(ctx context.Context, body []byte, attributes map[string]string) error {
	text := string(body)
	if len(text) > queue.MaxMessage {
		return fault.New(fault.Invalid, "a message of %d bytes is longer than the %d that a queue takes", len(text), queue.MaxMessage)
	}
	in := &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: aws.String(clean(text)), MessageAttributes: map[string]types.MessageAttributeValue{}}
	for name, v := range attributes {
		if v = clean(v); v != "" {
			in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &v}
		}
	}
	_, err := q.api.SendMessage(ctx, in)
	return explain(err)
}

// clean replaces what the service refuses: bytes that are no UTF-8, and control
// characters.
func clean(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		ok := r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
		if !ok {
			r = utf8.RuneError
		}
		out = append(out, r)
	}
	return string(out)
}

// explain tells what the same call may overcome later from what it never will.
func explain(err error) error {
	if err == nil {
		return nil
	}
	if e := fault.Deployment(err, "the queue"); e != nil {
		return e
	}
	for _, r := range retry.DefaultRetryables {
		if r.IsErrorRetryable(err) == aws.TrueTernary {
			return fault.Wrap(fault.Unavailable, err, "the queue does not answer at the moment")
		}
	}
	return fmt.Errorf("send a message: %w", err)
}
