package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/telemetry"
)

// canaries are secrets of every kind that the product or its agents hold.
func canaries() map[string]string {
	return map[string]string{
		"owner token":  "lzy_owner_local_c4n4ryc4n4ryc4n4ry_ab12",
		"runner token": "lzy_runner_acme_c4n4ryc4n4ryc4n4ry_cd34",
		"nonce":        "lzn_acme_c4n4ryc4n4ryc4n4ry",
		"model key":    "sk-ant-api03-c4n4ryc4n4ryc4n4ry",
		"forge token":  "ghp_c4n4ryc4n4ryc4n4ryc4n4ry0000",
		"new token":    "github_pat_11C4N4RYC4N4RY_c4n4ry",
		"gitlab token": "glpat-c4n4ry-c4n4ry-c4n4ry",
		"aws id":       "AKIAC4N4RYC4N4RYC4N4",
		"header":       "Bearer c4n4ry.c4n4ry.c4n4ry-c4n4ry",
		"basic":        "basic YzRuNHJ5OmM0bjRyeQ==c4n4ry",
		"link":         "https://b.s3.amazonaws.com/k?X-Amz-Signature=c4n4ryc4n4ry&X-Amz-Expires=60",
		"private key":  "-----BEGIN RSA PRIVATE KEY-----\nc4n4ryc4n4ry\n-----END RSA PRIVATE KEY-----",
	}
}

func TestNoCanaryGetsIntoALine(t *testing.T) {
	req.Covers(t, "P8")
	for name, secret := range canaries() {
		var b bytes.Buffer
		log := telemetry.New(&b, telemetry.Options{Stage: "prod"})
		ctx := telemetry.Begin(t.Context())
		telemetry.Note(ctx, telemetry.KeyTask, secret)
		err := fmt.Errorf("dial with %s: %w", secret, errors.New("refused "+secret))
		log.ErrorContext(ctx, "it failed with "+secret,
			"text", "before "+secret+" after", "error", err, "bytes", []byte(secret), "list", []string{"a", secret},
			"map", map[string]string{"k": secret}, "struct", struct{ Key string }{secret}, "json", json.RawMessage(fmt.Sprintf("%q", secret)),
			slog.Group("group", "inner", secret), names.AttrMetric, names.MetricNonce)
		log.With("bound", secret).WithGroup("g").InfoContext(ctx, "more", "text", secret)
		out := b.String()
		if strings.Contains(strings.ToLower(out), "c4n4ry") {
			t.Errorf("%s got out:\n%s", name, out)
		}
		for line := range strings.Lines(out) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s broke a line: %s", name, line)
			}
		}
		if !strings.Contains(out, "before") {
			t.Errorf("%s took its neighbours along:\n%s", name, out)
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, s := range []string{
		"", "task 3f2a9c1e", "the basic rules", "bearer", "a/b/sk-1", "lazy_commit", "lzy_", "no such object: blobs/acme/0198f3c0-7c2d-7e65",
		"step prepare.v1: the flow engine does not answer",
	} {
		if got := telemetry.Scrub(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func lineOf(t *testing.T, b *bytes.Buffer) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	b.Reset()
	return m
}

func TestALineSaysWhoAndWhatItIsAbout(t *testing.T) {
	var b bytes.Buffer
	log := telemetry.New(&b, telemetry.Options{Function: "rpc"})
	ctx := telemetry.Begin(t.Context())
	telemetry.Note(ctx, telemetry.KeyRequest, "r1", telemetry.KeyTenant, "acme", telemetry.KeyTask, "")
	inner := telemetry.Begin(ctx)
	telemetry.Note(inner, telemetry.KeyTask, "t1", telemetry.KeyTurn, "u1")
	log.InfoContext(inner, "done", "took", time.Second)
	m := lineOf(t, &b)
	for k, want := range map[string]any{"function": "rpc", "request": "r1", "tenant": "acme", "task": "t1", "turn": "u1", "msg": "done"} {
		if m[k] != want {
			t.Errorf("%s is %v, want %v", k, m[k], want)
		}
	}
	// What was learnt inside stays there, and what a line says itself wins.
	log.InfoContext(ctx, "outside", "tenant", "other")
	if m = lineOf(t, &b); m["task"] != nil || m["tenant"] != "other" {
		t.Errorf("got %v", m)
	}
	telemetry.Note(t.Context(), telemetry.KeyTask, "nowhere")
	log.Info("no context")
	if m = lineOf(t, &b); m["task"] != nil {
		t.Errorf("got %v", m)
	}
}

func TestAMetricIsALineThatCloudWatchCounts(t *testing.T) {
	var b bytes.Buffer
	log := telemetry.New(&b, telemetry.Options{Stage: "prod"})
	log.Warn("the sweep did what an event should have done", names.AttrMetric, names.MetricSweepRepair, names.AttrCount, 3)
	var m struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
		Stage        string `json:"stage"`
		SweepRepairs int
	}
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	d := m.AWS.CloudWatchMetrics
	if len(d) != 1 || d[0].Namespace != names.MetricNamespace || d[0].Metrics[0].Name != names.MetricSweepRepair || d[0].Dimensions[0][0] != "stage" {
		t.Errorf("CloudWatch is told %+v", m.AWS)
	}
	if m.SweepRepairs != 3 || m.Stage != "prod" || m.AWS.Timestamp == 0 {
		t.Errorf("got %+v", m)
	}
	b.Reset()
	// On a laptop nobody counts.
	telemetry.New(&b, telemetry.Options{}).Warn("x", names.AttrMetric, names.MetricBreaker)
	if strings.Contains(b.String(), "_aws") {
		t.Errorf("got %s", b.String())
	}
}
