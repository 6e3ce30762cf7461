package modelfake_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/modelfake"
)

const tools = `"tools":[{"name":"Bash","type":"function","function":{"name":"Bash"}},{"type":"function","name":"mcp__lazy-agent__lazy_commit","function":{"name":"mcp__lazy-agent__lazy_commit"}}]`

// paths are where each format is asked.
func paths() map[modelfake.Wire]string {
	return map[modelfake.Wire]string{
		modelfake.Messages: "/v1/messages?beta=true", modelfake.Responses: "/v1/responses", modelfake.Chat: "/v1/chat/completions",
	}
}

func serve(t *testing.T, script string) (*modelfake.Server, string) {
	t.Helper()
	s := modelfake.New(modelfake.Must(script))
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// ask sends one request and returns its status, header and body, read to its end
// or to where the connection broke.
func ask(t *testing.T, url, body string) (int, http.Header, string, error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, r.Header, string(b), err
}

func TestEveryFormatTellsTheSameAnswer(t *testing.T) {
	for wire, path := range paths() {
		for _, stream := range []string{"true", "false"} {
			t.Run(string(wire)+" stream "+stream, func(t *testing.T) {
				s, url := serve(t, `
expect "please work"
reply
  think Hm.
  say "one\ntwo"
  call shell {"command": "ls"}
  call lazy_commit {"message": "m"}
  tokens 70 8 9
`)
				_, h, body, err := ask(t, url+path, `{"model":"m1","stream":`+stream+`,"input":"please work",`+tools+`}`)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{`one\ntwo`, `Bash`, `mcp__lazy-agent__lazy_commit`, `ls`, "Hm."} {
					if !strings.Contains(body, want) && (want != "Hm." || stream == "true") {
						t.Errorf("the answer lacks %q:\n%s", want, body)
					}
				}
				if h.Get("Request-Id") == "" {
					t.Error("the answer has no request id")
				}
				if wrong := s.Wrong(); len(wrong) > 0 || s.Left() != 0 {
					t.Errorf("against the script: %v", wrong)
				}
				for line := range strings.SplitSeq(body, "\n") {
					if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" && !json.Valid([]byte(data)) {
						t.Errorf("%q is no JSON", data)
					}
				}
				r := s.Requests()[0]
				if r.Wire != wire || r.Model != "m1" || r.Side || len(r.Tools) != 2 || r.Answer != 3 {
					t.Errorf("recorded %+v", r)
				}
			})
		}
	}
}

func TestFailuresAreThoseOfTheServices(t *testing.T) {
	for wire, path := range paths() {
		t.Run(string(wire), func(t *testing.T) {
			s, url := serve(t, `
fail 429 after 7
fail 529 times 2
fail 401 no such key
fail 400
reply
  say part
  overload
reply
  say part
  cut
reply
  refuse
`)
			body := `{"model":"m1","stream":true,` + tools + `}`
			for _, want := range []int{429, 529, 529, 401, 400} {
				status, h, said, err := ask(t, url+path, body)
				if err != nil || status != want || !json.Valid([]byte(said)) {
					t.Errorf("want %d, got %d %q, %v", want, status, said, err)
				}
				if want == 429 && h.Get("Retry-After") != "7" || want == 401 && !strings.Contains(said, "no such key") {
					t.Errorf("%d: %v %s", want, h, said)
				}
			}
			if _, _, said, err := ask(t, url+path, body); err != nil || !strings.Contains(said, "overload") {
				t.Errorf("overloaded in mid-stream: %q, %v", said, err)
			}
			if _, _, said, err := ask(t, url+path, body); err == nil {
				t.Errorf("the stream was not cut: %q", said)
			}
			if _, _, said, err := ask(t, url+path, body); err != nil || !strings.Contains(said, "refusal") && !strings.Contains(said, "content_filter") {
				t.Errorf("declined: %q, %v", said, err)
			}
			if _, _, _, err := ask(t, url+path, body); err != nil || len(s.Wrong()) != 1 {
				t.Errorf("a request after the end: %v, %v", s.Wrong(), err)
			}
		})
	}
}

func TestAStreamIsHeldAtAGateWithSignsOfLife(t *testing.T) {
	for wire, path := range paths() {
		t.Run(string(wire), func(t *testing.T) {
			s, url := serve(t, "reply\n say before\n wait here\n say after\n")
			s.Beat = 1
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(`{"stream":true,`+tools+`}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			lines := bufio.NewScanner(r.Body)
			alive := false
			for !alive && lines.Scan() {
				alive = strings.Contains(lines.Text(), "ping") || strings.HasPrefix(lines.Text(), ":")
			}
			if !alive || !s.Held("here") {
				t.Error("there is no sign of life at the gate")
			}
			s.Release("here")
			s.Release("here")
			for lines.Scan() {
				if strings.Contains(lines.Text(), "after") {
					return
				}
			}
			t.Error("the answer did not go on")
		})
	}
}

func TestSideRequestsUseUpNoAnswer(t *testing.T) {
	s, url := serve(t, "reply\n say only\n")
	if _, _, body, _ := ask(t, url+"/v1/chat/completions", `{"stream":false}`); !strings.Contains(body, "title") {
		t.Errorf("a title: %s", body)
	}
	if _, _, body, _ := ask(t, url+"/v1/messages/count_tokens", `{"messages":"12345678"}`); !strings.Contains(body, "input_tokens") {
		t.Errorf("counting: %s", body)
	}
	if status, _, _, _ := ask(t, url+"/v1/telemetry", `{}`); status != http.StatusNotFound {
		t.Errorf("an unknown path: %d", status)
	}
	if s.Left() != 1 || len(s.Requests()) != 3 || len(s.Wrong()) != 0 {
		t.Errorf("left %d, requests %d, wrong %v", s.Left(), len(s.Requests()), s.Wrong())
	}
}

func TestALongAnswerComesWhole(t *testing.T) {
	for wire, path := range paths() {
		_, url := serve(t, "reply\n long 300000\n")
		if _, _, body, err := ask(t, url+path, `{"stream":true,`+tools+`}`); err != nil || strings.Count(body, "All work") < 10_000 {
			t.Errorf("%s: %d bytes, %v", wire, len(body), err)
		}
	}
}

func TestAScriptThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	for src, want := range map[string]string{
		"say x":                          "s:1: \"say\" belongs into a reply",
		"reply\n cut\n say x":            "s:3: the reply has ended",
		"\nfail 200":                     "s:2:",
		"fail":                           "s:1:",
		"reply\n call x [1]":             "s:2: call needs",
		"reply\n tokens 1":               "s:2: tokens",
		"reply\n dance":                  "\"dance\" is no step",
		"expect x":                       "an expect without an answer",
		"reply\n long many":              "s:2: long",
		"reply\n say":                    "s:2: say needs",
		"fail 429 after never":           "s:1: after needs",
		"reply\nexpect a\n say b\nreply": "s:3:",
	} {
		if _, err := modelfake.Parse("s", []byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("expect a\nreply\n think b\n say c\n call d {}\n tokens 1 2\n wait e\n overload\nfail 429 after 1 times 2 text\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := modelfake.Parse("s", src)
		if err != nil && s != nil {
			t.Error("a script and an error")
		}
	})
}
