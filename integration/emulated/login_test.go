package emulated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/app"
	"github.com/lazyplane/lazyplane/pkg/cli"
	"github.com/lazyplane/lazyplane/pkg/feed"
	"github.com/lazyplane/lazyplane/pkg/req"
)

// clone is a person's machine with a clone on it. It has no keychain.
type clone struct {
	t       *testing.T
	through *http.Transport
	home    string
	dir     string
	env     map[string]string
}

func newClone(t *testing.T, through *http.Client) *clone {
	t.Helper()
	tr, ok := through.Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	l := &clone{t: t, through: tr, home: t.TempDir(), dir: t.TempDir(), env: map[string]string{}}
	git(t, l.dir, "init", "-q", "-b", "main")
	return l
}

// start runs one command line until it ends.
func (l *clone) start(ctx context.Context, out, stderr io.Writer, args ...string) int {
	getenv := func(name string) string {
		if v, ok := l.env[name]; ok {
			return v
		}
		return map[string]string{"LAZY_HOME": l.home}[name]
	}
	return cli.Main(ctx, &cli.Env{
		In: strings.NewReader(""), Out: out, Err: stderr, Getenv: getenv, Environ: func() []string { return nil }, Now: time.Now,
		Dir: l.dir, TempDir: os.TempDir(), Self: "/nowhere/lazy", Version: "dev", TTY: func(any) bool { return false },
		Piped: func() bool { return false }, Width: func() int { return 80 }, Lock: cli.FileLock, Alive: cli.ProcessAlive, Transport: l.through,
	}, args)
}

func (l *clone) lazy(want int, args ...string) string {
	l.t.Helper()
	var out bytes.Buffer
	if code := l.start(l.t.Context(), &out, &out, args...); code != want {
		l.t.Fatalf("lazy %s exits with %d, want %d:\n%s", strings.Join(args, " "), code, want, &out)
	}
	return out.String()
}

var userCode = regexp.MustCompile(`\n  ([A-Z]{4}-[A-Z]{4})\n`)

// signIn signs the laptop in, with the person approving in their browser as soon as
// the code is printed.
func (l *clone) signIn(args ...string) string {
	l.t.Helper()
	read, write := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := l.start(l.t.Context(), write, &stderr, append([]string{"login"}, args...)...)
		_ = write.Close()
		ended <- code
	}()
	var text strings.Builder
	buf := make([]byte, 4096)
	approved := false
	for {
		n, err := read.Read(buf)
		text.Write(buf[:n])
		if m := userCode.FindStringSubmatch(text.String()); m != nil && !approved {
			approved = true
			res := newVisitor(l.t, &http.Client{Transport: l.through}).approve(address + "/activate?user_code=" + m[1])
			body, rerr := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if rerr != nil || res.StatusCode != http.StatusOK {
				l.t.Fatalf("approved: %s %s, %v", res.Status, body, rerr)
			}
		}
		if err != nil {
			break
		}
	}
	if code := <-ended; code != 0 || !approved {
		l.t.Fatalf("login exits with %d:\n%s%s", code, text.String(), &stderr)
	}
	return text.String()
}

// A person is told the address and nothing else.
func aPersonSignsInAndOut(t *testing.T, s *emulated.Stack, _ *world) {
	req.Covers(t, "LG-015", "LG-010", "LG-006", "LG-013", "LG-007")
	through, _ := distribution(t, s)
	provide(t, s)
	l := newClone(t, through)
	// The project is the person's to choose: the clone's remote does not count.
	git(t, l.dir, "remote", "add", "origin", "https://github.com/acme/"+project)
	if out := l.lazy(2, "login", address); !strings.Contains(out, "--project") {
		t.Errorf("without a terminal and a project: %s", out)
	}
	l.env["LAZY_TASK"] = "x"
	for _, verb := range []string{"login", "logout"} {
		if out := l.lazy(2, verb, address); !strings.Contains(out, "does not run inside a container") {
			t.Errorf("%s in a container: %s", verb, out)
		}
	}
	delete(l.env, "LAZY_TASK")
	said := l.signIn("--host", address, "--project", project, "--no-browser")
	if !strings.Contains(said, address+"/activate") || !strings.Contains(said, "Signed in as "+email) {
		t.Errorf("signed in: %s", said)
	}
	if who := l.lazy(0, "whoami", "--json"); !strings.Contains(who, email) || !strings.HasPrefix(who, "{") {
		t.Errorf("whoami: %s", who)
	}
	if out := git(t, l.dir, "status", "--porcelain", "--ignored"); out != "" {
		t.Errorf("the clone holds %s", out)
	}
	aSecondCloneNeedsNoSecondSignIn(t, s, l)
	first := l.pair()
	if strings.Contains(said, first) {
		t.Error("the credential was printed")
	}
	// The access token is worth nothing any more, as after its hour: the next command
	// renews it and says nothing of it.
	l.spoil()
	if out := l.lazy(0, "list"); strings.Contains(out, "credential") {
		t.Errorf("with an old token: %s", out)
	}
	last, kept := l.pair(), l.file()
	copied, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if l.whoami(first) != http.StatusUnauthorized || l.whoami(last) != http.StatusOK {
		t.Error("a renewed token goes on, or its successor does not work")
	}
	if out := l.lazy(0, "logout"); !strings.Contains(out, "Signed out") || l.whoami(last) != http.StatusUnauthorized || l.pair() != "" {
		t.Errorf("signed out: %s", out)
	}
	if out := l.lazy(2, "logout"); !strings.Contains(out, "not bound") {
		t.Errorf("signed out twice: %s", out)
	}
	// Without the server a sign-in is forgotten here, and that is said.
	if err := os.WriteFile(kept, copied, 0o600); err != nil {
		t.Fatal(err)
	}
	l.through = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route to host") }}
	if out := l.lazy(0, "logout", "--all"); !strings.Contains(out, "could not be told") || l.pair() != "" {
		t.Errorf("signed out offline: %s", out)
	}
}

