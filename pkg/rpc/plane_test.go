package rpc_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/client"
	"github.com/lazyplane/lazyplane/pkg/edge"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/op"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/rpc"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// plane is the surface over the product's own catalogue, use cases and store.
type plane struct {
	*httptest.Server
	token string
	// gate, when set, holds a handler where it reads the project's settings.
	gate chan chan struct{}
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "lazy.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	p := &plane{gate: make(chan chan struct{}, 1)}
	ids := id.Gen{Rand: rand.Reader}
	a := app.New(app.Deps{
		Store: db, Key: bytes.Repeat([]byte("k"), 32), Now: time.Now, IDs: ids, Log: slog.New(slog.DiscardHandler), Local: true, Hop: time.Minute,
		Settings: func(context.Context, string, string) (app.Settings, error) {
			select {
			case held := <-p.gate:
				held <- struct{}{}
				<-held
			default:
			}
			return app.Settings{Agents: map[string]app.Agent{"c": {ID: "c", Argv: []string{"true"}}}, DefaultAgent: "c", DefaultBranch: "main"}, nil
		},
	})
	if p.token, err = a.MintOwner(t.Context(), "local", "demo", "ada@x.org", "Ada"); err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewServer(rpc.New(rpc.Config{
		Base: edge.Base{Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: ids.New, Hop: time.Minute},
		Auth: a, App: a, Ops: op.Default(),
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *plane) client() *client.Client { return &client.Client{Base: p.URL, Token: p.token} }

func (p *plane) tasks(t *testing.T) int {
	t.Helper()
	var l op.Listing
	if err := p.client().Call(t.Context(), "listTasks", op.ListIn{}, &l); err != nil {
		t.Fatal(err)
	}
	return len(l.Tasks)
}

func TestAnswerForgoneByHangingUpIsGivenUnderTheSameKey(t *testing.T) {
	req.Covers(t, "RP-006", "RP-027", "OT-025", "OT-050")
	p := newPlane(t)
	held := make(chan struct{})
	p.gate <- held
	ctx, hangUp := context.WithCancel(t.Context())
	in := map[string]string{"goal": "fix the login", "prompt": "do it"}
	gone := make(chan error, 1)
	go func() { gone <- p.client().Call(ctx, "createTask", in, nil, client.WithKey("k1")) }()
	<-held
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client got an answer")
	}
	held <- struct{}{}
	// The work goes on; the same request under its key meets it or its result.
	var first, second op.Created
	for _, out := range []*op.Created{&first, &second} {
		if err := p.client().Call(t.Context(), "createTask", in, out, client.WithKey("k1")); err != nil {
			t.Fatal(err)
		}
	}
	if first.TaskID == "" || first.TaskID != second.TaskID || p.tasks(t) != 1 {
		t.Errorf("got %s and %s, %d tasks", first.TaskID, second.TaskID, p.tasks(t))
	}
	in["goal"] = "another"
	err := p.client().Call(t.Context(), "createTask", in, nil, client.WithKey("k1"))
	if fault.Code(err) != "key_reused" || fault.HTTP(err) != 409 {
		t.Errorf("another request under the key: %v", err)
	}
}

func TestConcurrentRequestsUnderOneKeyDoItOnce(t *testing.T) {
	req.Covers(t, "OT-050", "RP-027")
	p := newPlane(t)
	const n = 16
	got := make([]op.Created, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			in := map[string]string{"goal": "g", "prompt": "p"}
			errs[i] = p.client().Call(t.Context(), "createTask", in, &got[i], client.WithKey("k"))
		})
	}
	wg.Wait()
	for i := range n {
		if errs[i] != nil || got[i].TaskID != got[0].TaskID {
			t.Errorf("%d: %s %v", i, got[i].TaskID, errs[i])
		}
	}
	if p.tasks(t) != 1 {
		t.Errorf("%d tasks", p.tasks(t))
	}
}

// forged is a token of a good form that nobody minted.
func forged(tenant string) string {
	body := "lzy_owner_" + tenant + "_" + strings.Repeat("a", 64)
	return fmt.Sprintf("%s_%x", body, crc32.ChecksumIEEE([]byte(body)))
}

func TestForgedTokensAre401WhateverTheyName(t *testing.T) {
	req.Covers(t, "CM-001")
	p := newPlane(t)
	want := ""
	for _, token := range []string{
		"x", "lzy_owner", forged("local"), forged("other"), forged(""), forged("a#b"), forged("#IDEM#"), forged("a b"),
		p.token[:len(p.token)-1], p.token + "0", strings.ToUpper(p.token),
	} {
		q, err := http.NewRequestWithContext(t.Context(), "POST", p.URL+"/rpc/listTasks", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set(names.HeaderHeartbeat, "1")
		resp, err := p.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want == "" {
			want = string(b)
		}
		if resp.StatusCode != 401 || string(b) != want || !json.Valid(b) {
			t.Errorf("%.40q: %d %s", token, resp.StatusCode, b)
		}
	}
}
