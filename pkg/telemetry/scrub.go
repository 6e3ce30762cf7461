package telemetry

import (
	"regexp"
	"sync"
)

// credential is what a secret of ours or of a service that agents use looks like.
// Nothing logs one on purpose; this is for the error of a library that quotes what
// it was given. Most processes log nothing, and it takes long to compile.
var credential = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`lz[yn]_[A-Za-z0-9_\-]{8,}` + // tokens and nonces of the product
			`|sk-[A-Za-z0-9_\-]{16,}` + // model services
			`|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_\-]{16,}` + // forges
			`|A[KS]IA[A-Z0-9]{16}` + // AWS
			`|(?i:bearer|basic)\s+[A-Za-z0-9._~+/=\-]{12,}` +
			`|X-Amz-(?:Signature|Security-Token|Credential)=[^&\s"]+` + // links that carry their right
			`|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`,
	)
})

// gone stands where a credential was.
const gone = "[secret]"

// Scrub replaces what looks like a credential.
func Scrub(s string) string {
	if len(s) < 12 {
		return s
	}
	return credential().ReplaceAllString(s, gone)
}
