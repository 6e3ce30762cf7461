package dynamo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lazyplane/lazyplane/integration/moto"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/dynamo"
)

// wire answers the real SDK with what an emulator never says: contention,
// throttling, lost answers, pages cut by size, capacity. It keeps the requests.
type wire struct {
	answers []func(w http.ResponseWriter)

	mu    sync.Mutex
	calls []call // guarded by mu
}

type call struct {
	op   string
	body map[string]any
}

func (f *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, _ := io.ReadAll(r.Body)
	c := call{op: strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810.")}
	if err := json.Unmarshal(b, &c.body); err != nil {
		panic(err)
	}
	f.calls = append(f.calls, c)
	if len(f.answers) == 0 {
		answer(200, `{}`)(w)
		return
	}
	next := f.answers[0]
	if len(f.answers) > 1 {
		f.answers = f.answers[1:]
	}
	next(w)
}

func answer(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func failure(code string) func(http.ResponseWriter) {
	return answer(400, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"m"}`, code))
}

func canceled(reasons ...string) func(http.ResponseWriter) {
	return answer(400, fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"m","CancellationReasons":[%s]}`, strings.Join(reasons, ",")))
}

// hangUp loses the answer of a request that was received.
func hangUp(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		c.Close()
	}
}

const (
	none     = `{"Code":"None"}`
	conflict = `{"Code":"TransactionConflict","Message":"m"}`
	throttle = `{"Code":"ThrottlingError","Message":"m"}`
	refused  = `{"Code":"ConditionalCheckFailed","Message":"m","Item":{"pk":{"S":"T#t#PRJ#p"},"sk":{"S":"B"},"version":{"N":"7"},"who":{"S":"ada"}}}`
)

func start(t *testing.T, f *wire, opts ...dynamo.Option) *dynamo.Store {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	// The client tries as often as it would, without waiting in between.
	atOnce := retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	client := dynamodb.NewFromConfig(moto.Config(srv.URL), func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(s *retry.StandardOptions) { s.Backoff = atOnce })
	})
	return dynamo.New(client, "table", append(opts, dynamo.WithoutPauses())...)
}

var (
	project = store.For("t").Project("p")
	first   = store.Write{Act: store.Put, Item: store.Item{Key: project.Key("A")}, If: []store.Cond{store.Absent()}}
	second  = store.Write{Act: store.Update, Item: store.Item{Key: project.Key("B")}, Set: store.Attr{"who": "bob"}, If: []store.Cond{store.Present(), store.VersionIs(6)}}
)

func (f *wire) ops() string {
	var out []string
	for _, c := range f.calls {
		out = append(out, c.op)
	}
	return strings.Join(out, " ")
}

func TestContentionIsTriedAgainUnderOneToken(t *testing.T) {
	f := &wire{answers: []func(http.ResponseWriter){
		canceled(none, conflict), failure("TransactionInProgressException"), canceled(throttle, none), answer(200, `{}`),
	}}
	if err := start(t, f).Transact(t.Context(), first, second); err != nil {
		t.Fatal(err)
	}
	if len(f.calls) != 4 {
		t.Fatalf("%d requests, want 4: %s", len(f.calls), f.ops())
	}
	for _, c := range f.calls[1:] {
		if c.body["ClientRequestToken"] != f.calls[0].body["ClientRequestToken"] || c.body["ClientRequestToken"] == "" {
			t.Errorf("another try had another token: %v", c.body["ClientRequestToken"])
		}
	}
	before := f.calls[0].body["ClientRequestToken"]
	f.answers = nil
	s := start(t, f)
	if err := s.Transact(t.Context(), first, second); err != nil || f.calls[len(f.calls)-1].body["ClientRequestToken"] == before {
		t.Errorf("another transaction had the same token: %v", err)
	}
}

func TestTriesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		ws     []store.Write
	}{
		"a transaction":  {canceled(conflict, none), []store.Write{first, second}},
		"a single write": {failure("TransactionConflictException"), []store.Write{first}},
		"throttling":     {failure("ProvisionedThroughputExceededException"), []store.Write{second}},
	} {
		f := &wire{answers: []func(http.ResponseWriter){c.answer}}
		if err := start(t, f).Transact(t.Context(), c.ws...); !errors.Is(err, store.ErrContention) {
			t.Errorf("%s: got %v, want ErrContention", name, err)
		}
		if len(f.calls) != dynamo.Tries {
			t.Errorf("%s: %d requests, want %d", name, len(f.calls), dynamo.Tries)
		}
	}
}

func TestARefusalBesideContentionIsARefusal(t *testing.T) {
	f := &wire{answers: []func(http.ResponseWriter){canceled(conflict, refused)}}
	err := start(t, f).Transact(t.Context(), first, second)
	e, ok := errors.AsType[*store.ConflictError](err)
	if !ok || e.Write != 1 || e.Current.Int(store.AttrVersion) != 7 || e.Current.Str("who") != "ada" || e.Failed.Field != store.AttrVersion {
		t.Fatalf("got %+v, %v", e, err)
	}
	if len(f.calls) != 1 {
		t.Errorf("%d requests", len(f.calls))
	}
}

func TestAnImpossibleTransactionIsNotTriedAgain(t *testing.T) {
	f := &wire{answers: []func(http.ResponseWriter){canceled(conflict, `{"Code":"ValidationError","Message":"m"}`)}}
	err := start(t, f).Transact(t.Context(), first, second)
	_, is := errors.AsType[*store.ConflictError](err)
	if err == nil || is || errors.Is(err, store.ErrContention) || len(f.calls) != 1 {
		t.Fatalf("%v after %d requests", err, len(f.calls))
	}
}

// A repeated single write could be refused by its own first success, or be made
// twice, so after a lost answer the item is looked at; a transaction has its
// token and is repeated.
func TestALostAnswerNeverTurnsIntoARefusal(t *testing.T) {
	unknown := func(name string, f *wire, ws ...store.Write) {
		t.Helper()
		err := start(t, f).Transact(t.Context(), ws...)
		_, is := errors.AsType[*store.ConflictError](err)
		if err == nil || is || errors.Is(err, store.ErrContention) {
			t.Errorf("%s: %v", name, err)
		}
	}
	someone := answer(200, `{"Item":{"pk":{"S":"T#t#PRJ#p"},"sk":{"S":"A"},"_":{"S":"someone's"}}}`)
	for name, lose := range map[string]func(http.ResponseWriter){
		"no answer": hangUp, "half an answer": answer(200, `{"Attri`), "a server error": answer(500, `{"__type":"InternalServerError"}`),
	} {
		for _, w := range []store.Write{first, second} {
			f := &wire{}
			// The item shows what the lost request wrote, as its token tells.
			f.answers = []func(http.ResponseWriter){lose, func(w http.ResponseWriter) {
				answer(200, fmt.Sprintf(`{"Item":{"pk":{"S":"T#t#PRJ#p"},"sk":{"S":"A"},"_":{"S":%q}}}`, sentToken(f.calls[0])))(w)
			}}
			if err := start(t, f).Transact(t.Context(), w); err != nil || len(f.calls) != 2 {
				t.Errorf("%s, made: %v after %s", name, err, f.ops())
			}
		}
		f := &wire{answers: []func(http.ResponseWriter){lose, someone}}
		unknown(name+", someone else's", f, first)
		if f.ops() != "PutItem GetItem" {
			t.Errorf("%s: %s", name, f.ops())
		}
		unknown(name+", nothing there", &wire{answers: []func(http.ResponseWriter){lose, answer(200, `{}`)}}, first)
		unknown(name+", unreadable", &wire{answers: []func(http.ResponseWriter){lose, failure("ResourceNotFoundException")}}, first)

		f = &wire{answers: []func(http.ResponseWriter){lose, answer(200, `{}`)}}
		if err := start(t, f).Transact(t.Context(), first, second); err != nil {
			t.Errorf("a transaction, %s: %v", name, err)
		}
		if len(f.calls) != 2 || f.calls[0].body["ClientRequestToken"] != f.calls[1].body["ClientRequestToken"] {
			t.Errorf("a transaction, %s: %s", name, f.ops())
		}
		unknown(name+", always", &wire{answers: []func(http.ResponseWriter){lose}}, first, second)
		f = &wire{answers: []func(http.ResponseWriter){lose, canceled(conflict, none)}}
		if err := start(t, f).Transact(t.Context(), first, second); !errors.Is(err, store.ErrContention) {
			t.Errorf("%s, then contention: %v", name, err)
		}
	}
}

