package modelfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// form writes answers in one wire format.
type form interface {
	requestID() string
	begin(t Tokens)
	think(text string)
	say(text string)
	call(p Part)
	ping()
	overload()
	finish(refused bool, t Tokens)
	whole(parts []Part, refused bool, t Tokens) any
	failure(a Answer) any
}

func newForm(w Wire, to http.ResponseWriter, r Request, id int) form {
	s := &stream{to: to, rc: http.NewResponseController(to), r: r, id: id}
	switch w {
	case Responses:
		return &responses{stream: s}
	case Chat:
		return &chat{stream: s}
	case Messages:
	}
	return &messages{stream: s}
}

// stream is what the formats share: events, flushed one by one.
type stream struct {
	to    http.ResponseWriter
	rc    *http.ResponseController
	r     Request
	id    int
	calls int
}

func (s *stream) requestID() string { return fmt.Sprintf("req_%06d", s.id) }

// callID is another name for each call of the whole session.
func (s *stream) callID(prefix string) string {
	s.calls++
	return fmt.Sprintf("%s_%06d_%d", prefix, s.id, s.calls)
}

// event sends one event. A caller that has gone is noticed at the next wait.
func (s *stream) event(name string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		return
	}
	if name != "" {
		fmt.Fprintf(s.to, "event: %s\n", name)
	}
	fmt.Fprintf(s.to, "data: %s\n\n", b)
	_ = s.rc.Flush()
}

// comment is a sign of life that is no event.
func (s *stream) comment() {
	fmt.Fprint(s.to, ": keep-alive\n\n")
	_ = s.rc.Flush()
}

// pieces cuts a text as a stream would.
func pieces(text string) []string {
	const most = 4096
	var out []string
	for len(text) > most {
		out, text = append(out, text[:most]), text[most:]
	}
	return append(out, text)
}

// obj is a JSON object.
type obj = map[string]any

func now() int64 { return time.Now().Unix() }
