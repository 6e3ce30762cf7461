package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/engine"
	"github.com/lazyplane/lazyplane/pkg/engine/asl"
	"github.com/lazyplane/lazyplane/pkg/fault"
)

// flow computes what an execution's next record is. It is pure: it reads no
// clock, calls no step and writes nothing, so a record that was not saved is
// merely forgotten.
type flow struct {
	m     *asl.Machine
	now   time.Time
	token func() string
}

// hops bounds how many states may follow each other without one that waits or
// works, so a definition that loops through choices cannot hang the engine.
const hops = 1000

// causeKept is the longest cause kept, as on AWS.
const causeKept = 32768

const enteredLayout = "2006-01-02T15:04:05.000000000Z"

func unmarshal(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("there is text after the value")
	}
	return v, nil
}

// begin is the record of an execution that starts.
func (f flow) begin(name string, input []byte, data any) record {
	r := record{
		Machine: f.m.Name, Name: name, Def: f.m.Digest, Input: input,
		Started: f.now.UTC().Round(0), State: engine.Running,
	}
	return f.enter(r, f.m.StartAt, data)
}

// enter moves the execution into a state, and through every state that neither
// waits nor works, until it stands in one that does or has ended.
func (f flow) enter(r record, name string, data any) record {
	for range hops {
		s := f.m.States[name]
		r = f.visit(r, name)
		var err error
		next := s.Next
		switch s.Type {
		case asl.Succeed:
			return f.succeed(r, data)
		case asl.Fail:
			return f.end(r, engine.Failed, s.Error, s.Cause)
		case asl.Choice:
			next, err = choose(s, data)
		case asl.Pass:
			data, err = f.pass(r, s, data)
		case asl.Wait:
			if r.Wake, err = f.wake(s, data); err == nil && r.Wake.After(f.now) {
				return f.keep(r, data)
			}
		case asl.Task:
			return f.keep(f.attempt(r, f.now), data)
		}
		if err != nil {
			return f.end(r, engine.Failed, asl.ErrRuntime, err.Error())
		}
		if s.End {
			return f.succeed(r, data)
		}
		name = next
	}
	return f.end(r, engine.Failed, asl.ErrRuntime, fmt.Sprintf("%d states followed each other without a task or a wait", hops))
}

// visit marks the entry into a state. Entered grows strictly, so that it tells
// two visits apart where a retry keeps it.
func (f flow) visit(r record, name string) record {
	entered := f.now.UTC().Round(0)
	if !entered.After(r.Entered) {
		entered = r.Entered.Add(1)
	}
	visited := append(slices.Clip(r.Visited), name)
	if len(visited) > visitsKept {
		visited = visited[len(visited)-visitsKept:]
	}
	return record{
		Machine: r.Machine, Name: r.Name, Def: r.Def, Input: r.Input, Started: r.Started,
		State: engine.Running, At: name, Data: r.Data,
		Visit: r.Visit + 1, Entered: entered, Visited: visited,
	}
}

// attempt prepares a Task's next attempt, which may begin at the given time. The
// token is part of the record, so it is durable before any step can hand it out.
func (f flow) attempt(r record, at time.Time) record {
	s := f.m.States[r.At]
	r.Wake, r.Submitted, r.Answer = at, false, nil
	if s.Token {
		r.Token, r.Deadline = f.token(), at.Add(s.Timeout)
	}
	return r
}

func (f flow) keep(r record, data any) record {
	b, err := encode(data)
	if err != nil {
		return f.end(r, engine.Failed, asl.ErrTooLarge, err.Error())
	}
	r.Data = b
	return r
}

func encode(data any) ([]byte, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode the state's data: %w", err)
	}
	if len(b) > asl.MaxData {
		return nil, fmt.Errorf("the state's data has %d bytes, more than %d", len(b), asl.MaxData)
	}
	return b, nil
}

func (f flow) succeed(r record, data any) record {
	b, err := encode(data)
	if err != nil {
		return f.end(r, engine.Failed, asl.ErrTooLarge, err.Error())
	}
	r = f.end(r, engine.Succeeded, "", "")
	r.Output = b
	return r
}

// end closes the execution; what only an open one needs is dropped.
func (f flow) end(r record, state engine.State, name, cause string) record {
	if len(cause) > causeKept {
		cause = cause[:causeKept]
	}
	return record{
		Machine: r.Machine, Name: r.Name, Def: r.Def, Input: r.Input, Started: r.Started,
		State: state, At: r.At, Visit: r.Visit, Entered: r.Entered, Visited: r.Visited,
		Error: name, Cause: cause, Stopped: f.now.UTC().Round(0),
	}
}

func choose(s *asl.State, data any) (string, error) {
	for _, rule := range s.Rules {
		ok, err := rule.Holds(data)
		if err != nil {
			return "", err
		}
		if ok {
			return rule.Next, nil
		}
	}
	return s.Default, nil
}

func (f flow) pass(r record, s *asl.State, data any) (any, error) {
	result := data
	for _, t := range []asl.Template{s.Result, s.Parameters} {
		if t == nil {
			continue
		}
		var err error
		if result, err = t.Fill(data, f.context(r)); err != nil {
			return nil, err
		}
	}
	return s.ResultPath.Set(data, result)
}

