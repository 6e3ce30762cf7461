package sqs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/queue"
	"github.com/lazyplane/lazyplane/pkg/queue/sqs"
)

func TestWhatIsSentIsDeliveredAsItWas(t *testing.T) {
	api := awssqs.NewFromConfig(moto.Config(moto.Start(t)))
	made, err := api.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String("q")})
	if err != nil {
		t.Fatal(err)
	}
	q := sqs.New(api, *made.QueueUrl)
	for sent, want := range map[string]string{
		"{\"x\":\n\t😀": "{\"x\":\n\t😀",
		"a\x00b\xffc":  "a\ufffdb\ufffdc", // what no message can carry is still told of
	} {
		if err := q.Send(t.Context(), []byte(sent), map[string]string{"why": "it is\x01 broken", "empty": ""}); err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		got, err := api.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, MessageAttributeNames: []string{"All"}})
		if err != nil || len(got.Messages) != 1 {
			t.Fatalf("%q: %v, %v", sent, got, err)
		}
		m := got.Messages[0]
		if *m.Body != want || *m.MessageAttributes["why"].StringValue != "it is\ufffd broken" || len(m.MessageAttributes) != 1 {
			t.Errorf("%q came as %q with %v", sent, *m.Body, m.MessageAttributes)
		}
		if _, err := api.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: made.QueueUrl, ReceiptHandle: m.ReceiptHandle}); err != nil {
			t.Fatal(err)
		}
	}
	gone := sqs.New(api, *made.QueueUrl+"-gone")
	if err := gone.Send(t.Context(), []byte("x"), nil); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Of(err).Public, "the queue") {
		t.Errorf("a queue that is not there: %v", err)
	}
	if err := q.Send(t.Context(), []byte(strings.Repeat("x", queue.MaxMessage+1)), nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a message that is too long: %v", err)
	}
}

func TestWhatMayPassIsTypedSo(t *testing.T) {
	for code, want := range map[string]fault.Kind{"ThrottlingException": fault.Unavailable, "AccessDeniedException": fault.Unavailable, "ExpiredTokenException": fault.Unavailable, "KmsDisabled": fault.Unavailable, "InvalidMessageContents": fault.Internal} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"m"}`, code)
		}))
		api := awssqs.NewFromConfig(moto.Config(srv.URL), func(o *awssqs.Options) { o.Retryer = aws.NopRetryer{} })
		if err := sqs.New(api, srv.URL+"/q").Send(t.Context(), []byte("x"), nil); fault.KindOf(err) != want {
			t.Errorf("%s: %q of %v, want %q", code, fault.KindOf(err), err, want)
		}
		srv.Close()
	}
}
