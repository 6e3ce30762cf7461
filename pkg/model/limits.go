package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Window is how much of a service's allowance over some time is used up.
type Window struct {
	Name    string    `json:"name" jsonschema:"the service's own name of the window, for example 5h"`
	Percent float64   `json:"percent" jsonschema:"how much of it is used"`
	Resets  time.Time `json:"resets_at,omitzero" jsonschema:"when it begins anew"`
	// Status is the service's own verdict, where it gives one.
	Status string `json:"status,omitempty" jsonschema:"the service's own verdict on it"`
}

const unified = "anthropic-ratelimit-unified-"

// Windows reads the windows whose end leads to paid overage or a long wait: those
// of a subscription plan. Limits per minute, which every key has, are none.
func (r Reading) Windows() []Window {
	var out []Window
	for name, value := range r.Headers {
		w, ok := strings.CutPrefix(strings.ToLower(name), unified)
		if !ok {
			continue
		}
		w, ok = strings.CutSuffix(w, "-utilization")
		if !ok || w == "" || strings.HasPrefix(w, "overage") {
			continue
		}
		part, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(part) || math.IsInf(part, 0) || part < 0 {
			continue
		}
		out = append(out, Window{
			Name: w, Percent: part * 100, Resets: r.when(unified + w + "-reset"), Status: r.header(unified + w + "-status"),
		})
	}
	slices.SortFunc(out, func(a, b Window) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Overage says whether the service serves the credential beyond its allowance,
// and charges for that; "" where it says nothing.
func (r Reading) Overage() string { return r.header(unified + "overage-status") }

// Full is the last of the windows at or over percent that have not begun anew
// since; false when there is none.
func (r Reading) Full(percent float64, now time.Time) (Window, bool) {
	var last Window
	found := false
	for _, w := range r.Windows() {
		if w.Percent < percent || !w.Resets.After(now) {
			continue
		}
		if !found || w.Resets.After(last.Resets) {
			last, found = w, true
		}
	}
	return last, found
}

func (r Reading) header(name string) string {
	for k, v := range r.Headers {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

// when reads a time: seconds of the epoch, or RFC 3339.
func (r Reading) when(name string) time.Time {
	v := strings.TrimSpace(r.header(name))
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 && n < 1<<40 {
		return time.Unix(n, 0).UTC()
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
