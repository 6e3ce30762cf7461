//go:build linux

package hostile

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/supervisor/egress"
)

// onProxy attacks the only way out of a sandbox. Names below .test are answered
// by a hostile name server; 127.0.0.9 stands for the public internet, which a
// test does not have.
func onProxy(t *testing.T, e entry, n *tally) {
	names := &nameServer{calls: map[string]int{}}
	hostileNames(t, names)
	private := listenAs(t, "127.0.0.1:0", "canary-private")
	public := listenAs(t, "127.0.0.9:0", "public page")
	port := func(s *httptest.Server) string { _, p, _ := net.SplitHostPort(s.Listener.Addr().String()); return p }
	run := func(t *testing.T, script string, naive bool) (place, string, error) {
		policy, err := egress.Parse(e.network)
		must(t, err)
		p := &egress.Proxy{Policy: policy, Log: slog.New(slog.DiscardHandler), Public: func(a netip.Addr) bool {
			return naive || a == netip.MustParseAddr("127.0.0.9") || egress.Public(a)
		}}
		if naive {
			p.Policy = egress.Policy{}
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Serve(ctx, l)
		}()
		t.Cleanup(func() { stop(); <-done })
		base := t.TempDir()
		at := place{dir: base, env: []string{
			"PATH=" + programs(t, base) + ":" + os.Getenv("PATH"), "HOME=" + base, "LC_ALL=C", "PROXY=http://" + l.Addr().String(),
			"PROXY_ADDRESS=" + l.Addr().String(), "PRIVATE_PORT=" + port(private), "PUBLIC_PORT=" + port(public), "OUT=" + filepath.Join(base, "out"),
		}}
		out, err := at.sh(t.Context(), script)
		write(t, filepath.Join(base, "out"), out)
		return at, out, err
	}
	if !strings.HasPrefix(e.control, "none: ") {
		t.Run("control", func(t *testing.T) {
			at, out, _ := run(t, e.files["attack.sh"], true)
			at.check(t, "without the proxy's rules ("+clip(out)+")", shown(e.mustNot), true)
			n.shown.Add(1)
		})
	}
	t.Run("attack", func(t *testing.T) {
		at, _, _ := run(t, e.files["attack.sh"], false)
		at.check(t, "after the attack", e.mustNot, false)
		n.attacks.Add(1)
	})
	t.Run("twin", func(t *testing.T) {
		at, out, err := run(t, "set -e\n"+e.files["benign.sh"], false)
		if err != nil {
			t.Errorf("the benign twin failed: %v: %s", err, out)
		}
		at.check(t, "after the twin", e.must, true)
		n.twins.Add(1)
	})
}

func listenAs(t *testing.T, address, page string) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if after, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			http.Redirect(w, r, "http://"+after, http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s auth=%q\n", page, r.Header.Get("Proxy-Authorization"))
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// nameServer answers A questions: public.test is public, the others are where an
// attacker points them. flip.test is public once and private from then on.
type nameServer struct {
	mu    sync.Mutex
	calls map[string]int
}

func (s *nameServer) address(name string) (v4, v6 string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[name]
	s.calls[name]++
	switch strings.ToLower(strings.TrimSuffix(name, ".")) {
	case "public.test", "allowed.test", "sub.allowed.test":
		return "127.0.0.9", ""
	case "private.test":
		return "127.0.0.1", ""
	case "flip.test":
		if n == 0 {
			return "127.0.0.9", ""
		}
		return "127.0.0.1", ""
	case "metadata.test":
		return "169.254.169.254", ""
	case "mapped.test":
		return "", "::ffff:127.0.0.1"
	case "nat64.test":
		return "", "64:ff9b::7f00:1"
	}
	return "", ""
}

// hostileNames sends the look-ups of this process to s, for this test.
func hostileNames(t *testing.T, s *nameServer) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	var wait sync.WaitGroup
	wait.Go(func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if b := s.reply(buf[:n]); b != nil {
				_, _ = pc.WriteTo(b, from)
			}
		}
	})
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = old
		_ = pc.Close()
		wait.Wait()
	})
}

// reply answers one question: the header and the question as they came, and one
// record that points at the question's name.
func (s *nameServer) reply(q []byte) []byte {
	name, end := "", 12
	for end < len(q) && q[end] != 0 {
		n := int(q[end])
		if end+1+n >= len(q) {
			return nil
		}
		name += string(q[end+1:end+1+n]) + "."
		end += 1 + n
	}
	if end+5 > len(q) {
		return nil
	}
	kind := binary.BigEndian.Uint16(q[end+1:])
	out := append([]byte(nil), q[:end+5]...)
	binary.BigEndian.PutUint16(out[2:], 0x8580) // an authoritative answer without an error
	for i := 6; i < 12; i++ {
		out[i] = 0
	}
	var data []byte
	switch kind {
	case 1:
		if v4, _ := s.address(name); v4 != "" {
			a := netip.MustParseAddr(v4).As4()
			data = a[:]
		}
	case 28:
		if _, v6 := s.peek(name); v6 != "" {
			a := netip.MustParseAddr(v6).As16()
			data = a[:]
		}
	}
	if data != nil {
		out[7] = 1
		out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
		out = append(out, data...)
	}
	return out
}

// peek is address without counting, for the question nobody is interested in.
func (s *nameServer) peek(name string) (string, string) {
	v4, v6 := s.address(name)
	s.mu.Lock()
	s.calls[name]--
	s.mu.Unlock()
	return v4, v6
}
