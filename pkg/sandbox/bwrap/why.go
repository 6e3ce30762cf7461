package bwrap

import "strings"

// Restriction names what of this machine keeps ordinary users from making
// namespaces, with what a person can do about it; "" when nothing is known. read
// returns the trimmed content of a file, "" for one that is not there.
func Restriction(read func(name string) string) (why, remedy string) {
	switch {
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
			"Give bwrap a profile that allows userns (Ubuntu: install apparmor-profiles and load bwrap-userns-restrict), or: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "the kernel gives ordinary users no user namespaces (kernel.unprivileged_userns_clone is 0)",
			"sysctl -w kernel.unprivileged_userns_clone=1"
	case read("/proc/sys/user/max_user_namespaces") == "0":
		return "the kernel allows no user namespaces at all (user.max_user_namespaces is 0)",
			"sysctl -w user.max_user_namespaces=15000"
	case contained(read):
		return "this is a container, and it may not make namespaces of its own",
			"Start the container with rights to nest (Docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined; Podman: --security-opt unmask=ALL), or run lazy outside it."
	}
	return "", ""
}

// contained reports whether this is a container: its first process was told so,
// or its control group or marks name an engine.
func contained(read func(string) string) bool {
	for _, name := range []string{"/run/.containerenv", "/run/systemd/container"} {
		if read(name) != "" {
			return true
		}
	}
	for _, word := range []string{"docker", "containerd", "libpod", "kubepods", "lxc"} {
		if strings.Contains(read("/proc/1/cgroup")+read("/proc/self/mountinfo"), word) {
			return true
		}
	}
	return false
}
