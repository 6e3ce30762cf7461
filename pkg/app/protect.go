package app

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/task"
)

// recheck recomputes the protected files the branch changes. An approval stays
// given; a reason stays recorded (SM-007, AA-001). Nothing is ever reverted.
func (a *App) recheck(ctx context.Context, t *task.Task) error {
	if t.Base == "" || t.Tip == t.Base {
		return nil
	}
	rules, err := a.protection(ctx, t.Tenant, t.Project)
	if err != nil {
		return err
	}
	if len(rules) == 0 {
		t.Violations = nil
		return nil
	}
	d, err := a.repo(*t).Diff(ctx, DiffQuery{Base: t.Base, Tip: t.Tip, MaxBytes: 1})
	if err != nil {
		return err
	}
	var next []task.Violation
	for _, f := range d.Files {
		if !protected(rules, f.Path) {
			continue
		}
		v := task.Violation{Path: f.Path}
		for _, old := range t.Violations {
			if old.Path == f.Path {
				v = old
			}
		}
		next = append(next, v)
	}
	t.Violations = next
	return nil
}

// protected matches a path against patterns: a directory with a trailing slash or
// /**, a glob over the whole path, or a glob over the base name when the pattern
// has no slash.
func protected(patterns []string, p string) bool {
	for _, pat := range patterns {
		if dir, ok := strings.CutSuffix(pat, "/**"); ok {
			pat = dir + "/"
		}
		if strings.HasSuffix(pat, "/") {
			if strings.HasPrefix(p, pat) {
				return true
			}
			continue
		}
		if ok, _ := path.Match(pat, p); ok {
			return true
		}
		if ok, _ := path.Match(pat, path.Base(p)); ok && !strings.Contains(pat, "/") {
			return true
		}
	}
	return false
}

// union is the violations of both lists; a path in both is taken from the first.
func union(first, more []task.Violation) []task.Violation {
	out := slices.Clone(first)
	for _, v := range more {
		if !slices.ContainsFunc(first, func(old task.Violation) bool { return old.Path == v.Path }) {
			out = append(out, v)
		}
	}
	return out
}
