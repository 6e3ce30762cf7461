package emulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/runner/fargate"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// look is how often the shims look for news.
const look = 100 * time.Millisecond

// feeds starts what EventBridge, ECS and Lambda's event source mappings do in an
// account; the emulator has none of the three.
func (s *Stack) feeds(ctx context.Context) {
	if !s.o.NoStream {
		s.tasks.Go(func() { s.every(ctx, look, "stream", s.stream(names.SurfaceEvents, asks)) })
		changes := s.stream(names.SurfacePublish, changed)
		s.tasks.Go(func() {
			s.every(ctx, look, "changes", func(ctx context.Context) error {
				s.telling.Lock()
				defer s.telling.Unlock()
				return changes(ctx)
			})
		})
	}
	s.tasks.Go(func() { s.every(ctx, look, "queue", s.receive) })
	s.tasks.Go(func() { s.every(ctx, s.o.Sweep, "clock", s.tick) })
	s.tasks.Go(func() { s.every(ctx, look, "containers", s.containers()) })
}

// every calls f until ctx ends.
func (s *Stack) every(ctx context.Context, d time.Duration, what string, f func(context.Context) error) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("a shim met an error", "shim", what, "error", err)
		}
	}
}

// hand gives a batch to a function and returns what must come again.
func (s *Stack) hand(ctx context.Context, function string, records []map[string]any) (map[string]bool, error) {
	event, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		return nil, err
	}
	out, err := s.Functions[function].Call(ctx, event)
	if err != nil {
		return nil, err
	}
	var a feed.Answer
	if err := json.Unmarshal(out, &a); err != nil {
		return nil, fmt.Errorf("function %s answered %s: %w", function, out, err)
	}
	again := map[string]bool{}
	for _, f := range a.Failures {
		again[f.ID] = true
	}
	return again, nil
}

// asks is the filter of the events function's mapping: new outbox rows, and rows
// that ask for work.
func asks(r streams.Record) bool {
	mark, _ := r.Dynamodb.NewImage[names.TableFollow].(*streams.AttributeValueMemberBOOL)
	return mark != nil && mark.Value && r.EventName != streams.OperationTypeRemove || inserts(r, names.OutboxPrefix)
}

// changed is the filter of the publish function's mapping: new history rows.
func changed(r streams.Record) bool { return inserts(r, names.HistoryPrefix) }

func inserts(r streams.Record, prefix string) bool {
	sk, _ := r.Dynamodb.Keys[names.TableSK].(*streams.AttributeValueMemberS)
	return sk != nil && r.EventName == streams.OperationTypeInsert && strings.HasPrefix(sk.Value, prefix)
}

// stream reads the table's stream as an event source mapping does: what passes its
// filter only, in order, and from the first one that failed again.
func (s *Stack) stream(function string, wanted func(streams.Record) bool) func(context.Context) error {
	after := map[string]string{} // by shard
	arn := ""
	return func(ctx context.Context) error {
		if arn == "" {
			out, err := s.Table.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(Table)})
			if err != nil {
				return err
			}
			arn = aws.ToString(out.Table.LatestStreamArn)
		}
		d, err := s.streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
		if err != nil {
			return err
		}
		for _, shard := range d.StreamDescription.Shards {
			name := aws.ToString(shard.ShardId)
			last, err := s.shard(ctx, function, wanted, arn, name, after[name])
			after[name] = last
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// shard hands on what came after a record and returns the last one dealt with.
func (s *Stack) shard(ctx context.Context, function string, wanted func(streams.Record) bool, arn, name, last string) (string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &name, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon}
	if last != "" {
		in.ShardIteratorType, in.SequenceNumber = streams.ShardIteratorTypeAfterSequenceNumber, &last
	}
	it, err := s.streams.GetShardIterator(ctx, in)
	if err != nil {
		return last, err
	}
	out, err := s.streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: it.ShardIterator})
	if err != nil {
		return last, err
	}
	var records []map[string]any
	var seqs []string
	for _, r := range out.Records {
		seq := aws.ToString(r.Dynamodb.SequenceNumber)
		if !wanted(r) {
			if len(records) == 0 {
				last = seq
			}
			continue
		}
		seqs = append(seqs, seq)
		records = append(records, map[string]any{
			"eventSource": "aws:dynamodb", "eventName": string(r.EventName), "eventID": seq, "dynamodb": map[string]any{
				"SequenceNumber": seq, "Keys": image(r.Dynamodb.Keys), "NewImage": image(r.Dynamodb.NewImage),
			},
		})
	}
	if len(records) == 0 {
		return last, nil
	}
	again, err := s.hand(ctx, function, records)
	if err != nil {
		return last, err
	}
	for _, seq := range seqs {
		if again[seq] {
			return last, nil
		}
		last = seq
	}
	return last, nil
}

