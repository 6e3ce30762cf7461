package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/pattern"
)

// Text derives the secret of a token from the key and the identity, so that
// minting again gives the same secret although only its hash is stored (ID-006).
// The form is lzy_<kind>_<tenant>_<derived>_<checksum> (WF-22).
func Text(key []byte, t Token) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{
		string(t.Kind), t.Tenant, t.Project, t.Subject, t.Salt,
		string(t.Turn), strconv.FormatInt(t.Epoch, 10),
	} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	body := "lzy_" + string(t.Kind) + "_" + t.Tenant + "_" + hex.EncodeToString(mac.Sum(nil))
	return body + "_" + checksum(body)
}

// Hash returns the key under which a token's text is looked up.
func Hash(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// tenantShape is what may stand for a tenant in a token. Anybody can compute a
// checksum, so what Parse lets through must be fit to build a key from.
var tenantShape = pattern.New(`^[A-Za-z0-9-]{1,64}$`)

// Parse checks the form and checksum of a token and returns its kind and tenant
// as written. Neither proves anything: the stored row decides.
func Parse(text string) (Kind, string, error) {
	bad := fault.New(fault.Unauthenticated, "that is not a token")
	parts := strings.Split(text, "_")
	if len(parts) != 5 || parts[0] != "lzy" || !tenantShape.MatchString(parts[2]) || len(parts[3]) != 64 {
		return "", "", bad
	}
	cut := strings.LastIndexByte(text, '_')
	if checksum(text[:cut]) != parts[4] {
		return "", "", bad
	}
	for _, k := range Kinds() {
		if string(k) == parts[1] {
			return k, parts[2], nil
		}
	}
	return "", "", bad
}

// LooksSecret reports whether s has the shape of a token, whole or cut.
func LooksSecret(s string) bool { return strings.HasPrefix(s, "lzy_") || strings.HasPrefix(s, "lzr_") }

func checksum(s string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(s))), 16)
}
