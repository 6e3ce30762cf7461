package drivers_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/agent/drivers"
	"github.com/lazyplane/lazyplane/pkg/model"
	"github.com/lazyplane/lazyplane/pkg/names"
)

func TestTheAgentsThatNeedNoCommandAreThoseWithADriver(t *testing.T) {
	var ids []string
	for _, d := range drivers.Installed() {
		ids = append(ids, d.ID())
		if i := d.Install(); i.Program == "" || i.Get == "" || i.Site == "" {
			t.Errorf("%s does not say how it is installed: %+v", d.ID(), i)
		}
		if _, ok := model.Find(d.Provider("")); !ok {
			t.Errorf("%s spends at %q, which is no provider", d.ID(), d.Provider(""))
		}
		if len(d.Keep()) == 0 {
			t.Errorf("%s keeps no conversation", d.ID())
		}
	}
	if !slices.Equal(ids, names.AgentCLIs()) {
		t.Errorf("drivers %v, names %v", ids, names.AgentCLIs())
	}
}

// docs/agents.md is what a person follows, so it has to know every driver.
func TestThePageAboutAgentsNamesEveryDriverAsItIs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, d := range drivers.Installed() {
		oldest, newest := d.Versions()
		for _, want := range append([]string{"| `" + d.ID() + "` |", "`" + d.Install().Get + "`", "lazy auth add " + d.Provider(""), oldest + " to " + newest}, d.Keep()...) {
			if !strings.Contains(page, want) {
				t.Errorf("docs/agents.md does not say %q of %s", want, d.ID())
			}
		}
	}
}
