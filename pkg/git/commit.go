package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

func (p Person) check() error {
	clean := func(s string) string { return strings.Trim(s, " .,:;<>\"\\'\n\t") }
	if clean(p.Name) == "" || clean(p.Email) == "" || strings.ContainsAny(p.Name+p.Email, "\n\x00<>") {
		return fault.New(fault.Invalid, "%q <%q> cannot be the author of a commit", p.Name, p.Email).
			WithNext("Set one: git config user.name and user.email.")
	}
	return nil
}

type runner func(ctx context.Context, in io.Reader, args ...string) ([]byte, error)

// commitTree makes a commit object; equal arguments make the same one.
func (p *private) commitTree(ctx context.Context, run runner, tree string, parents []string, message string, who Person, when time.Time) (string, error) {
	if err := shas(append([]string{tree}, parents...)...); err != nil {
		return "", err
	}
	date := fmt.Sprintf("@%d +0000", when.Unix())
	saved := p.env
	p.env = append(append([]string(nil), saved...),
		"GIT_AUTHOR_NAME="+who.Name, "GIT_AUTHOR_EMAIL="+who.Email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+who.Name, "GIT_COMMITTER_EMAIL="+who.Email, "GIT_COMMITTER_DATE="+date)
	defer func() { p.env = saved }()
	args := []string{"commit-tree", "--no-gpg-sign"}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	if !strings.HasSuffix(message, "\n") {
		message += "\n"
	}
	out, err := run(ctx, strings.NewReader(message), append(args, "-F", "-", tree)...)
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// importTo copies a commit and what it needs beyond the known commits into the
// shared store. The pack is hashed and checked again there (GT-026), so a wrong
// object cannot enter under a known id.
func (p *private) importTo(ctx context.Context, commit string, known []string) error {
	p.r.crash("git.objects.before")
	var revs strings.Builder
	fmt.Fprintln(&revs, commit)
	for _, k := range known {
		fmt.Fprintf(&revs, "^%s\n", k)
	}
	read, write := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := p.r.git.stream(ctx, p.invocation(strings.NewReader(revs.String()),
			[]string{"pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"}), write)
		packed <- errors.Join(err, write.CloseWithError(err))
	}()
	out, err := p.runShared(ctx, read, "index-pack", "--stdin", "--strict", "--fix-thin")
	// Without a reader the packing side would wait for ever.
	if err := errors.Join(err, read.Close(), <-packed); err != nil {
		if _, why, ok := strings.Cut(stderrOf(err), "error: object "); ok {
			why, _, _ = strings.Cut(why, "\n")
			return fault.Wrap(fault.Invalid, errors.Join(ErrBadObject, err), "the commit is refused, because git does not accept its object %q", why).
				WithNext("Remove what it names, commit again.")
		}
		return fmt.Errorf("import %s: %w", short(commit), err)
	}
	if !bytes.HasPrefix(out, []byte("pack\t")) && !bytes.HasPrefix(out, []byte("keep\t")) {
		return fmt.Errorf("import %s: git answered %q", short(commit), out)
	}
	p.r.crash("git.objects.after")
	return nil
}
