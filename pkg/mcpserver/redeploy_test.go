package mcpserver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// A server is replaced in the middle of a session: the next call of the same
// client goes to another instance, with the bearer it has and the session it was
// told, and is answered as before. Nothing sends a person to sign in again.
func TestTheNextInstanceAnswersAClientOfTheLast(t *testing.T) {
	req.Covers(t, "B37", "MC-002")
	r := newRig(t)
	first, second := r.serve(t), r.serve(t)
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	resp, body := post(t, first, "/mcp/_", r.tokens["builder"], begin)
	if resp.StatusCode != 200 || !strings.Contains(body, `"serverInfo"`) {
		t.Fatalf("initialize: %d %s", resp.StatusCode, body)
	}
	var header []string
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		header = []string{"Mcp-Session-Id", id}
	}
	first.Close()
	for n, ask := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"lazy_echo","arguments":{"message":"x"}}}`,
	} {
		resp, body := post(t, second, "/mcp/_", r.tokens["builder"], ask, header...)
		if resp.StatusCode/100 != 2 || n > 0 && !strings.Contains(body, fmt.Sprintf(`"id":%d,"result"`, n+1)) {
			t.Errorf("%s: %d %s", ask, resp.StatusCode, body)
		}
	}
}

// A session that nobody knows is no error of its own: this server keeps none, so
// the call is answered, or at worst with the protocol's 404 that makes clients
// begin anew, never with a code that they do not know and wait on.
func TestAnUnknownSessionIsAnsweredByTheProtocol(t *testing.T) {
	req.Covers(t, "B38")
	r := newRig(t)
	s := r.serve(t)
	for _, id := range []string{"0123456789abcdef", "expired", strings.Repeat("x", 200)} {
		resp, body := post(t, s, "/mcp/_", r.tokens["builder"], `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", id)
		if resp.StatusCode != 404 && (resp.StatusCode != 200 || !strings.Contains(body, `"tools":[`)) {
			t.Errorf("%q: %d %s", id, resp.StatusCode, body)
		}
	}
}
