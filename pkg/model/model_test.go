package model_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/model"
)

func TestUsageAddsUpPerModelAndKeepsARecordSmall(t *testing.T) {
	a := []model.Usage{{Model: "a", Credential: "x", Requests: 1, Input: 10, Output: 1}, {Model: "b", Credential: "x", Requests: 2, CacheRead: 50}}
	b := []model.Usage{{Model: "a", Credential: "x", Requests: 1, Input: 5, CacheWrite: 2}, {Model: "a", Credential: "y", Requests: 1, Output: -9, Input: 1}, {Model: "none"}}
	want := []model.Usage{
		{Model: "b", Credential: "x", Requests: 2, CacheRead: 50},
		{Model: "a", Credential: "x", Requests: 2, Input: 15, Output: 1, CacheWrite: 2},
		{Model: "a", Credential: "y", Requests: 1, Input: 1},
	}
	if d := cmp.Diff(want, model.Merge(10, a, b)); d != "" {
		t.Error(d)
	}
	want = []model.Usage{want[0], {Model: model.Others, Requests: 3, Input: 16, Output: 1, CacheWrite: 2}}
	got := model.Merge(2, a, b)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, model.Merge(2, got)); d != "" {
		t.Error("a second time:", d)
	}
	if d := cmp.Diff([]model.Usage{{Model: "a", Credential: "x", Requests: 1, Input: 5, CacheWrite: 2}}, model.Less(model.Merge(9, a, b)[1:2], a)); d != "" {
		t.Error("less:", d)
	}
	by := model.ByModel(a, b)
	if len(by) != 2 || by[1].Input != 16 || by[0].Credential+by[1].Credential != "" {
		t.Errorf("by model: %+v", by)
	}
}

func TestAReadingTellsTheWindowsOfAPlan(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := model.Reading{Credential: "c", At: now, Headers: map[string]string{
		"anthropic-ratelimit-unified-5h-utilization":      "0.97",
		"Anthropic-Ratelimit-Unified-5h-Reset":            fmt.Sprint(now.Add(time.Hour).Unix()),
		"anthropic-ratelimit-unified-5h-status":           "allowed_warning",
		"anthropic-ratelimit-unified-7d-utilization":      "0.2",
		"anthropic-ratelimit-unified-7d-reset":            now.Add(72 * time.Hour).Format(time.RFC3339),
		"anthropic-ratelimit-unified-overage-status":      "allowed",
		"anthropic-ratelimit-unified-overage-utilization": "1",
		"anthropic-ratelimit-unified-odd-utilization":     "NaN",
		"anthropic-ratelimit-tokens-remaining":            "0",
		"x-ratelimit-remaining-requests":                  "0",
	}}
	want := []model.Window{
		{Name: "5h", Percent: 97, Resets: now.Add(time.Hour), Status: "allowed_warning"},
		{Name: "7d", Percent: 20, Resets: now.Add(72 * time.Hour)},
	}
	if d := cmp.Diff(want, r.Windows()); d != "" || r.Overage() != "allowed" {
		t.Error(d, r.Overage())
	}
	for _, c := range []struct {
		percent float64
		now     time.Time
		want    string
	}{{97, now, "5h"}, {98, now, ""}, {20, now, "7d"}, {90, now.Add(time.Hour), ""}, {0, now, "7d"}} {
		if w, ok := r.Full(c.percent, c.now); w.Name != c.want || ok != (c.want != "") {
			t.Errorf("at %v percent: %+v, %v, want %q", c.percent, w, ok, c.want)
		}
	}
	if w, ok := (model.Reading{}).Full(0, now); ok {
		t.Errorf("an empty reading has %+v", w)
	}
}

func TestAccessPrintsNoSecret(t *testing.T) {
	a := model.Access{Provider: "claude", Upstream: "https://x", Credential: "mine", Secret: "canary"}
	for _, s := range []string{fmt.Sprint(a), fmt.Sprintf("%v %+v %#v %s", a, a, a, &a), a.LogValue().String()} {
		if strings.Contains(s, "canary") || !strings.Contains(s, "mine") {
			t.Errorf("printed as %s", s)
		}
	}
}
