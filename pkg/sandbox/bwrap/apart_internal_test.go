package bwrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

const (
	allRights = "Name:\tx\nCapEff:\t000001ffffffffff\n"
	allIDs    = "         0          0 4294967295\n"
)

func TestAnIdIsLentToHelpersWhereRootMayAndElseItIsSaidWhyNot(t *testing.T) {
	req.Covers(t, "AG-026")
	for name, c := range map[string]struct {
		euid             int
		status, uid, gid string
		want             int
		why              string
	}{
		"root":               {0, allRights, allIDs, allIDs, 1_900_000_000, ""},
		"a person":           {1000, allRights, allIDs, allIDs, 0, "only root"},
		"a container's root": {0, allRights, "0 100000 65536\n", "0 100000 65536\n", 65_000, ""},
		"one id only":        {0, allRights, "0 1000 1\n", "0 1000 1\n", 0, "too few"},
		"groups missing":     {0, allRights, allIDs, "0 1000 1\n", 0, "too few"},
		"rights dropped":     {0, "CapEff:\t0000000000000000\n", allIDs, allIDs, 0, "no right"},
		"nothing known":      {0, "", "", "", 0, "no right"},
	} {
		id, why := lend(c.euid, func(f string) string {
			return map[string]string{"/proc/self/status": c.status, "/proc/self/uid_map": c.uid, "/proc/self/gid_map": c.gid}[f]
		})
		if id != c.want || !strings.Contains(why, c.why) || (why == "") != (c.want > 0) {
			t.Errorf("%s: lent %d, %q", name, id, why)
		}
	}
}

func TestOnlyPlansWithAHelperAreTakenApart(t *testing.T) {
	r := &Renderer{path: "bwrap", noUsers: true, lent: 7}
	p := sandbox.Plan{Argv: []string{sandbox.HelperPath, "exec"}, Dir: "/w", Helper: "/l", Mounts: []sandbox.Mount{
		{Source: "/a/b/tree", RW: true}, {Source: "/a/b/tree/.git"}, {Source: "/tmp/x/y", RW: true},
	}}
	with := strings.Join(r.args(p), " ")
	for _, want := range []string{"--unshare-pid --unshare-net", "--cap-drop ALL --cap-add CAP_SETUID", "--perms 0755 --dir /a --perms 0755 --dir /a/b ", "--dir /tmp/x ", "--dir /lazy "} {
		if !strings.Contains(with, want) {
			t.Errorf("%q is not in %s", want, with)
		}
	}
	if strings.Contains(with, "--dir /a/b/tree") || strings.Contains(with, "--dir /tmp ") || strings.Contains(with, "--disable-userns") {
		t.Errorf("args: %s", with)
	}
	if r.View(p).Agent != agentID {
		t.Error("the helper is not told whom to start")
	}
	p.Argv = []string{"sh"}
	if without := r.args(p); slices.Contains(without, "CAP_SETUID") || !slices.Contains(without, "--unshare-user") {
		t.Errorf("a plan without helper: %v", without)
	}
}

// Where another user for the helper does not work after all, there is a sandbox
// without one, and it is said why.
func TestAHelperOfItsOwnUserThatDoesNotWorkIsGivenUpAndSaidSo(t *testing.T) {
	req.Covers(t, "AG-026", "AG-028")
	broken := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'bwrap: no such luck' >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := &Renderer{path: broken, lent: 1_900_000_000, read: func(string) string { return "" }}
	p := sandbox.Plan{Argv: []string{sandbox.HelperPath}, Dir: "/w", Helper: "/l"}
	if r.View(p).Agent != agentID {
		t.Error("before it was tried, it is not tried")
	}
	if err := r.probeApart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ok, why := r.HelperApart(); ok || !strings.Contains(why, "it was tried: ") || len(why) < 20 {
		t.Errorf("after it was tried: %t, %q", ok, why)
	}
	if r.View(p).Agent != 0 || r.apart(p) {
		t.Error("it is tried again")
	}
}

// The reasons why there is no sandbox, each at the seam where it shows: a bubblewrap
// that cannot make one, on a machine that says why.
func TestAProbeThatFailsSaysWhatTakesTheSandboxAwayAndWhatToDo(t *testing.T) {
	req.Covers(t, "AG-028", "CM-034")
	dir := t.TempDir()
	broken := filepath.Join(dir, "bwrap")
	script := "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
	if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files        map[string]string
		want, remedy string
	}{
		"apparmor":         {map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor restricts user namespaces", "profile"},
		"no namespaces":    {map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "no user namespaces at all", "sysctl"},
		"nested container": {map[string]string{"/run/.containerenv": "engine=podman"}, "this is a container", "nest"},
		"unknown":          {nil, "setting up uid map: Permission denied", "host-process"},
	} {
		r := &Renderer{path: broken, read: func(f string) string { return c.files[f] }}
		err := r.Probe(t.Context())
		f := fault.Of(err)
		if f.Kind != fault.Unavailable || !strings.Contains(f.Public, c.want) || len(f.Next) == 0 || !strings.Contains(f.Next[0].Text, c.remedy) {
			t.Errorf("%s: %v, next %v", name, err, f.Next)
		}
		if last := f.Next[len(f.Next)-1].Text; last != sandbox.HostProcess {
			t.Errorf("%s: the last advice is %q", name, last)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context()); fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.Of(err).Public, "not installed") || !strings.Contains(fault.Of(err).Next[0].Text, "Install it") {
		t.Errorf("without bubblewrap: %v", err)
	}
}