// sentToken finds the token that a single write leaves in the item.
func sentToken(c call) string {
	if item, ok := c.body["Item"].(map[string]any); ok {
		return item["_"].(map[string]any)["S"].(string)
	}
	names := c.body["ExpressionAttributeNames"].(map[string]any)
	change := c.body["UpdateExpression"].(string)
	for placeholder, name := range names {
		if name == "_" {
			_, rest, _ := strings.Cut(change, placeholder+" = ")
			value, _, _ := strings.Cut(rest, ",")
			return c.body["ExpressionAttributeValues"].(map[string]any)[value].(map[string]any)["S"].(string)
		}
	}
	panic("no token in " + change)
}

func TestAReadCutOffIsRepeated(t *testing.T) {
	f := &wire{answers: []func(http.ResponseWriter){answer(200, `{"It`), answer(200, `{"Item":{"pk":{"S":"T#t#PRJ#p"},"sk":{"S":"A"},"n":{"N":"4"},"_":{"S":"x"}}}`)}}
	it, err := start(t, f).Get(t.Context(), first.Item.Key)
	if err != nil || it.Int("n") != 4 || len(it.Attr) != 1 {
		t.Errorf("%+v, %v", it, err)
	}
	f = &wire{answers: []func(http.ResponseWriter){failure("ResourceNotFoundException")}}
	if _, err := start(t, f).Get(t.Context(), first.Item.Key); err == nil || len(f.calls) != 1 {
		t.Errorf("%v after %s", err, f.ops())
	}
}

func TestASingleWriteIsNoTransaction(t *testing.T) {
	k := store.Item{Key: project.Key("B")}
	for want, w := range map[string]store.Write{
		"PutItem": first, "UpdateItem": second, "DeleteItem": {Act: store.Delete, Item: k},
		"TransactWriteItems": {Act: store.Check, Item: k, If: []store.Cond{store.Present()}},
	} {
		f := &wire{}
		if err := start(t, f).Transact(t.Context(), w); err != nil || f.ops() != want {
			t.Errorf("got %s, want %s: %v", f.ops(), want, err)
		}
	}
}

