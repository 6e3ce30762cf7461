// Package agenttest is what every driver of an agent CLI is tested with: recorded
// output of several versions, and output that nobody has seen.
package agenttest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Told is what the output of one run told.
type Told struct {
	Session string
	Text    string
	Steps   int
	Tools   []string
	Usage   []model.Usage
	Said    *turn.Failure // as the supervisor keeps it: forgotten after a later step
}

// Read lets a driver read the output of one run.
func Read(d agent.Driver, l agent.Launch, output []byte) Told {
	var told Told
	take := func(events []agent.Event) {
		for _, e := range events {
			if e.Session != "" {
				told.Session = e.Session
			}
			if e.Text != "" {
				told.Text = e.Text
			}
			if e.Step {
				told.Steps++
			}
			if e.Tool != "" {
				told.Tools = append(told.Tools, e.Tool)
			}
			told.Usage = append(told.Usage, e.Usage...)
			switch {
			case e.Failure != nil:
				told.Said = e.Failure
			case e.Step:
				told.Said = nil
			}
		}
	}
	r := d.Reader(l)
	for line := range bytes.SplitSeq(output, []byte("\n")) {
		take(r.Line(line))
	}
	take(r.End())
	return told
}

// Recorded calls f with each recording of the driver's testdata, by the version
// and the name in its file name.
func Recorded(t *testing.T, f func(t *testing.T, version, name string, output []byte)) (versions map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("recordings: %v, %v", files, err)
	}
	versions = map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		version, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".jsonl"), "-")
		versions[version] = true
		t.Run(version+" "+name, func(t *testing.T) { f(t, version, name, b) })
	}
	return versions
}

// Fuzz feeds a driver lines that no version wrote. Nothing may panic, no failure
// may lack a class, and what is no object is no event.
func Fuzz(f *testing.F, d agent.Driver) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("{\"type\":\"something new\",\"session_id\":7}\n[]\nnull\n\x00{\"type\":null}\n{"))
	f.Fuzz(func(t *testing.T, b []byte) {
		told := Read(d, agent.Launch{Model: "m"}, b)
		if told.Said != nil && (told.Said.Class == "" || told.Said.Reason == "" && told.Said.Class == turn.Unknown) {
			t.Errorf("a failure without a class: %+v", told.Said)
		}
		if !bytes.Contains(b, []byte("{")) && (told.Steps > 0 || told.Session != "" || told.Text != "" || told.Said != nil) {
			t.Errorf("%q told %+v", b, told)
		}
		for _, u := range told.Usage {
			if u.Requests < 1 {
				t.Errorf("usage of no request: %+v", u)
			}
		}
	})
}

// Plan plans a launch that every driver can plan.
func Plan(t *testing.T, d agent.Driver, tune func(l *agent.Launch)) agent.Plan {
	t.Helper()
	l := agent.Launch{
		Turn: "t1", Kind: turn.Work, Prompt: "do it", Tree: "/work/tree", MCP: "/home/agent/.claude.json", Home: "/own",
		Gateway: "http://127.0.0.1:4000", Key: "placeholder",
		Tools: agent.Server{Name: "lazy-agent", Command: "lazy-agent", Args: []string{"mcp", "--task-id", "x"}, Reads: []string{"lazy_show"}},
	}
	if tune != nil {
		tune(&l)
	}
	p, err := d.Plan(l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whole is all of a plan as text, to look for what must and must not be in it.
func Whole(p agent.Plan) string {
	var b strings.Builder
	b.WriteString(strings.Join(p.Argv, " ") + "\n" + strings.Join(p.Env, "\n") + "\n")
	for _, f := range p.Files {
		b.WriteString(f.Path + "\n" + string(f.Data) + "\n")
	}
	return b.String()
}

// Lost checks what a driver takes for a lost conversation: what its CLI says then,
// and nothing of a run that ended well or failed in another way.
func Lost(t *testing.T, d agent.Installed, own, foreign string, said agent.End) {
	t.Helper()
	if !d.Knows(own) || d.Knows(foreign) || d.Knows("") {
		t.Errorf("it takes %q: %t, %q: %t", own, d.Knows(own), foreign, d.Knows(foreign))
	}
	if words := d.Lost(said); words == "" || !strings.Contains(said.Tail, words) && (said.Said == nil || !strings.Contains(said.Said.Reason, words)) {
		t.Errorf("%q is why it is lost: %+v", words, said)
	}
	well, failed := said, said
	well.Code = 0
	failed.Model = &turn.Failure{Class: turn.Overload}
	for _, e := range []agent.End{well, failed, {Code: 1, Tail: "something else broke"}} {
		if words := d.Lost(e); words != "" {
			t.Errorf("lost, because of %q: %+v", words, e)
		}
	}
}
