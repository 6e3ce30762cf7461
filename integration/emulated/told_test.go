package emulated_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/bus/bustest"
	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
)

// listen brings the event bus, which was missing until then, with a rule and a
// queue as somebody who wants to be told makes them. What it returns waits until
// every change of the tasks has been told, and compares that with their history:
// those before the bus was there as well, since the work went on without it and
// the stream keeps what could not be told.
func listen(t *testing.T, s *emulated.Stack) func(*dynamo.Store, []id.Task) {
	t.Helper()
	req.Covers(t, "B08")
	q, err := s.Queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("listener")})
	if err != nil {
		t.Fatal(err)
	}
	name, on := aws.String("everything"), aws.String(emulated.Bus)
	err = s.MakeBus(t.Context(), func() error {
		_, err := s.Rules.PutRule(t.Context(), &eventbridge.PutRuleInput{
			Name: name, EventBusName: on, EventPattern: aws.String(`{"source":["` + event.Source + `"],"detail-type":["` + event.TypeTaskMoved + `"]}`),
		})
		if err != nil {
			return err
		}
		_, err = s.Rules.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: name, EventBusName: on, Targets: []types.Target{{
			Id: aws.String("queue"), Arn: aws.String("arn:aws:sqs:" + moto.Region + ":123456789012:listener"),
		}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(db *dynamo.Store, tasks []id.Task) { compare(t, s, *q.QueueUrl, db, tasks) }
}

func compare(t *testing.T, s *emulated.Stack, queue string, db *dynamo.Store, tasks []id.Task) {
	t.Helper()
	want := map[event.TaskMoved]bool{}
	for _, tid := range tasks {
		err := store.All(t.Context(), db, store.Query{PK: store.For(tenant).Task(tid).PK, Prefix: "HIS#"}, func(it store.Item) bool {
			m, ok, err := app.MovedOf(it)
			if err != nil || !ok || m.Project != project {
				t.Errorf("%s: %+v, %t, %v", it.Key, m, ok, err)
			}
			want[m] = true
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	type key struct {
		task    id.Task
		version int64
		place   int
	}
	valid, seen, told := bustest.Shape(t), map[key]event.TaskMoved{}, 0
	for len(seen) < len(want) {
		out, err := s.Queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range out.Messages {
			told++
			var e struct {
				Type   string          `json:"detail-type"`
				Detail json.RawMessage `json:"detail"`
			}
			var m event.TaskMoved
			if err := json.Unmarshal([]byte(*msg.Body), &e); err != nil {
				t.Fatal(err)
			}
			if err := valid(e.Type, e.Detail); err != nil {
				t.Errorf("%s: %v", e.Detail, err)
			}
			if err := json.Unmarshal(e.Detail, &m); err != nil {
				t.Fatal(err)
			}
			k := key{m.Task, m.Version, m.Place}
			if was, again := seen[k]; again && was != m || !want[m] {
				t.Errorf("told was %+v, which is not what is recorded", m)
			}
			seen[k] = m
			if _, err := s.Queues.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: msg.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d changes were told in %d messages", len(seen), told)
}
