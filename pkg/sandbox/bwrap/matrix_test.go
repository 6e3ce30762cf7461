package bwrap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/git"
	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestReadingStagingAndResolvingWorkInside(t *testing.T) {
	req.Covers(t, "GT-001", "GT-002", "GT-004")
	b := newBox(t)
	for _, script := range []string{
		"git status --porcelain",
		"git log --oneline",
		"git show main:a.txt",
		"git diff main other",
		"echo changed > a.txt && git add a.txt && git diff --cached --quiet; test $? = 1",
		"git checkout main -- dir/b.txt",
		"git restore --staged a.txt && git checkout -- a.txt && test \"$(cat a.txt)\" = a",
		"git blame a.txt && git grep -q a && git ls-files && git cat-file -p HEAD^{tree}",
		"test \"$(git config gc.auto)\" = 0",
		"git rm -q dir/b.txt && git restore --staged --worktree dir/b.txt",
	} {
		b.works(script)
	}
	equal(t, "objects stay in the task's own directory", b.works("echo new > n && git hash-object -w n >/dev/null && git rev-parse --git-path objects"), b.ws.Objects)
}

func TestNoSharedRefMovesFromInside(t *testing.T) {
	req.Covers(t, "GT-001", "GT-004")
	b := newBox(t)
	before := b.refs()
	const ro = "Read-only file system"
	for _, script := range []string{
		"echo x > a.txt && git commit -qam x",
		"git commit -q --allow-empty -m x",
		"git branch mine",
		"git branch -f other HEAD",
		"git tag v1",
		"git update-ref refs/heads/main $(git rev-parse other)",
		"git update-ref -d refs/heads/other",
		"git symbolic-ref refs/heads/main refs/heads/other",
		"echo y > a.txt && git stash",
		"git branch -D other",
		"git reflog expire --expire=now --all",
		"git pack-refs --all",
		"git config user.name Eve",
		"git remote add evil /tmp",
		"git notes add -m x",
		"git replace $(git rev-parse HEAD:a.txt) $(git rev-parse HEAD:dir/b.txt)",
		"git worktree add /tmp/w other",
	} {
		b.fails(script, ro, "unable to create", "could not", "cannot", "Could not", "failed", "fatal", "unable", "Cannot save")
		equal(t, "refs after "+script, b.refs(), before)
	}
	b.fails("echo x > a.txt; git commit -qam x", ro)
	b.fails("git update-ref refs/heads/main "+b.git("rev-parse", "other")+" && git update-ref refs/heads/zz HEAD", ro)
	b.fails("git merge --no-ff -m x other^{commit} && git update-ref refs/heads/lazy/fix HEAD~0 && touch "+b.ws.Shared+"/x", ro)
	b.fails("git rebase --force-rebase other && touch " + b.ws.Shared + "/x")
	equal(t, "refs", b.refs(), before)
}

func TestADetachedCommitInsideIsHarmlessReportedAndNeverAdopted(t *testing.T) {
	req.Covers(t, "GT-004", "GT-025")
	commit := "git add -A && git -c user.name=E -c user.email=e@x commit -qm evil"
	for what, script := range map[string]func(ws git.Workspace) string{
		"detached": func(git.Workspace) string {
			return "git checkout -q --detach && echo evil > evil.txt && " + commit + " && git reset -q --hard HEAD"
		},
		"private ref": func(git.Workspace) string {
			return "git symbolic-ref HEAD refs/worktree/x && echo evil > evil.txt && " + commit
		},
		"other branch": func(ws git.Workspace) string { return "printf 'ref: refs/heads/other\\n' > " + ws.GitDir + "/HEAD" },
		"pipe":         func(ws git.Workspace) string { return "rm -f " + ws.GitDir + "/HEAD && mkfifo " + ws.GitDir + "/HEAD" },
		"link": func(ws git.Workspace) string {
			return "rm -f " + ws.GitDir + "/HEAD && ln -s /proc/self/environ " + ws.GitDir + "/HEAD"
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBox(t) // a file that one drift left is work that the next one's commit would not change
			before := b.refs()
			b.works(script(b.ws))
			equal(t, "refs", b.refs(), before)
			st, err := b.u.Status(t.Context())
			must(t, err)
			if st.Drifted == "" {
				t.Fatal("a drifted HEAD was not reported")
			}
			write := filepath.Join(b.ws.Tree, what)
			must(t, os.WriteFile(write, []byte("work\n"), 0o644))
			tip := b.git("rev-parse", "lazy/fix")
			c := b.commit("work")
			equal(t, "parent", c.Parent, tip)
			if c.Drifted == "" {
				t.Fatal("the commit does not report the drift")
			}
			equal(t, "history", strings.Contains(b.git("log", "--format=%s", "lazy/fix"), "evil"), false)
			equal(t, "inside", b.works("git status --porcelain; git symbolic-ref HEAD"), "refs/heads/lazy/fix")
		})
	}
}

