package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/config"
)

func TestTheReferenceIsWhatTheCommandsSay(t *testing.T) {
	const path = "../../docs/cli.md"
	got := cli.Reference(&cli.Env{})
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("docs/cli.md is stale; UPDATE=1 rewrites it (-page +commands):\n%s", d)
	}
}

// The page's example is parsed, and a setting it does not have is one nobody can
// learn of.
func TestTheConfigurationPageShowsEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```toml\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("the page has no example")
	}
	p, problems := config.ParseProject(example[1])
	if len(problems) > 0 {
		t.Fatalf("the page's example is not valid:\n%s", strings.Join(problems, "\n"))
	}
	want := config.Defaults()
	want.Name = "shop"
	want.Agents = map[string]config.Agent{"command": {Command: []string{"./agent.sh"}, Env: map[string]string{"LANG": "C.UTF-8"}}}
	want.Setup, want.Copy, want.Protected = "npm ci", []string{".env.example"}, []string{"infra/**", ".github/**"}
	if d := cmp.Diff(want, p); d != "" {
		t.Errorf("the example does not show the defaults and one value of each setting that has none (-want +page):\n%s", d)
	}
}
