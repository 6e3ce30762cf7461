package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// resource is one resource of a template.
type resource struct {
	ID             string
	Type           string
	Properties     map[string]any
	DependsOn      any
	DeletionPolicy string
}

// template is what a synthesis gave, with what cdk-nag found.
type template struct {
	Resources map[string]resource
	Outputs   map[string]any
	Findings  []string
	Raw       string
}

// of lists the resources of a type, in the order of their ids.
func (t template) of(kind string) []resource {
	var all []resource
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		if r := t.Resources[id]; r.Type == kind {
			all = append(all, r)
		}
	}
	return all
}

func (t template) only(tb testing.TB, kind string) resource {
	tb.Helper()
	all := t.of(kind)
	if len(all) != 1 {
		tb.Fatalf("%d of %s, want one", len(all), kind)
	}
	return all[0]
}

// named is the resource of a type that the stack gives a name of its own.
func (t template) named(tb testing.TB, kind, id string) resource {
	tb.Helper()
	r, ok := t.Resources[id]
	if !ok || r.Type != kind {
		tb.Fatalf("there is no %s called %s", kind, id)
	}
	return r
}

// at walks down a property: at("A", 0, "B").
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func (r resource) at(path ...any) any { return at(r.Properties, path...) }

// text writes a value with its intrinsic functions resolved as far as names go:
// <Id>, <Id.Attribute>.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any:
		if ref, ok := v["Ref"]; ok {
			return "<" + text(ref) + ">"
		}
		if get, ok := v["Fn::GetAtt"].([]any); ok {
			return "<" + text(get[0]) + "." + text(get[1]) + ">"
		}
		if join, ok := v["Fn::Join"].([]any); ok {
			var all []string
			for _, part := range join[1].([]any) {
				all = append(all, text(part))
			}
			return strings.Join(all, text(join[0]))
		}
		if sub, ok := v["Fn::Sub"]; ok {
			return text(sub)
		}
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// texts reads one value or a list of them.
func texts(v any) []string {
	if l, ok := v.([]any); ok {
		var all []string
		for _, x := range l {
			all = append(all, text(x))
		}
		return all
	}
	if v == nil {
		return nil
	}
	return []string{text(v)}
}

func preset() settings {
	return settings{
		Stage: "prod", Budget: 25, Dashboard: true, Reserve: true, AlarmEmail: "ops@example.com", Version: "v1", Git: "git",
		Supervisor: "example.com/supervisor@sha256:" + strings.Repeat("a", 64), Runtime: "example.com/runtime@sha256:" + strings.Repeat("b", 64),
	}
}

var standard = sync.OnceValues(func() (template, error) { return synthesize(preset()) })

// other is a deployment with everything else that can be chosen.
var other = sync.OnceValues(func() (template, error) {
	return synthesize(settings{
		Stage: "test", Domain: "lazy.example.com", Certificate: "arn:aws:acm:us-east-1:111122223333:certificate/0",
		ZoneID: "Z1", ZoneName: "example.com", Budget: 5, OTLP: "https://traces.example.com", Destroy: true,
	})
})

func deployed(t *testing.T) template          { return from(t, standard) }
func deployedOtherwise(t *testing.T) template { return from(t, other) }

func from(t *testing.T, f func() (template, error)) template {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("node is missing: CDK runs on it")
		}
		t.Skip("node is not installed, and CDK runs on it: install Node 20 or newer")
	}
	got, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// synthesize makes a template with programs that do nothing. What CDK has to say
// comes as a panic.
func synthesize(set settings) (got template, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("synthesize: %v", p)
		}
	}()
	_ = os.Setenv("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
	assets, err := os.MkdirTemp("", "infra-")
	if err != nil {
		return template{}, err
	}
	defer os.RemoveAll(assets)
	for _, s := range names.Surfaces() {
		if err := os.MkdirAll(filepath.Join(assets, s), 0o755); err != nil {
			return template{}, err
		}
		if err := os.WriteFile(filepath.Join(assets, s, "bootstrap"), []byte(s), 0o755); err != nil {
			return template{}, err
		}
	}
	if set.Git != "" {
		set.Git = filepath.Join(assets, set.Git)
		if err := os.MkdirAll(filepath.Join(set.Git, "bin"), 0o755); err != nil {
			return template{}, err
		}
		if err := os.WriteFile(filepath.Join(set.Git, "bin", "git"), []byte("git"), 0o755); err != nil {
			return template{}, err
		}
	}
	set.Assets, set.Root = assets, ".."
	flags, err := cdkContext()
	if err != nil {
		return template{}, err
	}
	app := awscdk.NewApp(&awscdk.AppProps{Context: &flags, Outdir: jsii.String(filepath.Join(assets, "out")), AnalyticsReporting: jsii.Bool(false)})
	stack, err := newStack(app, set)
	if err != nil {
		return template{}, err
	}
	judge(app)
	raw, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		return template{}, err
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		return template{}, err
	}
	for id, r := range got.Resources {
		r.ID = id
		got.Resources[id] = r
	}
	got.Raw = string(raw)
	got.Findings, err = findings(filepath.Join(assets, "out"))
	return got, err
}

// findings reads what the synthesis left for the command line to print: errors and
// warnings of CDK and cdk-nag.
func findings(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.metadata.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no metadata in %s", dir)
	}
	var all []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var notes map[string]json.RawMessage
		if err := json.Unmarshal(raw, &notes); err != nil {
			return nil, err
		}
		for path, list := range notes {
			var entries []struct {
				Type string
				Data any
			}
			if json.Unmarshal(list, &entries) != nil {
				continue // not a list of notes
			}
			for _, e := range entries {
				if e.Type == "aws:cdk:error" || e.Type == "aws:cdk:warning" {
					all = append(all, path+": "+fmt.Sprint(e.Data))
				}
			}
		}
	}
	return all, nil
}

// cdkContext is what cdk.json has every synthesis told.
func cdkContext() (map[string]any, error) {
	raw, err := os.ReadFile("cdk.json")
	if err != nil {
		return nil, err
	}
	var f struct {
		Context map[string]any `json:"context"`
	}
	return f.Context, json.Unmarshal(raw, &f)
}
