package supervisor_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/runner/spool"
	"github.com/lazyplane/lazyplane/pkg/supervisor/planetest"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// newHosted is a rig whose workspace is kept outside its container.
func newHosted(t *testing.T, script string, tune ...func(*turn.Command)) *rig {
	t.Helper()
	r := newRig(t, script, append([]func(*turn.Command){func(c *turn.Command) { c.Keep = []string{".env"} }}, tune...)...)
	r.plane.Do(func(p *planetest.Plane) {
		p.Vault = &planetest.Vault{Vault: turn.Vault{Key: bytes.Repeat([]byte{7}, 32)}, Objects: map[string][]byte{}}
	})
	return r
}

// lose takes the container away: the workspace, the sandbox, and every commit that
// was made since the repository was fetched.
func (r *rig) lose() {
	r.t.Helper()
	must(r.t, r.runner.EndTask(r.t.Context(), taskID))
	seed := filepath.Join(r.t.TempDir(), "seed.git")
	r.git("clone", "-q", "--bare", "--single-branch", "--branch", "main", ".", seed)
	for _, d := range []string{r.ws.State, spool.BoxDir(r.runDir()), r.dir} {
		must(r.t, os.RemoveAll(d))
	}
	must(r.t, os.MkdirAll(r.dir, 0o755))
	r.git("clone", "-q", seed, ".")
}

// contents describes every file below dir, but for those in skip.
func contents(t *testing.T, dir string, skip ...string) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		for _, s := range skip {
			if rel == s {
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
		}
		if err != nil || p == dir {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", rel, fi.Mode())
		if fi.Mode()&fs.ModeSymlink != 0 {
			at, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + at
		} else if fi.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		}
		out = append(out, line)
		return nil
	}))
	return out
}

const everything = `set -e
umask 022
printf 'committed\n' > c.txt
lazy-agent call lazy_commit '{"message":"one"}' >/dev/null
printf 'dos\r\nfile\r\n' > crlf.txt
printf 'changed\r\n' > a.txt
mkdir -p empty/inner deep/er node_modules/x
printf x > deep/er/run.sh; chmod 755 deep/er/run.sh
ln -s ../nowhere deep/link
printf 'node_modules\n.env\n' > .gitignore
printf 'SECRET=1\n' > .env
printf 'big' > node_modules/x/y
printf 'raw \377 bytes' > bin
git init -q sub; printf s > sub/s.txt
printf 'staged\n' > staged.txt; git add staged.txt; printf 'staged, then edited\n' > staged.txt
one=$(printf one | git hash-object -w --stdin); two=$(printf two | git hash-object -w --stdin)
printf '100644 %s 1\tboth.txt\n100644 %s 2\tboth.txt\n100644 %s 3\tboth.txt\n' $one $one $two | git update-index --index-info
git rev-parse HEAD > "$(git rev-parse --git-dir)/MERGE_HEAD"
printf '<<<<<<< one\n' > both.txt
`

