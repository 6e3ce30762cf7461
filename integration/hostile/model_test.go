//go:build linux

package hostile

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent"
	"github.com/lazyplane/lazyplane/pkg/agent/claude"
	"github.com/lazyplane/lazyplane/pkg/agent/command"
	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
)

// runAttack is the agent of every task: the script that is called like it.
const runAttack = "exec sh attacks/$LAZY_TASK_CODE.sh"

const modelSecret = "sk-canary-model-credential"

// modelService answers like the service of the stored credential, and repeats
// whatever other authorization it was sent.
func modelService(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.Header.Get("X-Api-Key") != modelSecret {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.Copy(io.Discard, q.Body)
		fmt.Fprintf(w, `{"type":"message","model":"m","usage":{"input_tokens":1,"output_tokens":1},"saw":%q}`,
			q.Header.Get("Authorization")+q.Header.Get("Cookie"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// modelled runs the attacker's script in place of an agent CLI that has a model:
// it gets the gateway's address and the placeholder as the CLI would.
type modelled struct{ command.Driver }

func (modelled) Provider(m string) string { return claude.Driver{}.Provider(m) }

func (d modelled) Plan(l agent.Launch) (agent.Plan, error) {
	l.Argv = []string{"sh", "-c", runAttack}
	p, err := d.Driver.Plan(l)
	p.Env = append(p.Env, "GATEWAY="+l.Gateway, "KEY="+l.Key, "OWN="+l.Home)
	p.Files = []agent.File{{Path: "conf/settings.json", Data: []byte("{}"), Mode: 0o600}}
	return p, err
}

func findDriver(id string, argv []string) (agent.Driver, bool) {
	if id == claude.ID {
		return modelled{}, true
	}
	return drivers.Find(id, argv)
}
