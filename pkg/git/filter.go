package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// ErrFilter means that a content filter of the person's own failed, so that git
// cannot say what a file of their checkout holds, or write one.
var ErrFilter = errors.New("a filter of the checkout failed")

// FilterFailed is the code of the refusal that says so.
const FilterFailed = "filter_failed"

// filterDied is what git says, in the C locale, before it gives up on a filter
// that is required.
var filterDied = pattern.New(`(?m)^fatal: (.+): (clean|smudge) filter '?(.+?)'? failed$`)

// filtered turns the failure of a person's filter into a refusal that names the
// file, the filter and the way out. Any other error stays as it is.
func filtered(at Checkout, err error) error {
	m := filterDied.FindStringSubmatch(stderrOf(err))
	if m == nil {
		return err
	}
	e := fault.Wrap(fault.Conflict, errors.Join(ErrFilter, err),
		"the %s filter %q of your git configuration fails on %q in %s, so nothing was merged", m[2], m[3], m[1], at.Path).
		WithNext(fmt.Sprintf("Repair it (git -C %s config filter.%s.%s), or git config filter.%s.required false there; then accept again.",
			shellQuote(at.Path), m[3], m[2], m[3])).
		WithNext("Or check out another branch there: the target then moves without its files.").
		WithDetail("file", m[1]).WithDetail("filter", m[3])
	e.Code = FilterFailed
	return e
}

// rehearse writes the files that a landing would write, and that a required
// filter has a say in, to a directory of its own: a filter that fails when half of
// the checkout is written could not be taken back.
func (l *lander) rehearse(ctx context.Context, p *private, states []pathState) error {
	r := l.repo
	out, err := r.person(ctx, l.at, "", nil, "config", "--get-regexp", `^filter\..*\.(smudge|process)$`)
	if err != nil && exitCode(err) != 1 {
		return fmt.Errorf("read filters: %w", err)
	}
	if len(out) == 0 {
		return nil
	}
	var paths, ask bytes.Buffer
	for _, s := range states {
		if s.New.Mode != 0 && s.New.Mode != modeLink && s.New.Mode != modeRepo && s.Work != s.New {
			paths.WriteString(s.Path + "\x00")
		}
	}
	if paths.Len() == 0 {
		return nil
	}
	index := filepath.Join(p.dir, "rehearsal")
	at := Checkout{Path: filepath.Join(p.dir, "rehearsed"), GitDir: l.at.GitDir}
	if err := os.Mkdir(at.Path, 0o700); err != nil {
		return fmt.Errorf("rehearse landing: %w", err)
	}
	if _, err := r.person(ctx, at, index, nil, "read-tree", l.rec.Commit); err != nil {
		return fmt.Errorf("rehearse landing: %w", err)
	}
	said, err := r.person(ctx, at, index, &paths, "check-attr", "--cached", "-z", "--stdin", "filter")
	if err != nil {
		return fmt.Errorf("rehearse landing: %w", err)
	}
	for rec := splitZ(said); len(rec) >= 3; rec = rec[3:] {
		if v := rec[2]; v != "unspecified" && v != "unset" && v != "set" {
			ask.WriteString(rec[0] + "\x00")
		}
	}
	if ask.Len() == 0 {
		return nil
	}
	if _, err := r.person(ctx, at, index, &ask, "checkout-index", "-q", "-z", "--stdin"); err != nil {
		// The text names the rehearsal; the person knows the checkout.
		return filtered(l.at, err)
	}
	return nil
}

// half marks an error that came when files were being written. It is no refusal
// any more: the landing is finished by landing again.
func half(err error) error {
	if !errors.Is(err, ErrFilter) {
		return errors.Join(err, errHalf)
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(err.Error()), errHalf)
}
