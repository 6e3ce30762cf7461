package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// grant is one statement that allows something, wherever it stands.
type grant struct {
	Where     string
	Actions   []string
	Resources []string
	Condition any
}

// grants reads every policy document of a template: of roles, endpoints, queues,
// buckets, topics and keys.
func grants(t template) []grant {
	var all []grant
	read := func(where string, doc any) {
		statements, _ := at(doc, "Statement").([]any)
		for _, s := range statements {
			if text(at(s, "Effect")) == "Deny" {
				continue
			}
			g := grant{where, texts(at(s, "Action")), texts(at(s, "Resource")), at(s, "Condition")}
			for _, not := range []string{"NotAction", "NotResource"} {
				if at(s, not) != nil {
					g.Actions = append(g.Actions, "*")
				}
			}
			all = append(all, g)
		}
	}
	for _, r := range t.Resources {
		read(r.ID, r.at("PolicyDocument"))
		if r.Type == "AWS::KMS::Key" {
			read(r.ID, r.at("KeyPolicy"))
		}
		inline, _ := r.at("Policies").([]any)
		for _, p := range inline {
			read(r.ID, at(p, "PolicyDocument"))
		}
	}
	return all
}

func TestNoRightHasAStarThatIsNotListed(t *testing.T) {
	got := deployed(t)
	blobs := ""
	for _, b := range got.of("AWS::S3::Bucket") {
		if strings.HasPrefix(b.ID, "Blobs") {
			blobs = "<" + b.ID + ".Arn>/*"
		}
	}
	used := map[int]bool{}
	excused := func(resource, action string) bool {
		found := false
		for i, w := range wildcards(preset()) {
			fits := resource == w.resource || w.resource != "*" && strings.HasSuffix(resource, w.resource)
			if w.resource == "Blobs/*" {
				fits = resource == blobs
			}
			if fits && slices.Contains(w.actions, action) {
				used[i], found = true, true
			}
		}
		return found
	}
	all := grants(got)
	if len(all) < 40 {
		t.Fatalf("%d statements were found", len(all))
	}
	for _, g := range all {
		for _, r := range g.Resources {
			for _, a := range g.Actions {
				if (strings.Contains(r, "*") || strings.Contains(a, "*")) && !excused(r, a) {
					t.Errorf("%s allows %s on %s: narrow it, or list it in wildcards() with a reason", g.Where, a, r)
				}
			}
		}
	}
	for i, w := range wildcards(preset()) {
		if !used[i] {
			t.Errorf("nothing needs the star of %v on %s", w.actions, w.resource)
		}
		if len(w.why) < 20 {
			t.Errorf("the star of %v on %s has no reason", w.actions, w.resource)
		}
	}
}

func TestNobodyMayAssumeARoleButOneService(t *testing.T) {
	for _, r := range deployed(t).of("AWS::IAM::Role") {
		statements := r.at("AssumeRolePolicyDocument", "Statement").([]any)
		if len(statements) != 1 || len(texts(at(statements[0], "Principal", "Service"))) != 1 {
			t.Errorf("%s may be assumed by %s", r.ID, text(r.at("AssumeRolePolicyDocument")))
		}
		if r.at("ManagedPolicyArns") != nil {
			t.Errorf("%s takes rights from a policy that somebody else writes", r.ID)
		}
	}
}

// roleOf is the role of a surface's function.
func roleOf(t *testing.T, got template, surface string) string {
	t.Helper()
	for _, f := range got.of("AWS::Lambda::Function") {
		if strings.HasPrefix(text(f.at("Description")), "lazyplane "+surface+":") {
			return strings.TrimSuffix(strings.Trim(text(f.at("Role")), "<>"), ".Arn")
		}
	}
	t.Fatalf("no function is %s", surface)
	return ""
}

