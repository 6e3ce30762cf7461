package model

import (
	"cmp"
	"slices"
	"strings"
)

// Others stands for all models beyond those that a record has room for.
const Others = "others"

// Merge adds usage up per model and credential, the largest first. At most most
// entries are kept apart; the rest is added up as Others. Counts below zero are
// taken for none.
func Merge(most int, all ...[]Usage) []Usage {
	var out []Usage
	for _, list := range all {
		for _, u := range list {
			u.Requests, u.Input, u.Output = max(u.Requests, 0), max(u.Input, 0), max(u.Output, 0)
			u.CacheRead, u.CacheWrite = max(u.CacheRead, 0), max(u.CacheWrite, 0)
			if u.Requests == 0 && u.Tokens() == 0 {
				continue
			}
			u.Model, u.Credential = short(u.Model), short(u.Credential)
			i := slices.IndexFunc(out, func(h Usage) bool { return h.Model == u.Model && h.Credential == u.Credential })
			if i < 0 {
				out = append(out, u)
				continue
			}
			out[i] = out[i].Add(u)
		}
	}
	slices.SortStableFunc(out, func(a, b Usage) int {
		return cmp.Or(
			cmp.Compare(btoi(a.Model == Others), btoi(b.Model == Others)), cmp.Compare(b.Tokens(), a.Tokens()),
			strings.Compare(a.Model, b.Model), strings.Compare(a.Credential, b.Credential),
		)
	})
	if len(out) > most {
		rest := Usage{Model: Others}
		for _, u := range out[most-1:] {
			rest = rest.Add(u)
		}
		out = append(out[:most-1:most-1], rest)
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// nameMost bounds a model's or credential's name in a record.
const nameMost = 100

func short(s string) string { return s[:min(len(s), nameMost)] }

// Less takes from what a run spent the part that was counted before.
func Less(all, before []Usage) []Usage {
	out := slices.Clone(all)
	for i, u := range out {
		j := slices.IndexFunc(before, func(b Usage) bool { return b.Model == u.Model && b.Credential == u.Credential })
		if j < 0 {
			continue
		}
		b := before[j]
		out[i].Requests -= b.Requests
		out[i].Input -= b.Input
		out[i].Output -= b.Output
		out[i].CacheRead -= b.CacheRead
		out[i].CacheWrite -= b.CacheWrite
	}
	return Merge(max(len(out), 1), out)
}

// ByModel adds usage up per model, without the credentials it was spent under.
func ByModel(all ...[]Usage) []Usage {
	var bare []Usage
	for _, list := range all {
		for _, u := range list {
			u.Credential = ""
			bare = append(bare, u)
		}
	}
	return Merge(max(len(bare), 1), bare)
}

// Total is all tokens of a list.
func Total(list []Usage) (n int64) {
	for _, u := range list {
		n += u.Tokens()
	}
	return n
}
