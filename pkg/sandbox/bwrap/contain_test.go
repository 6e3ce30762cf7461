package bwrap_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

func TestNoNetworkIsReachableFromInside(t *testing.T) {
	req.Covers(t, "AG-027")
	b := newBox(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@lazy-test-%d", os.Getpid()))
	must(t, err)
	defer abstract.Close()
	port := l.Addr().(*net.TCPAddr).Port
	b.works("command -v bash")
	b.fails(fmt.Sprintf("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d'", port), "refused")
	for _, host := range []string{"169.254.169.254/80", "10.0.0.1/80", "192.168.1.1/80", "1.1.1.1/53"} {
		b.fails("bash -c 'exec 3<>/dev/tcp/"+host+"'", "unreachable")
	}
	b.fails("getent hosts example.com")
	equal(t, "interfaces", b.works("ls /proc/self/net/dev >/dev/null && tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
	if out := b.works("cat /proc/net/unix"); strings.Contains(out, "lazy-test") {
		t.Fatalf("an abstract socket of the machine is visible: %s", out)
	}
}

func TestASocketIsTheOnlyWayOut(t *testing.T) {
	b := newBox(t)
	dir := filepath.Join(b.home, "run")
	must(t, os.Mkdir(dir, 0o755))
	l, err := net.Listen("unix", filepath.Join(dir, "mcp.sock"))
	must(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}()
	b.plan.Sockets = dir
	equal(t, "view", b.r.View(b.plan).Sockets, "/lazy/run")
	equal(t, "answer", b.works(`perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new(Peer=>"/lazy/run/mcp.sock")->getline'`), "hello")
	b.fails("touch /lazy/run/x", "Read-only")
	b.fails("rm /lazy/run/mcp.sock", "Read-only")
}

func TestNothingOutsideThePlanIsReadable(t *testing.T) {
	req.Covers(t, "AG-022")
	b := newBox(t)
	t.Setenv("LAZY_TEST_CANARY", "canary-environment")
	for _, path := range []string{
		filepath.Join(b.home, "secret"), filepath.Join(b.dir, "a.txt"), filepath.Join(b.ws.State, "workspace.json"),
		"/etc/shadow", "/etc/ssl/private", "/etc/gitconfig", "/root/.bashrc", "/var/lib", "/run/dbus", "/sys/kernel", "/boot",
	} {
		b.fails("cat "+path+" || ls "+path, "No such file", "Permission")
	}
	home, err := os.UserHomeDir()
	must(t, err)
	if entries := b.works("ls -A " + home + " 2>/dev/null; true"); strings.Contains(entries, ".ssh") || strings.Contains(entries, ".bash") {
		t.Fatalf("the person's home is visible: %s", entries)
	}
	if out := b.works("env; cat /proc/*/environ | tr '\\0' '\\n'; tr '\\0' ' ' < /proc/1/cmdline"); strings.Contains(out, "canary") {
		t.Fatalf("inside: %s", out)
	}
	b.fails("touch /usr/x", "Read-only")
	b.fails("touch /x", "Read-only")
	b.fails("echo x > /etc/passwd", "Read-only", "Permission")
	b.works("touch /tmp/x ~/x && test -w . && id -un | grep -q agent")
}

func TestProcessesOfTheMachineAreInvisible(t *testing.T) {
	req.Covers(t, "AG-022")
	b := newBox(t)
	out := b.works("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "bwrap") && !strings.Contains(line, "sh -c") && !strings.Contains(line, "tr ") && strings.TrimSpace(line) != "" {
			t.Errorf("a foreign process: %s", line)
		}
	}
	b.fails(fmt.Sprintf("kill -0 %d", os.Getpid()), "No such process")
}

func TestNoRightIsGainedInside(t *testing.T) {
	b := newBox(t)
	equal(t, "capabilities", b.works("grep -E '^Cap(Eff|Prm|Inh|Amb)' /proc/self/status | grep -v 0000000000000000; true"), "")
	equal(t, "no new privileges", b.works("grep NoNewPrivs /proc/self/status | tr -dc 0-9"), "1")
	if out := b.works("id -u"); out == "0" {
		t.Fatal("the agent is root inside")
	}
	b.fails("unshare -Ur true", "unshare")
	b.fails("mount -t tmpfs none /tmp", "permission", "must be", "denied")
	b.fails("umount "+b.ws.Tree+"/.git", "must be", "denied", "permitted", "umount failed")
}

func TestFilesMadeInsideBelongToThePerson(t *testing.T) {
	b := newBox(t)
	b.works("echo x > made && mkdir d && chmod 700 d")
	fi, err := os.Stat(filepath.Join(b.ws.Tree, "made"))
	must(t, err)
	dir, err := os.Stat(b.dir)
	must(t, err)
	equal(t, "owner", owner(fi), owner(dir))
	must(t, b.repo.RemoveWorkspace(t.Context(), b.ws))
}

func TestSecretsOfAPlanAreNotInTheArgumentsOfBubblewrap(t *testing.T) {
	req.Covers(t, "P8")
	b := newBox(t)
	b.plan.Env = append(b.plan.Env, "LAZY_PLACEHOLDER=canary-placeholder", "LD_PRELOAD="+filepath.Join(b.ws.Tree, "evil.so"))
	b.plan.Argv = []string{"true"}
	c, err := b.r.Command(t.Context(), b.plan)
	must(t, err)
	for _, s := range append(c.Args, c.Env...) {
		if strings.Contains(s, "canary") || strings.HasPrefix(s, "LD_") {
			t.Fatalf("visible outside: %q", s)
		}
	}
	for _, f := range c.ExtraFiles {
		must(t, f.Close())
	}
	equal(t, "inside", b.works("echo $LAZY_PLACEHOLDER 2>/dev/null"), "canary-placeholder")
}

func TestTheSandboxDiesWithItsParent(t *testing.T) {
	b := newBox(t)
	b.plan.Argv = []string{"sh", "-c", "echo up; exec sleep 600"}
	c, err := b.r.Command(t.Context(), b.plan)
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, startAndKill(c, out))
	// The pipe ends only when the last process that held it is gone.
	buf := make([]byte, 16)
	for {
		if _, err := out.Read(buf); err != nil {
			break
		}
	}
	if err := c.Wait(); err == nil {
		t.Fatal("the sandbox ended by itself")
	}
}

func TestAPlanThroughALinkIsRefused(t *testing.T) {
	b := newBox(t)
	link := filepath.Join(b.home, "link")
	must(t, os.Symlink(b.ws.Tree, link))
	b.plan.Mounts[0].Source = link
	b.plan.Argv = []string{"true"}
	if _, err := b.r.Command(t.Context(), b.plan); err == nil {
		t.Fatal("a mount through a link was rendered")
	}
}
