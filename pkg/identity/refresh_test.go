package identity_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/identity"
)

func TestARefreshTokenReadsBackAndNothingElseDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := identity.Refresh{
			Tenant: rapid.StringMatching(`[A-Za-z0-9-]{1,64}`).Draw(t, "tenant"),
			Family: rapid.StringMatching(`[0-9a-f]{48}`).Draw(t, "family"),
			Gen:    rapid.Int64Range(1, 1<<40).Draw(t, "gen"),
		}
		text := identity.RefreshText([]byte("key"), r, "salt")
		got, err := identity.ParseRefresh(text)
		if err != nil || got != r {
			t.Fatalf("%q reads %+v, %v", text, got, err)
		}
		if !identity.LooksSecret(text) {
			t.Fatalf("%q does not look secret", text)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.StringMatching(`[a-z0-9]`).Draw(t, "with")
		if text[at:at+1] == with {
			return
		}
		if _, err := identity.ParseRefresh(text[:at] + with + text[at+1:]); err == nil {
			t.Fatalf("%q with another letter at %d is a token", text, at)
		}
	})
	for _, s := range []string{"", "lzr_", "lzy_user_a_b_c", "lzr_a_b-1_" + strings.Repeat("0", 64) + "_0"} {
		if _, err := identity.ParseRefresh(s); err == nil {
			t.Errorf("%q is a refresh token", s)
		}
	}
}

func TestARefreshTokenIsOfItsGenerationSaltAndKey(t *testing.T) {
	r := identity.Refresh{Tenant: "acme", Family: strings.Repeat("ab", 24), Gen: 1}
	seen := map[string]bool{}
	for _, c := range []struct {
		key, salt string
		gen       int64
	}{{"k", "s", 1}, {"k", "s", 2}, {"k", "t", 1}, {"l", "s", 1}} {
		r.Gen = c.gen
		seen[identity.RefreshText([]byte(c.key), r, c.salt)] = true
	}
	if len(seen) != 4 {
		t.Errorf("four different tokens have %d texts", len(seen))
	}
}
