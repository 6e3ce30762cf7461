package images_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/images"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func recipe(t *testing.T, name string) []images.Step {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "images", name, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps, err := images.Parse(f)
	if err != nil || len(steps) < 5 {
		t.Fatalf("%d instructions, %v", len(steps), err)
	}
	return steps
}

func TestEveryRecipeIsPinnedAndHoldsNothingSecret(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join("..", "..", "images"))
	if err != nil || len(dirs) < 3 {
		t.Fatalf("%d recipes, %v", len(dirs), err)
	}
	for _, d := range dirs {
		steps := recipe(t, d.Name())
		for _, p := range images.Check(steps) {
			t.Errorf("%s: %s", d.Name(), p)
		}
		unset := slices.ContainsFunc(steps, func(s images.Step) bool {
			return s.Op == "RUN" && strings.Contains(s.Args, "-perm /6000") && strings.Contains(s.Args, "chmod a-s")
		})
		bare := slices.ContainsFunc(steps, func(s images.Step) bool { return s.Op == "FROM" && s.Args == "scratch" })
		if !unset && !bare {
			t.Errorf("%s: programs that change their user are left in it", d.Name())
		}
	}
}

func TestTheAgentsImageRunsAsTheAgentAndStartsNothing(t *testing.T) {
	req.Covers(t, "AG-022", "AG-026")
	steps := recipe(t, "runtime")
	if got, want := images.Last(steps, "USER"), fmt.Sprintf("%[1]d:%[1]d", names.HostedUID); got != want {
		t.Errorf("it runs as %q, want %q", got, want)
	}
	for _, op := range []string{"ENTRYPOINT", "CMD"} {
		if got := images.Last(steps, op); got != "" {
			t.Errorf("%s is %q; the helper is started from its volume", op, got)
		}
	}
	if env := images.Last(steps, "ENV"); !strings.Contains(env, "HOME="+names.HostedHome+" ") {
		t.Errorf("its home is not the volume, and its root is read-only: %s", env)
	}
	if got := images.Last(steps, "WORKDIR"); got != names.HostedWork+"/tree" {
		t.Errorf("it works in %q", got)
	}
	all := fmt.Sprint(steps)
	var tested struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	b, err := os.ReadFile(filepath.Join("..", "agents", "package.json"))
	if err == nil {
		err = json.Unmarshal(b, &tested)
	}
	if err != nil || len(tested.Dependencies) != 3 {
		t.Fatalf("the versions that are tested: %v, %v", tested, err)
	}
	for cli, version := range tested.Dependencies {
		if !strings.Contains(all, " "+cli+"@"+version+" ") && !strings.Contains(all, " "+cli+"@"+version+"}") {
			t.Errorf("%s is not in it in version %s, which is the one that is tested", cli, version)
		}
	}
	if strings.Contains(all, names.AgentBinary) {
		t.Error("the helper is in it; any image has to do without")
	}
}

func TestTheSupervisorsImageIsOneProgramAndGit(t *testing.T) {
	steps := recipe(t, "supervisor")
	if got := images.Last(steps, "ENTRYPOINT"); got != `["/usr/local/bin/`+names.AgentBinary+`"]` {
		t.Errorf("it starts %s", got)
	}
	final := steps[slices.IndexFunc(steps, func(s images.Step) bool { return s.Op == "FROM" && !strings.Contains(s.Args, " AS ") }):]
	for _, s := range final {
		if s.Op == "COPY" && !strings.HasPrefix(s.Args, "--from=build ") {
			t.Errorf("line %d: %s brings sources along", s.Line, s.Args)
		}
	}
}

func TestTheCheckFindsWhatItIsFor(t *testing.T) {
	for recipe, want := range map[string]string{
		"FROM node":                                        "one version",
		"FROM node:latest":                                 "one version",
		"ARG N=node\nFROM ${N}":                            "one version",
		"FROM ${N}":                                        "one version",
		"FROM node:22\nADD https://x /y":                   "COPY",
		"FROM node:22\nRUN curl https://x | sh":            "runs what it fetches",
		"FROM node:22\nRUN npm install -g left-pad":        "not of one version",
		"FROM node:22\nRUN npm install -g left-pad@^1.0.0": "not of one version",
		"FROM node:22\nENV API_KEY=x":                      "secret",
		"FROM node:22\nARG GITHUB_TOKEN":                   "secret",
		"FROM node:22\nRUN apt-get install -y git":         "nobody asked for",
		"FROM node:22\nVOLUME /data":                       "no place",
	} {
		steps, err := images.Parse(strings.NewReader(recipe))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(images.Check(steps), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", recipe, got, want)
		}
	}
	if _, err := images.Parse(strings.NewReader(`RUN a \`)); err == nil {
		t.Error("an instruction without an end is taken")
	}
}