// image is a row as a record of a mapping has it.
func image(row map[string]streams.AttributeValue) map[string]any {
	out := map[string]any{}
	for name, v := range row {
		switch v := v.(type) {
		case *streams.AttributeValueMemberS:
			out[name] = map[string]string{"S": v.Value}
		case *streams.AttributeValueMemberN:
			out[name] = map[string]string{"N": v.Value}
		case *streams.AttributeValueMemberBOOL:
			out[name] = map[string]bool{"BOOL": v.Value}
		case *streams.AttributeValueMemberB:
			out[name] = map[string][]byte{"B": v.Value}
		default: // the store writes no others
		}
	}
	return out
}

// receive hands on what is in the queue and deletes what was dealt with.
func (s *Stack) receive(ctx context.Context) error {
	out, err := s.Queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &s.Events, MaxNumberOfMessages: 10})
	if err != nil || len(out.Messages) == 0 {
		return err
	}
	var records []map[string]any
	for _, m := range out.Messages {
		records = append(records, map[string]any{
			"eventSource": "aws:sqs", "messageId": aws.ToString(m.MessageId), "body": aws.ToString(m.Body),
		})
	}
	again, err := s.hand(ctx, names.SurfaceEvents, records)
	if err != nil {
		return err
	}
	for _, m := range out.Messages {
		if again[aws.ToString(m.MessageId)] {
			continue
		}
		_, derr := s.Queues.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &s.Events, ReceiptHandle: m.ReceiptHandle})
		err = errors.Join(err, derr)
	}
	return err
}

// Send puts an event into the queue, as a rule of EventBridge does.
func (s *Stack) Send(ctx context.Context, source, kind string, detail any) error {
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": time.Now().Format(time.RFC3339Nano), "source": source, "detail-type": kind, "detail": detail,
	})
	if err != nil {
		return err
	}
	_, err = s.Queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &s.Events, MessageBody: aws.String(string(body))})
	return err
}

// tick is the clock's rule.
func (s *Stack) tick(ctx context.Context) error {
	return s.Send(ctx, "aws.events", "Scheduled Event", struct{}{})
}

// containers tells of supervisors that ended, as ECS does of tasks.
func (s *Stack) containers() func(context.Context) error {
	told := map[string]bool{}
	return func(ctx context.Context) error {
		runs, err := filepath.Glob(filepath.Join(s.State(), "runs", "*", "*", spool.StartFile))
		if err != nil {
			return err
		}
		for _, f := range runs {
			dir := filepath.Dir(f)
			if told[dir] || !ended(dir) {
				continue
			}
			var start spool.Start
			if ok, err := spool.Read(dir, spool.StartFile, &start); err != nil || !ok {
				return err
			}
			box := map[string]any{"name": "supervisor"}
			var x spool.Exit
			if ok, _ := spool.Read(dir, spool.ExitFile, &x); ok {
				box["exitCode"] = x.Code
			}
			err := s.Send(ctx, "aws.ecs", "ECS Task State Change", map[string]any{
				"lastStatus": "STOPPED", "startedBy": fargate.TagOf(start.Tenant, start.Task, start.Epoch),
				"stopCode": "EssentialContainerExited", "stoppedReason": "Essential container in task exited", "containers": []any{box},
			})
			if err != nil {
				return err
			}
			told[dir] = true
		}
		return nil
	}
}

// ended reports whether the supervisor of a run has been there and is gone.
func ended(dir string) bool {
	was := false
	for _, name := range []string{spool.SelfFile, spool.PidFile} {
		var i spool.Ident
		if ok, err := spool.Read(dir, name, &i); err == nil && ok {
			if i.Alive() {
				return false
			}
			was = true
		}
	}
	return was && !spool.Unposted(dir)
}
