//go:build linux

package hostile

import (
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
)

// victim is the agent of a task whose first turn ends and whose second goes on
// until it is told.
const victim = `n=$(cat turns.log 2>/dev/null || echo 0); n=$((n + 1)); echo $n >turns.log
[ $n = 1 ] && { lazy-agent call lazy_final '{"note":"first"}'; exit 0; }
touch running.log; while [ ! -e enough.log ]; do sleep 0.05; done
`

// bystander is the agent of the task that is only named.
const bystander = `lazy-agent call lazy_final '{"note":"nothing to do"}'
`

func coversOf(t *testing.T, e entry) { req.Script(t, e.file) }

// edges attacks the control plane's own surfaces, with whatever credentials an
// attacker could have come by: those of an ended run, of another task, a nonce
// that was used.
func (l *lab) edges(t *testing.T, group []entry, n *tally) {
	var all []entry
	for _, e := range group {
		if e.on == "edge" {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return
	}
	t.Run("edge", func(t *testing.T) {
		old, _ := l.task(t, "victim", "be attacked", "")
		other, _ := l.task(t, "bystander", "be named", "")
		_ = other
		if out, err := l.place.sh(t.Context(), `lazy unblock victim -m "go on"`); err != nil {
			t.Fatalf("unblock: %v: %s", err, out)
		}
		now, r := l.look(t, "victim")
		if out, err := now.sh(t.Context(), `for i in $(seq 400); do test -e "$TREE/running.log" && exit 0; sleep 0.05; done; exit 1`); err != nil {
			t.Fatalf("the victim does not run: %v: %s", err, out)
		}
		second := l.paths.Run(r.Short, 2)
		var tok spool.Token
		var start spool.Start
		for end := time.Now().Add(20 * time.Second); ; {
			ok1, _ := spool.Read(second, spool.TokenFile, &tok)
			ok2, _ := spool.Read(second, spool.StartFile, &start)
			if ok1 && ok2 || time.Now().After(end) {
				break
			}
		}
		l.know("a runner token", tok.Runner)
		l.know("a task token", tok.Task)
		l.know("a start nonce", start.Nonce)
		vars := map[string]string{}
		for _, kv := range other.env {
			k, v, _ := strings.Cut(kv, "=")
			vars[k] = v
		}
		oldVars := map[string]string{}
		for _, kv := range old.env {
			k, v, _ := strings.Cut(kv, "=")
			oldVars[k] = v
		}
		p := now.with("OLD_RUNNER="+oldVars["RUNNER_TOKEN"], "OLD_TURN="+oldVars["TURN"], "OLD_NONCE="+oldVars["NONCE"],
			"RUNNER_TOKEN="+tok.Runner, "TASK_TOKEN="+tok.Task, "NONCE="+start.Nonce, "TURN="+string(start.Turn),
			"OTHER="+vars["ID"], "OTHER_TOKEN="+vars["TASK_TOKEN"], "OTHER_RUNNER="+vars["RUNNER_TOKEN"])
		for _, e := range all {
			t.Run(e.name, func(t *testing.T) {
				coversOf(t, e)
				q := p.with("OUT=" + t.TempDir() + "/out")
				before, _ := q.sh(t.Context(), `lazy show victim --json; lazy show bystander --json`)
				out, err := q.sh(t.Context(), e.files["attack.sh"])
				q = q.with("SAID=" + out)
				if err == nil {
					t.Errorf("the attack was not refused: %s", clip(out))
				}
				q.check(t, "after the attack", e.mustNot, false)
				if after, _ := q.sh(t.Context(), `lazy show victim --json; lazy show bystander --json`); after != before {
					t.Errorf("the attack changed a record: %s\nwas\n%s", clip(after), clip(before))
				}
				n.attacks.Add(1)
				if out, err := q.sh(t.Context(), "set -e\n"+e.files["benign.sh"]); err != nil {
					t.Errorf("the benign twin failed: %v: %s", err, clip(out))
				}
				q.check(t, "after the twin", e.must, true)
				n.twins.Add(1)
			})
		}
		if out, err := p.sh(t.Context(), `touch "$TREE/enough.log"; lazy wait victim --timeout 60s`); err != nil {
			t.Errorf("the victim's turn does not end well: %v: %s", err, out)
		}
		if _, r := l.look(t, "victim"); r.Status != "blocked" {
			t.Errorf("the victim is %s", r.Status)
		}
	})
}