func TestReadsOfTheTableAreConsistent(t *testing.T) {
	f := &wire{}
	s := start(t, f)
	if _, err := s.Get(t.Context(), project.Meta()); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	for _, x := range []store.Index{"", store.Due} {
		if _, err := s.Query(t.Context(), store.Query{PK: project.PK, Index: x}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{true, true, false} {
		if got := f.calls[i].body["ConsistentRead"]; got != want {
			t.Errorf("request %d: consistent %v, want %v", i, got, want)
		}
	}
}

// DynamoDB ends an answer after a megabyte, and may give none of the rows it
// read; neither is the end of the page.
func TestAnAnswerCutShortIsNotTheEnd(t *testing.T) {
	row := func(sk string) string {
		return fmt.Sprintf(`{"pk":{"S":"T#t#PRJ#p"},"sk":{"S":"%s"}}`, sk)
	}
	f := &wire{answers: []func(http.ResponseWriter){
		answer(200, `{"Items":[`+row("A")+`],"LastEvaluatedKey":`+row("A")+`}`),
		answer(200, `{"Items":[],"LastEvaluatedKey":`+row("B")+`}`),
		answer(200, `{"Items":[`+row("C")+`,`+row("D")+`],"LastEvaluatedKey":`+row("D")+`}`),
	}}
	s := start(t, f)
	q := store.Query{PK: project.PK, Limit: 2}
	page, err := s.Query(t.Context(), q)
	if err != nil || len(page.Items) != 2 || page.Items[1].Key.SK != "C" || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if len(f.calls) != 3 || fmt.Sprint(f.calls[2].body["ExclusiveStartKey"]) != "map[pk:map[S:T#t#PRJ#p] sk:map[S:B]]" {
		t.Errorf("%s, then from %v", f.ops(), f.calls[2].body["ExclusiveStartKey"])
	}
	f.answers = []func(http.ResponseWriter){answer(200, `{"Items":[`+row("D")+`]}`)}
	q.Cursor = page.Next
	page, err = s.Query(t.Context(), q)
	if err != nil || len(page.Items) != 1 || page.Next != "" {
		t.Fatalf("%+v, %v", page, err)
	}
	if got := fmt.Sprint(f.calls[3].body["ExclusiveStartKey"]); got != "map[pk:map[S:T#t#PRJ#p] sk:map[S:C]]" {
		t.Errorf("the second page begins after %s", got)
	}
}

type meter struct{ read, write float64 }

func (m *meter) Consumed(read, write float64) { m.read += read; m.write += write }

func TestTheMeterIsToldWhatARequestConsumed(t *testing.T) {
	f := &wire{answers: []func(http.ResponseWriter){
		answer(200, `{"ConsumedCapacity":[{"TableName":"table","CapacityUnits":10}]}`),
		answer(200, `{"ConsumedCapacity":{"TableName":"table","CapacityUnits":2}}`),
		failure("ConditionalCheckFailedException"),
		answer(200, `{"ConsumedCapacity":{"TableName":"table","CapacityUnits":1}}`),
		answer(200, `{"ConsumedCapacity":{"TableName":"table","CapacityUnits":0.5}}`),
	}}
	m := &meter{}
	s := start(t, f, dynamo.WithMeter(m))
	_ = s.Transact(t.Context(), first, second)
	_ = s.Transact(t.Context(), first)
	_ = s.Transact(t.Context(), first)
	_, _ = s.Get(t.Context(), first.Item.Key)
	_, _ = s.Query(t.Context(), store.Query{PK: project.PK})
	if m.write != 12 || m.read != 1.5 {
		t.Errorf("%v read, %v written; want 1.5 and 12", m.read, m.write)
	}
	for _, c := range f.calls {
		if c.body["ReturnConsumedCapacity"] != "TOTAL" {
			t.Errorf("%s does not ask", c.op)
		}
	}
}

func TestAnEndedContextEndsTheTries(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &wire{answers: []func(http.ResponseWriter){func(w http.ResponseWriter) {
		cancel()
		canceled(conflict)(w)
	}}}
	if err := start(t, f).Transact(ctx, first, second); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(f.calls) != 1 {
		t.Errorf("%d requests", len(f.calls))
	}
}

// Words of a caller are never syntax: all of them travel as placeholders.
func TestNoWordOfACallerIsReadAsSyntax(t *testing.T) {
	f := &wire{}
	hostile := "a = :x OR #b"
	w := store.Write{
		Act: store.Update, Item: store.Item{Key: project.Key("B")}, Set: store.Attr{hostile: hostile}, Unset: []string{"size"},
		If: []store.Cond{store.FieldIs("name", hostile), {Op: store.OpIn, Field: "status", Set: []string{hostile}}},
	}
	if err := start(t, f).Transact(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"UpdateExpression", "ConditionExpression"} {
		got, _ := f.calls[0].body[field].(string)
		if got == "" || strings.Contains(got, "OR") || strings.Contains(got, "name") || strings.Contains(got, "size") {
			t.Errorf("%s: %s", field, got)
		}
	}
}
