package rpc_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/rpc"
)

func TestClientRebuildsWhatTheServerRefused(t *testing.T) {
	req.Covers(t, "RP-004", "RP-011")
	y := newToy()
	s := y.serve(t)
	c := client.Client{Base: s.URL, Token: "owner", NewID: y.newID}
	for how, want := range failures() {
		err := c.Call(t.Context(), "fail", failIn{how}, nil)
		if fault.Code(err) != fault.Code(want) || fault.Exit(err) != fault.Exit(want) || fault.HTTP(err) != fault.HTTP(want) {
			t.Errorf("%s: got %v", how, err)
		}
	}
	err := c.Call(t.Context(), "fail", failIn{"busy"}, nil)
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(f.Next) != 1 || f.Next[0].Text != "lazy wait t" {
		t.Errorf("the advice of a person's client: %+v", f)
	}
	var out textIn
	if err := c.Call(t.Context(), "echo", textIn{"hello"}, &out); err != nil || out.Text != "hello" {
		t.Errorf("got %q, %v", out.Text, err)
	}
	if y.last(t).Key != "" {
		t.Errorf("a read keeps no key, got %q", y.last(t).Key)
	}
}

func TestOpenOperationIs202WithTheWayBack(t *testing.T) {
	req.Covers(t, "RP-007", "OT-048", "OT-023")
	y := newToy()
	s := y.serve(t)
	r := do(t, s, "POST", "/rpc/awaitOperation", "owner", `{"operation_id":"good"}`)
	got := body(t, r)
	if r.StatusCode != 202 || !strings.Contains(got, `"operation_id":"good"`) || !strings.Contains(got, `"cursor":"1"`) || !strings.Contains(got, `"resume":"awaitOperation"`) {
		t.Errorf("%d %s", r.StatusCode, got)
	}
	c := client.Client{Base: s.URL, Token: "owner"}
	for _, operation := range []string{"good", "bad"} {
		var told []string
		var out textIn
		err := c.Follow(t.Context(), operation, "", &out, client.WithPhase(func(p client.Phase) { told = append(told, p.Name+" "+p.State) }))
		if want := "prepare done,land started,land done"; strings.Join(told, ",") != want {
			t.Errorf("%s: told %v", operation, told)
		}
		if operation == "good" && (err != nil || out.Text != "landed") {
			t.Errorf("got %q, %v", out.Text, err)
		}
		if operation == "bad" && (fault.Code(err) != "accept_check_failed" || fault.Exit(err) != 1) {
			t.Errorf("got %v", err)
		}
	}
	// An open answer of a first call is followed without being asked.
	var out textIn
	if err := c.Call(t.Context(), "awaitOperation", awaitIn{Operation: "good"}, &out); err != nil || out.Text != "landed" {
		t.Errorf("got %q, %v", out.Text, err)
	}
}

func TestClientSendsItsActorAndItsHold(t *testing.T) {
	y := newToy()
	s := httptest.NewServer(rpc.New(y.config()))
	t.Cleanup(s.Close)
	c := client.Client{Base: s.URL, Token: "owner", Actor: "builder"}
	beats := 0
	err := c.Call(t.Context(), "echo", textIn{"x"}, nil, client.WithHold(names.StillRunning), client.WithBeat(func() { beats++ }))
	if err != nil {
		t.Fatal(err)
	}
	if got := y.last(t); got.Actor().Role != "builder" || got.Hold != names.StillRunning || beats != 1 {
		t.Errorf("got %+v, %d beats", got, beats)
	}
}
