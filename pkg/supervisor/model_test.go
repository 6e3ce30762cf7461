package supervisor_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// modelled is a command that is told where its model is, as a CLI is.
type modelled struct{ command.Driver }

func (modelled) ID() string { return "modelled" }

func (modelled) Provider(string) string { return "claude" }

func (d modelled) Plan(l agent.Launch) (agent.Plan, error) {
	p, err := d.Driver.Plan(l)
	p.Env = append(p.Env, "GATEWAY="+l.Gateway, "KEY="+l.Key, "OWN="+l.Home)
	p.Files = []agent.File{{Path: "conf/agent.toml", Data: []byte("launch"), Mode: 0o600}}
	return p, err
}

// Classify believes what the gateway saw.
func (d modelled) Classify(e agent.End) *turn.Failure {
	if e.Code != 0 && e.Model != nil {
		return e.Model
	}
	return d.Driver.Classify(e)
}

func find(id string, argv []string) (agent.Driver, bool) {
	if id == "modelled" {
		return modelled{}, true
	}
	if id == "unguarded" {
		return unguarded{}, true
	}
	if id == "talker" {
		return talker{}, true
	}
	if id == "forgetful" {
		return forgetful{}, true
	}
	return drivers.Find(id, argv)
}

const modelSecret = "sk-canary-model-credential-0815"

// modelRig is a rig whose agent has a model, which answers like its service.
func modelRig(t *testing.T, script string) (r *rig, calls func() int) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("no curl here")
	}
	var mu sync.Mutex
	n := 0
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		if q.Header.Get("X-Api-Key") != modelSecret {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","model":"claude-x","usage":{"input_tokens":10,"output_tokens":2}}`)
	}))
	t.Cleanup(up.Close)
	r = newRig(t, script, func(c *turn.Command) { c.Agent = "modelled" })
	r.plane.Do(func(p *planetest.Plane) {
		p.Model = &model.Access{Provider: "claude", Wire: model.Anthropic, Upstream: up.URL, Scheme: model.APIKey, Credential: "mine", Secret: modelSecret}
	})
	return r, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

const callModel = `c() { curl -s -m 60 -o /dev/null -w '%{http_code}\n' -H "X-Api-Key: ${1:-$KEY}" -d '{}' "$GATEWAY/v1/messages"; }; `

func TestASealedAgentReachesItsModelAndNothingElseOfIt(t *testing.T) {
	req.Covers(t, "AG-030", "CM-031", "ID-026", "P8")
	r, calls := modelRig(t, callModel+`c > answers; c wrong >> answers; c '`+modelSecret+`' >> answers
		cat "$OWN/conf/agent.toml" > conf; echo talk > "$OWN/session"
		env > seen; find / -xdev -type f -not -path '/proc/*' -not -path '/usr/*' -not -path '/sys/*' -size -2000k -exec cat {} + >> seen 2>/dev/null
		cat /proc/*/environ /proc/*/cmdline >> seen 2>/dev/null; echo "$KEY" > key; echo ok`)
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "answers", r.file("answers"), "200\n401\n401\n")
	equal(t, "calls at the service", calls(), 1)
	equal(t, "configuration", r.file("conf"), "launch")
	seen := strings.ReplaceAll(r.file("seen"), "c '"+modelSecret+"'", "") // the script's own attempt
	if strings.Contains(seen, modelSecret) || !strings.Contains(seen, "GATEWAY=http://127.0.0.1:") {
		t.Error("the credential is visible inside, or nothing was seen")
	}
	want := model.Usage{Model: "claude-x", Credential: "mine", Requests: 1, Input: 10, Output: 2}
	if len(resp.Usage) != 1 || resp.Usage[0] != want {
		t.Errorf("usage %+v", resp.Usage)
	}
	err := filepath.WalkDir(r.state, func(at string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(at, r.ws.Tree) {
			return err
		}
		b, err := os.ReadFile(at)
		if strings.Contains(strings.ReplaceAll(string(b), "c '"+modelSecret+"'", ""), modelSecret) {
			t.Errorf("%s holds the credential", at)
		}
		return err
	})
	must(t, err)

	old := strings.TrimSpace(r.file("key"))
	r.next(callModel+`c > answers; c `+old+` >> answers; cat "$OWN/session" > session; echo ok`, func(c *turn.Command) { c.Agent = "modelled" })
	equal(t, "outcome of the next turn", r.run().Outcome, "ok")
	equal(t, "answers to the key of this turn and of the last", r.file("answers"), "200\n401\n")
	equal(t, "the conversation of the last turn", r.file("session"), "talk\n")
}