func TestTheBrokersCommitIsSeenInsideAndWorkGoesOn(t *testing.T) {
	req.Covers(t, "GT-001", "GT-012")
	b := newBox(t)
	b.works("echo one > a.txt && mkdir -p deep && echo n > deep/new")
	b.commit("first work")
	equal(t, "clean", b.works("git status --porcelain"), "")
	equal(t, "log", b.works("git log -1 --format=%s"), "first work")
	b.write(filepath.Join(b.dir, "a.txt"), "theirs\n")
	b.git("commit", "-q", "-am", "theirs")
	up := b.git("rev-parse", "main")
	m, err := b.u.MergeInto(t.Context(), up, "Merge main", author, when)
	must(t, err)
	equal(t, "kind", m.Kind, git.Conflicted)
	equal(t, "unmerged", b.works("git diff --name-only --diff-filter=U"), "a.txt")
	b.works("git show :3:a.txt | grep -q theirs && echo both > a.txt && git add a.txt")
	b.fails("git commit -qm merge", "Read-only file system")
	c, err := b.u.Prepare(t.Context(), git.CommitSpec{Message: "Merge main", Author: author, When: when, MergeParents: []string{up}})
	must(t, err)
	must(t, b.repo.MoveRef(t.Context(), "refs/heads/lazy/fix", c.Commit, c.Parent))
	must(t, b.u.Refresh(t.Context(), c.Commit))
	equal(t, "after the merge", b.works("git status --porcelain; git log -1 --format=%s"), "Merge main")
}

func TestTheFilesThatSayWhereThingsAreCannotBeChangedInside(t *testing.T) {
	req.Covers(t, "GT-002", "GT-003")
	b := newBox(t)
	for _, path := range []string{
		filepath.Join(b.ws.Tree, ".git"), filepath.Join(b.ws.GitDir, "commondir"), filepath.Join(b.ws.GitDir, "gitdir"),
		filepath.Join(b.ws.GitDir, "config.worktree"), filepath.Join(b.ws.Objects, "info"), filepath.Join(b.ws.Shared, "config"),
	} {
		b.fails("echo x > "+path, "Read-only", "directory")
		b.fails("rm -rf "+path, "busy", "Read-only")
		b.fails("mv -T "+path+" "+path+".away", "busy", "Read-only")
		b.fails("ln -sfn /tmp "+path+".x && mv -T "+path+".x "+path, "busy", "Read-only", "directory")
	}
	b.fails("echo /tmp > "+b.ws.Objects+"/info/alternates", "Read-only")
	b.works("touch " + b.ws.State + "/x || true") // at best in a scratch file system of its own
	if _, err := os.Lstat(filepath.Join(b.ws.State, "x")); err == nil {
		t.Fatal("the task's directory is writable from inside")
	}
	must(t, b.ws.Check())

	// Without a sandbox the files can be changed; then nothing works on them.
	commondir := filepath.Join(b.ws.GitDir, "commondir")
	must(t, os.WriteFile(commondir, []byte(b.ws.Tree+"\n"), 0o644))
	if _, err := b.repo.Untrusted(b.ws, b.git("rev-parse", "lazy/fix")); err == nil {
		t.Fatal("a tampered commondir was accepted")
	}
}

func TestCredentialsOfTheRepositorysConfigurationAreNotSeenInside(t *testing.T) {
	req.Covers(t, "P8")
	b := newBox(t)
	out := b.works("git config --list; git remote -v; cat " + b.ws.Shared + "/config; env")
	if strings.Contains(out, "canary") {
		t.Fatalf("inside: %s", out)
	}
	if !strings.Contains(out, "https://forge.example/o/r.git") {
		t.Fatalf("the remote is not shown: %s", out)
	}
}
