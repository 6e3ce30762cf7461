package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// openCode stands in for OpenCode: a list of conversations and the messages of
// the one that is exported.
type openCode struct {
	t        *testing.T
	list     string
	messages []string
	asked    int
	failure  error
}

func (o *openCode) ask(args ...string) (string, error) {
	o.asked++
	if args[0] == "session" {
		return o.list, o.failure
	}
	return fmt.Sprintf(`{"info":{"id":%q,"directory":"x"},"messages":[%s]}`, args[1], strings.Join(o.messages, ",")), nil
}

// says is a message of a conversation.
func says(role, words string, completed int) string {
	return fmt.Sprintf(`{"info":{"id":"msg_%[2]s","role":%[1]q,"time":{"created":7,"completed":%[3]d}},"parts":[{"type":"text","text":%[2]q}]}`, role, words, completed)
}

func watched(t *testing.T) (o *openCode, w *opencodeWatch, began func(id, dir string, after time.Duration) string, touch func()) {
	t.Helper()
	dir := t.TempDir()
	o = &openCode{t: t, list: "[]"}
	w = &opencodeWatch{
		ask: o.ask, db: filepath.Join(dir, "opencode.db"), cwd: dir, began: time.UnixMilli(1_000_000), beside: func() int { return 0 },
		to: filepath.Join(dir, "transcript.jsonl"),
	}
	began = func(id, dir string, after time.Duration) string {
		return fmt.Sprintf(`{"id":%q,"created":%d,"directory":%q}`, id, w.began.Add(after).UnixMilli(), dir)
	}
	size := 0
	touch = func() {
		t.Helper()
		size++
		if err := os.WriteFile(w.db, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o, w, began, touch
}

func TestAConversationOfOpenCodeIsCapturedAsItGrows(t *testing.T) {
	req.Covers(t, "CV-004")
	o, w, began, touch := watched(t)
	k := &kept{}
	c := &capture{agent: "opencode", find: w.find, call: k.call}
	c.once(t.Context())
	if o.asked > 0 || k.text != "" {
		t.Errorf("without a database it was asked %d times", o.asked)
	}
	o.list = "[" + began("ses_old", w.cwd, -time.Minute) + "," + began("ses_away", t.TempDir(), time.Minute) + "," + began("ses_1", w.cwd, 0) + "]"
	o.messages = []string{says("user", "one", 0), says("assistant", "two", 0)}
	touch()
	c.once(t.Context())
	first := k.text
	if c.session != "ses_1" || !strings.Contains(first, `"one"`) || strings.Contains(first, `"two"`) || k.titles[0] != "one" {
		t.Errorf("of %q is stored %q, titled %q", c.session, first, k.titles)
	}
	before := o.asked
	c.once(t.Context())
	if o.asked != before {
		t.Error("it is asked although nothing has changed")
	}
	o.messages = []string{says("user", "one", 0), says("assistant", "two", 9), says("user", "three", 0)}
	touch()
	c.once(t.Context())
	if !strings.HasPrefix(k.text, first) || !strings.Contains(k.text, `"two"`) || !strings.Contains(k.text, `"three"`) {
		t.Errorf("stored %q", k.text)
	}
	o.messages = []string{says("user", "one", 0), says("assistant", "something else", 9)}
	touch()
	c.last(t.Context())
	if strings.Contains(k.text, `"two"`) || strings.Count(k.text, `"one"`) != 1 || !strings.Contains(k.text, "something else") {
		t.Errorf("after a change stored %q", k.text)
	}
	if len(c.failures()) > 0 || k.stamps != 3 {
		t.Errorf("%d stamps, failures %q", k.stamps, c.failures())
	}
}

func TestWhatCannotBeToldOfOpenCodeIsNotCaptured(t *testing.T) {
	req.Covers(t, "BL-012", "CV-007")
	for _, row := range []struct {
		name string
		tune func(o *openCode, w *opencodeWatch, two string)
		want string
	}{
		{"two conversations", func(o *openCode, _ *opencodeWatch, two string) { o.list = two }, "2 conversations of OpenCode"},
		{"another session", func(_ *openCode, w *opencodeWatch, _ string) { w.beside = func() int { return 1 } }, "another builder session"},
		{"a list of another form", func(o *openCode, _ *opencodeWatch, _ string) { o.list = "one two" }, "does not read"},
		{"a conversation of another form", func(o *openCode, _ *opencodeWatch, _ string) { o.messages = []string{"no"} }, "does not read"},
		{"no answer", func(o *openCode, _ *opencodeWatch, _ string) { o.failure = errors.New("exit status 3") }, "did not list its conversations"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o, w, began, touch := watched(t)
			one := began("ses_1", w.cwd, time.Second)
			o.list, o.messages = "["+one+"]", []string{says("user", "one", 0)}
			row.tune(o, w, "["+one+","+began("ses_2", w.cwd, time.Second)+"]")
			touch()
			_, _, err := w.find("", true)
			if fault.KindOf(err) != fault.Failed || !strings.Contains(fault.Of(err).Public, row.want) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}
