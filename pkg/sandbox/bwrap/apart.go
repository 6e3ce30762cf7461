package bwrap

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

// helperID is who the helper is inside when it is somebody else than the agent: it
// has, over the sandbox and nothing outside it, the few rights that it needs to
// start the agent as the agent's user, to end it, and to hand files over.
const helperID = 0

// helperRights are those rights. They reach only what the sandbox's own user
// namespace owns.
func helperRights() []string {
	return []string{"CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE"}
}

// apart reports whether a plan's helper runs as another user than its agent
// (AG-026): the plan has one, and this machine's user may lend it an id.
func (r *Renderer) apart(p sandbox.Plan) bool {
	return r.lent > 0 && p.Helper != "" && len(p.Argv) > 0 && p.Argv[0] == sandbox.HelperPath
}

// HelperApart reports whether helpers run as another user than their agents here,
// and if not, why.
func (r *Renderer) HelperApart() (ok bool, why string) {
	if r.lent > 0 {
		return true, ""
	}
	return false, r.unlent
}

// Together makes helpers run as the agent's user from now on.
func (r *Renderer) Together(why string) { r.lent, r.unlent = 0, why }

// lend chooses the id, one of the machine's that nobody has, under which helpers
// run outside. Only root may give a user namespace more than one id; read returns
// the content of a file.
func lend(euid int, read func(string) string) (id int, why string) {
	if euid != 0 {
		return 0, "only root may run a process as somebody else"
	}
	caps := int64(0)
	for line := range strings.Lines(read("/proc/self/status")) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps = number(strings.TrimSpace(v), 16)
		}
	}
	const setIDs = 1<<6 | 1<<7 // CAP_SETGID, CAP_SETUID
	if caps&setIDs != setIDs {
		return 0, "this root has no right to change users"
	}
	users, groups := mapped(read("/proc/self/uid_map")), mapped(read("/proc/self/gid_map"))
	for _, id := range []int64{1_900_000_000, 1_000_000, 65_000} {
		in := func(r [2]int64) bool { return r[0] <= id && id < r[0]+r[1] }
		if slices.ContainsFunc(users, in) && slices.ContainsFunc(groups, in) {
			return int(id), ""
		}
	}
	return 0, "this container was given too few user ids"
}

// mapped reads the ranges of ids that a namespace has.
func mapped(text string) (ranges [][2]int64) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 {
			ranges = append(ranges, [2]int64{number(f[0], 10), number(f[2], 10)})
		}
	}
	return ranges
}

// above are the directories that lead to what a plan mounts and that nothing else
// of it shows. Bubblewrap would make them as closed as they are outside, and they
// are the helper's then.
func above(p sandbox.Plan, system, scratch []string) (dirs []string) {
	shown := slices.Clone(system)
	for _, at := range append(targets(p), sandbox.HelperPath, sandbox.SocketDir) {
		var way []string
		for d := filepath.Dir(at); d != "/" && !below(d, shown) && !slices.Contains(scratch, d); d = filepath.Dir(d) {
			way = append(way, d)
		}
		slices.Reverse(way)
		for _, d := range way {
			if !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
		shown = append(shown, at)
	}
	return dirs
}

func targets(p sandbox.Plan) (all []string) {
	for _, m := range p.Mounts {
		all = append(all, m.At())
	}
	return all
}

func below(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}
