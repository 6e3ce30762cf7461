package bwrap_test

import (
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/sandbox/bwrap"
)

func TestAMachineWithoutNamespacesSaysWhatTakesThemAway(t *testing.T) {
	req.Covers(t, "AG-028")
	for name, c := range map[string]struct {
		files       map[string]string
		why, remedy string
	}{
		"apparmor":         {map[string]string{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, "AppArmor", "profile"},
		"debian's switch":  {map[string]string{"/proc/sys/kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone is 0", "unprivileged_userns_clone=1"},
		"none allowed":     {map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "max_user_namespaces is 0", "max_user_namespaces=15000"},
		"inside docker":    {map[string]string{"/proc/self/mountinfo": "overlay / rw,lowerdir=/var/lib/docker/x"}, "a container", "nest"},
		"inside podman":    {map[string]string{"/run/.containerenv": "engine=podman"}, "a container", "nest"},
		"nothing is known": {map[string]string{"/proc/sys/user/max_user_namespaces": "15000", "/proc/sys/kernel/unprivileged_userns_clone": "1"}, "", ""},
	} {
		why, remedy := bwrap.Restriction(func(f string) string { return c.files[f] })
		if !strings.Contains(why, c.why) || !strings.Contains(remedy, c.remedy) || (c.why == "") != (why == "") {
			t.Errorf("%s: %q, %q", name, why, remedy)
		}
	}
}
