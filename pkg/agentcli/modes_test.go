package agentcli

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/envelope"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestCallPrintsTheResultOrTheRefusal(t *testing.T) {
	req.Covers(t, "AG-024")
	sock := supervisorAt(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/lazy_final") {
			reply := envelope.Refuse(refusal.Of(refusal.FinalBlocked, "r1"), envelope.Audience{"mcp", "agent"}, "")
			w.WriteHeader(reply.Status)
			_, _ = w.Write(reply.Body)
			return
		}
		ok(w, string(b))
	})
	run := func(socket, in string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		env := func(name string) string { return map[string]string{names.EnvSocket: socket, names.EnvTask: task}[name] }
		code := program().Main(t.Context(), append([]string{"call"}, args...), env, Stdio{In: strings.NewReader(in), Out: &out, Err: &errs})
		return code, out.String(), errs.String()
	}
	if code, out, _ := run(sock, "", "lazy_status", `{"a":1}`); code != 0 || out != `{"arguments":{"a":1}}`+"\n" {
		t.Errorf("%d %q", code, out)
	}
	if code, out, _ := run(sock, " {\"b\":2}\n", "lazy_status", "-"); code != 0 || out != `{"arguments":{"b":2}}`+"\n" {
		t.Errorf("%d %q", code, out)
	}
	if code, out, _ := run(sock, "", "lazy_status"); code != 0 || out != `{"arguments":{}}`+"\n" {
		t.Errorf("%d %q", code, out)
	}
	if code, out, errs := run(sock, "", "lazy_final"); code != 2 || out != "" || !strings.Contains(errs, "r1") || !strings.Contains(errs, "End the turn") {
		t.Errorf("%d %q %q", code, out, errs)
	}
	for _, bad := range [][]string{{}, {"lazy_status", "[1]"}, {"lazy_status", "{"}, {"a", "{}", "c"}} {
		if code, _, errs := run(sock, "", bad...); code != 2 || errs == "" {
			t.Errorf("%v: %d %q", bad, code, errs)
		}
	}
	if code, _, errs := run("", "", "lazy_status"); code != 2 || !strings.Contains(errs, "sandbox") {
		t.Errorf("outside: %d %q", code, errs)
	}
}

func TestEveryModeIsThereUnderTheSecondName(t *testing.T) {
	req.Covers(t, "AG-001", "AG-012", "WF-11")
	run := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := program().Main(t.Context(), args, func(string) string { return "" }, Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
		return code, out.String(), errs.String()
	}
	_, help, _ := run("--help")
	for _, m := range []string{"supervise", "exec", "mcp", "call", "pair", "broker", "selfcheck"} {
		if !strings.Contains(help, "lazy-agent "+m) {
			t.Errorf("help has no %s: %s", m, help)
		}
	}
	for _, args := range [][]string{{"selfcheck"}, {"--version"}, {"--revision"}} {
		if code, out, _ := run(args...); code != 0 || !strings.HasPrefix(out, "lazy-agent ok 1.2.3\n") {
			t.Errorf("%v: %d %q", args, code, out)
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"pair"}, "not available"},
		{[]string{"nonsense"}, "no mode"},
		{[]string{"--protocol-dir", "rel"}, "absolute"},
		{[]string{"supervise", "--bad"}, "bad"},
		{[]string{"mcp", "--task-id", "x"}, "task id"},
		{[]string{"exec"}, "supervisor"},
		{[]string{"broker"}, "absolute"},
		{[]string{"broker", "--protocol-dir", t.TempDir(), "--hosted"}, "does not say what to do"},
		{[]string{"broker", "--protocol-dir", t.TempDir()}, "nothing to"},
		{[]string{"broker", "--repository", "."}, "repository"},
	} {
		if code, _, errs := run(c.args...); code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%v: %d %q", c.args, code, errs)
		}
	}
}