func TestASpentBudgetEndsTheTurnAndIsNotAskedForAgain(t *testing.T) {
	req.Covers(t, "B46", "AG-030")
	r, calls := modelRig(t, callModel+`while :; do c >> answers; done`)
	r.plane.Do(func(p *planetest.Plane) { p.Command.Tokens = 30 }) // a call spends 12
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "why", resp.Stopped, turn.StopBudget)
	equal(t, "calls at the service", calls(), 3)
	if resp.Failure == nil || !strings.Contains(resp.Failure.Reason, "used 36 of the 30 tokens") || resp.Failure.Attempts != 1 {
		t.Errorf("failure %+v", resp.Failure)
	}
}

func TestAGroundStopEndsTheTurnAtItsNextModelCall(t *testing.T) {
	req.Covers(t, "SY-044", "US-023", "P10")
	r, calls := modelRig(t, callModel+`c > answers; touch one; while [ ! -e go ]; do sleep 0.05; done; c >> answers; sleep 600`)
	r.launch()
	r.wrote("one")
	var told int
	r.plane.Do(func(p *planetest.Plane) { p.NoModel, told = "a ground stop is in force", len(p.Beats) })
	r.plane.Until("a beat that says the stop was heard", func(p *planetest.Plane) bool {
		return len(p.Beats) > told && p.Beats[len(p.Beats)-1].NoModel == p.NoModel
	})
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "go"), nil, 0o600))
	resp := r.plane.Report()
	r.gone()
	equal(t, "outcome", resp.Outcome, "stopped")
	equal(t, "why", resp.Stopped, turn.StopGround)
	equal(t, "calls at the service", calls(), 1)
}

func TestAModelCallWaitsForAControlPlaneThatRestarts(t *testing.T) {
	req.Covers(t, "AG-029")
	r, calls := modelRig(t, callModel+`touch one; while [ ! -e go ]; do sleep 0.05; done; c > answers; echo ok`)
	r.launch()
	r.wrote("one")
	r.plane.Down()
	must(t, os.WriteFile(filepath.Join(r.ws.Tree, "go"), nil, 0o600))
	r.plane.Start("127.0.0.1:0")
	resp := r.plane.Report()
	r.gone()
	equal(t, "outcome", resp.Outcome, "ok")
	equal(t, "answers", r.file("answers"), "200\n")
	equal(t, "calls at the service", calls(), 1)
}

func TestWhatTheGatewaySawDecidesAboutTheFailure(t *testing.T) {
	req.Covers(t, "FC-006")
	r, _ := modelRig(t, `curl -s -o /dev/null -H "X-Api-Key: $KEY" -d '{}' "$GATEWAY/v1/messages"; echo 'something broke'; exit 1`)
	r.plane.Do(func(p *planetest.Plane) { p.Model.Secret = "revoked" })
	resp := r.run()
	equal(t, "outcome", resp.Outcome, "error")
	if resp.Failure == nil || resp.Failure.Class != turn.FatalAuth || !strings.Contains(resp.Failure.Reason, `"mine"`) {
		t.Errorf("failure %+v", resp.Failure)
	}
	equal(t, "attempts", fmt.Sprint(resp.Failure.Attempts), "1")
}
