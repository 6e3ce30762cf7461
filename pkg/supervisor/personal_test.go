package supervisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// A person's own configuration of an agent CLI stays outside; the turn has one of
// its own.
func TestNothingOfAPersonsOwnConfigurationReachesARun(t *testing.T) {
	req.Covers(t, "BL-008")
	home := t.TempDir()
	t.Setenv("HOME", home)
	const canary = "canary-of-a-personal-configuration"
	for _, name := range []string{".claude.json", ".claude/settings.json", ".codex/auth.json", ".config/opencode/opencode.json"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(home, name), []byte(canary), 0o600))
	}
	half := canary[:20]
	r := newRig(t, `half=`+half+`; find / \( -path /proc -o -path /sys -o -path /dev -o -path /usr \) -prune -o -type f -size -2000k -exec grep -l "$half-configuration" {} + > found 2>/dev/null
		ls "`+home+`" > home 2>&1; cat "$LAZY_MCP_CONFIG" > conf; echo ok`)
	planted := filepath.Join(r.ws.Tree, "planted.txt") // or the search itself could be at fault
	must(t, os.WriteFile(planted, []byte(canary), 0o600))
	equal(t, "outcome", r.run().Outcome, "ok")
	equal(t, "files with the canary", r.file("found"), planted+"\n")
	if r.file("home") == "" || strings.Contains(r.file("home"), ".claude") {
		t.Errorf("the person's home shows %q", r.file("home"))
	}
	if !strings.Contains(r.file("conf"), "lazy-agent") {
		t.Errorf("the turn's own configuration is %q", r.file("conf"))
	}
}