// allowed lists a surface's rights: action, resources, and whether a condition
// narrows them.
func allowed(t *testing.T, got template, surface string) map[string][]string {
	t.Helper()
	role, out := roleOf(t, got, surface), map[string][]string{}
	for _, p := range got.of("AWS::IAM::Policy") {
		if !slices.Contains(texts(p.at("Roles")), "<"+role+">") {
			continue
		}
		for _, s := range p.at("PolicyDocument", "Statement").([]any) {
			for _, a := range texts(at(s, "Action")) {
				for _, r := range texts(at(s, "Resource")) {
					if at(s, "Condition") != nil {
						raw, _ := json.Marshal(at(s, "Condition"))
						r += " if " + shorten(string(raw))
					}
					if !slices.Contains(out[a], r) {
						out[a] = append(out[a], r)
					}
				}
			}
		}
	}
	for a := range out {
		for i, r := range out[a] {
			out[a][i] = shorten(r)
		}
		slices.Sort(out[a])
	}
	return out
}

var (
	logicalHash = regexp.MustCompile(`([A-Za-z]+)[0-9A-F]{8}\b`)
	arnPlace    = regexp.MustCompile(`arn:<AWS::Partition>:([a-z0-9]+):<AWS::Region>:<AWS::AccountId>:`)
)

func shorten(s string) string {
	return arnPlace.ReplaceAllString(logicalHash.ReplaceAllString(s, "$1"), "$1:")
}

// What each function may do is written down, so that a change of it is a change
// that somebody reads.
func TestTheRightsOfEachFunctionAreWrittenDown(t *testing.T) {
	got := deployed(t)
	all := map[string]map[string][]string{}
	for _, s := range names.Surfaces() {
		all[s] = allowed(t, got, s)
	}
	golden(t, filepath.Join("testdata", "rights.json"), all)
}

// golden compares a value with a file, which UPDATE=1 writes.
func golden(t *testing.T, file string, v any) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, b.Bytes()) {
		t.Errorf("%s is not what is deployed; read the difference, then UPDATE=1 go test ./infra\ngot:\n%s", file, b.Bytes())
	}
}

// apiCall is a request that an adapter makes, by the name of its input.
var apiCall = regexp.MustCompile(`&(dynamodb|sfn|ecs|s3|kms|secretsmanager|sqs|eventbridge)\.(\w+)Input\{`)

func TestEveryRequestOfAnAdapterIsAllowed(t *testing.T) {
	got := deployed(t)
	have := map[string]bool{}
	for _, s := range names.Surfaces() {
		for a := range allowed(t, got, s) {
			have[a] = true
		}
	}
	// Not made by a deployed function.
	beside := map[string]string{
		"dynamodb:CreateTable": "the table is the stack's", "dynamodb:UpdateTimeToLive": "the table is the stack's",
		"dynamodb:DescribeTable": "waits for a table that was just made",
		"states:StopExecution":   "no use case stops an execution",
	}
	// A transaction is allowed by what it is made of.
	parts := map[string][]string{
		"dynamodb:TransactWriteItems": {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem"},
		"s3:HeadObject":               {"s3:GetObject"},
		"s3:ListObjectsV2":            {"s3:ListBucket"},
		"s3:DeleteObjects":            {"s3:DeleteObject"},
	}
	prefix := map[string]string{"sfn": "states", "eventbridge": "events"}
	calls := 0
	for _, pattern := range []string{"store/dynamo", "engine/sfn", "runner/fargate", "blob/s3", "seal", "seal/*", "secret/*", "bus/*", "queue/*"} {
		files, err := filepath.Glob(filepath.Join("..", "pkg", filepath.FromSlash(pattern), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range apiCall.FindAllStringSubmatch(string(src), -1) {
				calls++
				service := m[1]
				if p := prefix[service]; p != "" {
					service = p
				}
				action := service + ":" + m[2]
				if beside[action] != "" {
					continue
				}
				want := parts[action]
				if want == nil {
					want = []string{action}
				}
				for _, a := range want {
					if !have[a] {
						t.Errorf("%s asks for %s, which no function may", f, a)
					}
				}
			}
		}
	}
	if calls < 12 {
		t.Errorf("only %d requests were found in the adapters", calls)
	}
}