func (f flow) wake(s *asl.State, data any) (time.Time, error) {
	switch {
	case s.SecondsPath != nil:
		v, ok := s.SecondsPath.Get(data, asl.Context{})
		if !ok {
			return time.Time{}, fmt.Errorf("the path %s is not in the state's data", s.SecondsPath.Text)
		}
		num, _ := v.(json.Number)
		n, err := num.Int64()
		if err != nil || n < 0 || n > 99999999 {
			return time.Time{}, fmt.Errorf("%s is %v, not a number of seconds", s.SecondsPath.Text, v)
		}
		return f.now.Add(time.Duration(n) * time.Second), nil
	case s.TimestampPath != nil:
		v, ok := s.TimestampPath.Get(data, asl.Context{})
		text, _ := v.(string)
		at, err := time.Parse(time.RFC3339, text)
		if !ok || err != nil {
			return time.Time{}, fmt.Errorf("%s is %v, not a time", s.TimestampPath.Text, v)
		}
		return at, nil
	default:
		return f.now.Add(s.Wait), nil
	}
}

func (f flow) context(r record) asl.Context {
	return asl.Context{
		Execution: r.Name,
		State:     r.At,
		Entered:   r.Entered.UTC().Format(enteredLayout),
		Retries:   r.attempts(),
		Token:     r.Token,
	}
}

// payload is what the current Task's step is called with.
func (f flow) payload(r record) ([]byte, error) {
	data, err := unmarshal(r.Data)
	if err != nil {
		return nil, fmt.Errorf("read the state's data: %w", err)
	}
	v, err := f.m.States[r.At].Parameters.Fill(data, f.context(r))
	if err != nil {
		return nil, err
	}
	call, _ := v.(map[string]any)
	return json.Marshal(call["Payload"])
}

// returned is the record after the current Task's step answered without a token.
// Its result is wrapped as the Lambda integration wraps it.
func (f flow) returned(r record, out []byte) record {
	if len(bytes.TrimSpace(out)) == 0 {
		out = []byte("null")
	}
	v, err := unmarshal(out)
	if err != nil {
		return f.failed(r, engine.ErrorName(err), cause(err))
	}
	return f.completed(r, map[string]any{"Payload": v, "StatusCode": json.Number("200")})
}

// completed is the record after the current Task succeeded with result.
func (f flow) completed(r record, result any) record {
	s := f.m.States[r.At]
	data, err := unmarshal(r.Data)
	if err == nil && s.Selector != nil {
		result, err = s.Selector.Fill(result, f.context(r))
	}
	if err != nil {
		return f.failed(r, asl.ErrRuntime, err.Error())
	}
	out, err := s.ResultPath.Set(data, result)
	if err != nil {
		return f.failed(r, "States.ResultPathMatchFailure", err.Error())
	}
	if _, err := encode(out); err != nil {
		return f.failed(r, asl.ErrTooLarge, err.Error())
	}
	return f.leave(r, out)
}

// leave moves on from the current state.
func (f flow) leave(r record, data any) record {
	s := f.m.States[r.At]
	if s.End {
		return f.succeed(r, data)
	}
	return f.enter(r, s.Next, data)
}

// waited is the record after the current Wait is over.
func (f flow) waited(r record) record {
	data, err := unmarshal(r.Data)
	if err != nil {
		return f.end(r, engine.Failed, asl.ErrRuntime, err.Error())
	}
	return f.leave(r, data)
}

// answered applies the answer to the current task token.
func (f flow) answered(r record, a answer) record {
	if a.Error != "" || a.Output == nil {
		return f.failed(r, a.Error, a.Cause)
	}
	v, err := unmarshal(a.Output)
	if err != nil {
		return f.failed(r, asl.ErrRuntime, err.Error())
	}
	return f.completed(r, v)
}

// failed is the record after the current Task failed: another attempt, the state
// that catches the error, or the end. The first retrier that names the error
// decides; when it is used up the catchers are asked.
func (f flow) failed(r record, name, cause string) record {
	s := f.m.States[r.At]
	for i, t := range s.Retry {
		if !asl.Matches(t.Errors, name) {
			continue
		}
		used := make([]int, len(s.Retry))
		copy(used, r.Retries)
		if used[i] >= t.Max || name == asl.ErrRuntime {
			break
		}
		at := f.now.Add(t.Delay(used[i]))
		used[i]++
		r.Retries = used
		return f.attempt(r, at)
	}
	for _, c := range s.Catch {
		if !asl.Matches(c.Errors, name) {
			continue
		}
		if len(cause) > causeKept {
			cause = cause[:causeKept]
		}
		data, err := unmarshal(r.Data)
		if err == nil {
			data, err = c.ResultPath.Set(data, map[string]any{"Error": name, "Cause": cause})
		}
		if err != nil {
			return f.end(r, engine.Failed, asl.ErrRuntime, err.Error())
		}
		return f.enter(r, c.Next, data)
	}
	return f.end(r, engine.Failed, name, cause)
}

// cause is what a definition sees of an error besides its name: the form in which
// Lambda reports one, with the text that may leave the process.
func cause(err error) string {
	b, encoding := json.Marshal(struct {
		Message string `json:"errorMessage"`
		Type    string `json:"errorType"`
	}{fault.Of(err).Public, engine.ErrorName(err)})
	if encoding != nil {
		return ""
	}
	return string(b)
}
