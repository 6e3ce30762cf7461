package mcpserver

import (
	"context"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
)

// builderSegment is the path segment of a builder session.
const builderSegment = "_"

// parseSegment reads the path segment that claims who is calling: "_", or a
// task's id, short id or code. Anything else is refused by its shape alone: it is
// looked up nowhere and repeated nowhere, since it may be a secret (RP-012,
// CM-005).
func parseSegment(s string) (string, error) {
	word := strings.ToLower(s)
	switch {
	case secret(word):
		return "", refusal.Of(refusal.BadSegment, "value that looks like a secret")
	case word == builderSegment, id.IsTask(word), id.IsShort(word), id.IsCode(word):
		return word, nil
	case len(s) > 64:
		return "", refusal.Of(refusal.BadSegment, "text longer than any code")
	}
	return "", refusal.Of(refusal.BadSegment, "text with characters that no code has")
}

// secret reports whether a lower-case text begins like a credential that is in
// wide use.
func secret(s string) bool {
	if identity.LooksSecret(s) {
		return true
	}
	for _, begin := range []string{
		"bearer ", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "akia", "eyj", "-----begin",
	} {
		if strings.HasPrefix(s, begin) {
			return true
		}
	}
	return false
}

// pair compares the token with the segment as sent. Whatever task the segment
// names, only the caller's own is looked at, so the answer is the same whether
// the other exists or not (CM-002). A mismatch is never corrected (CM-003).
func (s *server) pair(ctx context.Context, who identity.Caller, segment string) error {
	switch who.Kind {
	case identity.Builder:
		if segment == builderSegment {
			return nil
		}
		return refusal.Of(refusal.IdentityMismatch, builderSegment, segment)
	case identity.Task:
		self := string(who.Task())
		if segment == self || id.IsShort(segment) && strings.HasPrefix(self, segment) {
			return nil
		}
		if id.IsCode(segment) {
			code, err := s.Turns.TaskCode(ctx, who)
			if err != nil {
				return err
			}
			if code != "" && code == segment {
				return nil
			}
		}
		return refusal.Of(refusal.IdentityMismatch, self, segment)
	default:
		return refusal.Of(refusal.WrongSurface, string(who.Kind), "/"+surface)
	}
}