func TestAWorkspaceComesBackByteForByteOnANewContainer(t *testing.T) {
	req.Covers(t, "UW-008", "UW-010", "UW-011", "UW-012", "B25")
	r := newHosted(t, everything)
	r.dieAt("saved") // the hard end of a container, after the agent's
	r.launch()
	r.gone()
	links := []string{"commondir", "gitdir", "config.worktree", "locked", "logs"}
	tree := contents(t, r.ws.Tree, "node_modules", ".lazy-task-sandbox")
	index, err := os.ReadFile(filepath.Join(r.ws.GitDir, "index"))
	must(t, err)
	meta := contents(t, r.ws.GitDir, links...)
	tip := r.plane.Tip
	if tip == r.base || len(tree) < 15 {
		t.Fatalf("the agent did nothing: %q", tree)
	}
	r.plane.Do(func(p *planetest.Plane) {
		for name, b := range p.Vault.Objects {
			if bytes.Contains(b, []byte("SECRET")) || bytes.Contains(b, []byte("crlf.txt")) {
				t.Errorf("%s can be read", name)
			}
		}
	})
	r.lose()
	if _, err := os.Stat(r.ws.Tree); err == nil {
		t.Fatal("the workspace is still there")
	}
	r.next("true")
	r.dieAt("saved")
	r.launch()
	r.gone()
	if diff := cmp.Diff(tree, contents(t, r.ws.Tree, "node_modules", ".lazy-task-sandbox")); diff != "" {
		t.Errorf("the tree (-saved +restored):\n%s", diff)
	}
	again, err := os.ReadFile(filepath.Join(r.ws.GitDir, "index"))
	if err != nil || !bytes.Equal(index, again) {
		t.Errorf("the index differs (%v)", err)
	}
	if diff := cmp.Diff(meta, contents(t, r.ws.GitDir, links...)); diff != "" {
		t.Errorf("the git directory (-saved +restored):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(r.ws.Tree, "node_modules")); err == nil {
		t.Error("what git ignores was saved")
	}
	repo, err := git.Open(t.Context(), r.dir)
	must(t, err)
	if !repo.Has(t.Context(), tip) {
		t.Error("a commit is lost")
	}
	if refs := r.git("for-each-ref", "--format=%(refname)"); strings.Contains(refs, "checkpoint") || !strings.Contains(refs, "refs/heads/lazy/fix") {
		t.Errorf("the refs are %s", refs)
	}
}

func TestACommitIsStoredOutsideBeforeItIsRecordedOrNotMadeAtAll(t *testing.T) {
	req.Covers(t, "UW-010", "UW-013")
	r := newHosted(t, `printf x > x.txt; lazy-agent call lazy_commit '{"message":"one"}' || echo refused > refused`)
	r.plane.Do(func(p *planetest.Plane) { p.Vault.Down = true })
	resp := r.run()
	equal(t, "refused", r.file("refused"), "refused\n")
	equal(t, "commits", resp.Commits, 0)
	equal(t, "branch", r.git("rev-parse", "lazy/fix"), r.base)
	r.plane.Do(func(p *planetest.Plane) {
		if len(p.Rows) > 0 || len(p.Vault.Objects) > 0 {
			t.Errorf("%d rows, %d objects", len(p.Rows), len(p.Vault.Objects))
		}
		p.Vault.Down = false
	})
	r.next(`lazy-agent call lazy_commit '{"message":"one"}'`)
	equal(t, "commits with storage up", r.run().Commits, 1)
	r.plane.Do(func(p *planetest.Plane) {
		if len(p.Rows) != 1 || len(p.Vault.Bundles) != 1 || p.Vault.Checkpoint == nil || p.Vault.Checkpoint.Base != p.Tip {
			t.Errorf("%d rows, bundles %v, checkpoint %+v", len(p.Rows), p.Vault.Bundles, p.Vault.Checkpoint)
		}
	})
}

// A link is asked for again when it was too old, and what it was for is stored once.
func TestALinkThatExpiredIsAskedForAgain(t *testing.T) {
	req.Covers(t, "UW-010")
	r := newHosted(t, `printf x > x.txt; lazy-agent call lazy_commit '{"message":"one"}'`)
	r.plane.Do(func(p *planetest.Plane) { p.Vault.Expired = 1 })
	equal(t, "commits", r.run().Commits, 1)
	r.plane.Do(func(p *planetest.Plane) {
		if p.Vault.Expired != 0 || p.Vault.Links != len(p.Vault.Objects)+1 || len(p.Rows) != 1 {
			t.Errorf("%d links for %d objects, %d rows, %d too old", p.Vault.Links, len(p.Vault.Objects), len(p.Rows), p.Vault.Expired)
		}
	})
}

func TestAnOlderCheckpointIsKeptAsAPatchAndNeverLaidOverANewerTip(t *testing.T) {
	req.Covers(t, "UW-014")
	r := newHosted(t, `printf 'half done\n' > a.txt; printf 'new\n' > n.txt`)
	r.run()
	// The branch went on without a checkpoint.
	r.git("update-ref", "refs/heads/next", r.git("commit-tree", "-p", r.base, "-m", "two", r.git("write-tree")))
	tip := r.git("rev-parse", "next")
	must(t, r.runner.EndTask(t.Context(), taskID))
	must(t, os.RemoveAll(r.ws.State))
	must(t, os.RemoveAll(r.ws.GitDir))
	r.git("update-ref", "refs/heads/lazy/fix", tip)
	r.plane.Do(func(p *planetest.Plane) { p.Tip = tip })
	r.next("true")
	resp := r.run()
	equal(t, "head", resp.Head, tip)
	equal(t, "a.txt", r.file("a.txt"), "a\n")
	if _, err := os.Stat(filepath.Join(r.ws.Tree, "n.txt")); err == nil || resp.Uncommitted.Total != 0 {
		t.Errorf("the old edits were laid over the new tip: %+v", resp.Uncommitted)
	}
	b, err := os.ReadFile(resp.Recovery)
	if err != nil || !strings.Contains(string(b), "+half done") || !strings.Contains(string(b), "+new") {
		t.Errorf("the patch %q holds %s (%v)", resp.Recovery, b, err)
	}
}

func TestADamagedCheckpointParksTheTaskBeforeTheAgentStarts(t *testing.T) {
	req.Covers(t, "UW-012")
	r := newHosted(t, `printf 'half done\n' > a.txt`)
	r.run()
	r.plane.Do(func(p *planetest.Plane) {
		for name, b := range p.Vault.Objects {
			if strings.HasSuffix(name, "pack-0") {
				b[len(b)/2] ^= 1
			}
		}
	})
	r.lose()
	r.next("touch started")
	resp := r.run()
	if resp.Outcome != "error" || resp.Failure == nil || resp.Failure.Class != turn.FatalConfig || !strings.Contains(resp.Failure.Reason, "damaged") {
		t.Errorf("the report is %+v (%+v)", resp, resp.Failure)
	}
	if _, err := os.Stat(filepath.Join(r.ws.Tree, "started")); err == nil {
		t.Error("the agent was started")
	}
}

func TestARunThatIsAskedToEndSavesWhatItsAgentLeft(t *testing.T) {
	req.Covers(t, "UW-008", "UW-011")
	r := newHosted(t, `printf 'half done\n' > a.txt; touch ready; sleep 600`)
	ref := r.launch()
	r.wrote("ready")
	must(t, r.runner.Stop(t.Context(), ref, "test"))
	r.gone()
	r.lose()
	r.next("true")
	r.run()
	equal(t, "a.txt", r.file("a.txt"), "half done\n")
}