// One sign-in is for the machine: another clone on it is bound to another project,
// and each works with its own.
func aSecondCloneNeedsNoSecondSignIn(t *testing.T, s *emulated.Stack, l *clone) {
	t.Helper()
	event, err := json.Marshal(map[string]any{
		"source": feed.OperatorSource, "detail-type": feed.BootstrapType, "detail": app.Bootstrap{Tenant: tenant, Project: "bakery", Email: email},
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Functions["events"].Call(t.Context(), event); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	other := *l
	other.dir = t.TempDir()
	git(t, other.dir, "init", "-q", "-b", "main")
	if out := other.lazy(2, "list"); !strings.Contains(out, "not bound to a project") || !strings.Contains(out, "lazy project bind") {
		t.Errorf("in a clone that is bound to nothing: %s", out)
	}
	if out := other.lazy(2, "project", "bind"); !strings.Contains(out, "lazy project bind PROJECT") {
		t.Errorf("bound to nothing in particular: %s", out)
	}
	if out := other.lazy(2, "project", "bind", "nothing"); !strings.Contains(out, "no project nothing") {
		t.Errorf("bound to what is not there: %s", out)
	}
	if out := other.lazy(0, "project", "list"); !strings.Contains(out, "bakery") || !strings.Contains(out, project) {
		t.Errorf("the projects are %s", out)
	}
	other.lazy(0, "project", "bind", "bakery")
	for _, c := range []struct {
		in   *clone
		want string
	}{{&other, "bakery"}, {l, project}, {&other, "bakery"}} {
		if who := c.in.lazy(0, "whoami"); !strings.Contains(who, "on project "+c.want+" of") {
			t.Errorf("a clone that is bound to %s works with: %s", c.want, who)
		}
	}
	if out := other.lazy(0, "project", "show"); !strings.Contains(out, "bakery of "+tenant) {
		t.Errorf("it shows %s", out)
	}
	other.lazy(0, "project", "unbind")
	other.lazy(2, "project", "show")
	l.pair() // fails unless one sign-in is kept
}

// file is where the laptop keeps its one sign-in, "" when it has none.
func (l *clone) file() string {
	l.t.Helper()
	all, err := filepath.Glob(filepath.Join(l.home, "logins", "*.json"))
	if err != nil || len(all) > 1 {
		l.t.Fatalf("the sign-ins are %v, %v", all, err)
	}
	if len(all) == 0 {
		return ""
	}
	info, err := os.Stat(all[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		l.t.Fatalf("%s can be read by others: %v", all[0], err)
	}
	return all[0]
}

var accessToken = regexp.MustCompile(`lzy_user_[A-Za-z0-9-]+_[0-9a-f]{64}_[0-9a-f]+`)

// pair is the access token that the laptop has, "" for none.
func (l *clone) pair() string {
	l.t.Helper()
	path := l.file()
	if path == "" {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	return accessToken.FindString(string(b))
}

// spoil puts a token that nobody gave out in place of the laptop's.
func (l *clone) spoil() {
	l.t.Helper()
	path := l.file()
	b, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, accessToken.ReplaceAll(b, []byte("lzy_user_local_spoiled")), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// whoami is how the control plane answers a token.
func (l *clone) whoami(token string) int {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, address+"/rpc/whoAmI", strings.NewReader("{}"))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := l.through.RoundTrip(r)
	if err != nil {
		l.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}
