package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Refresh is what a refresh token stands for: one generation of a sign-in. It is
// derived like every other token and is no credential on any surface; all it does
// is be exchanged, once, for the next generation (LG-014).
type Refresh struct {
	Tenant string
	Family string // of the sign-in; 48 hexadecimal digits
	Gen    int64
}

// familyShape is what a sign-in's id looks like.
var familyShape = pattern.New(`^[0-9a-f]{48}$`)

// RefreshText derives the secret of a refresh token from the key and the salt of
// its sign-in. The form is lzr_<tenant>_<family>-<generation>_<derived>_<checksum>.
func RefreshText(key []byte, r Refresh, salt string) string {
	gen := strconv.FormatInt(r.Gen, 10)
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"refresh", r.Tenant, r.Family, gen, salt} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	body := "lzr_" + r.Tenant + "_" + r.Family + "-" + gen + "_" + hex.EncodeToString(mac.Sum(nil))
	return body + "_" + checksum(body)
}

// ParseRefresh reads what a refresh token says of itself. It proves nothing: the
// text must be derived again and compared.
func ParseRefresh(text string) (Refresh, error) {
	bad := fault.New(fault.Unauthenticated, "that is not a refresh token")
	parts := strings.Split(text, "_")
	if len(parts) != 5 || parts[0] != "lzr" || !tenantShape.MatchString(parts[1]) || len(parts[3]) != 64 {
		return Refresh{}, bad
	}
	if checksum(text[:strings.LastIndexByte(text, '_')]) != parts[4] {
		return Refresh{}, bad
	}
	family, number, ok := strings.Cut(parts[2], "-")
	gen, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || gen < 1 || strconv.FormatInt(gen, 10) != number || !familyShape.MatchString(family) {
		return Refresh{}, bad
	}
	return Refresh{Tenant: parts[1], Family: family, Gen: gen}, nil
}
