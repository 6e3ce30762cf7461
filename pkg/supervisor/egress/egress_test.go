package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/supervisor/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxy serves p on a loopback listener and returns a client that goes through it.
func proxy(t *testing.T, p *egress.Proxy) (*http.Client, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	u := &url.URL{Scheme: "http", Host: l.Addr().String()}
	tr := &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, l.Addr().String()
}

func anywhere(netip.Addr) bool { return true }

func TestOnlyPublicAddressesAreReached(t *testing.T) {
	req.Covers(t, "AG-027")
	for _, bad := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
		"100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1",
	} {
		if egress.Public(netip.MustParseAddr(bad)) {
			t.Errorf("%s counts as public", bad)
		}
	}
	for _, good := range []string{"1.1.1.1", "8.8.8.8", "140.82.112.3", "2606:4700:4700::1111", "172.32.0.1"} {
		if !egress.Public(netip.MustParseAddr(good)) {
			t.Errorf("%s does not count as public", good)
		}
	}
}

func TestALoopbackServiceIsRefusedHoweverItIsNamed(t *testing.T) {
	req.Covers(t, "AG-027")
	reached := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	c, addr := proxy(t, &egress.Proxy{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433"} {
		resp, err := c.Get("http://" + host + ":" + port + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s answered %d", host, resp.StatusCode)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT %s:%s HTTP/1.1\r\nHost: x\r\n\r\n", host, port)
		line, _ := bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
		if strings.Contains(line, " 200 ") {
			t.Errorf("CONNECT %s: %s", host, line)
		}
	}
	if reached {
		t.Error("the service was reached")
	}
}

func TestAnAllowListIsExact(t *testing.T) {
	req.Covers(t, "AG-027")
	p, err := egress.Parse("allow:api.example.com, .example.org")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"api.example.com": true, "API.EXAMPLE.COM": true, "api.example.com.": true, "x.api.example.com": false,
		"evilapi.example.com": false, "example.com": false, "example.org": true, "a.b.example.org": true, "badexample.org": false, "": false,
	} {
		if got := p.Allows(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	for _, bad := range []string{"allow:", "allow:a,,b", "allow:http://x", "allow:*.x", "some", "allow:x:1"} {
		if _, err := egress.Parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	none, err := egress.Parse("none")
	if err != nil || none.Allows("api.example.com") {
		t.Errorf("none allows something, %v", err)
	}
	c, _ := proxy(t, &egress.Proxy{Policy: p, Public: anywhere})
	resp, err := c.Get("http://127.0.0.1:1/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 403 || !strings.Contains(string(b), "127.0.0.1") {
		t.Errorf("got %d %s", resp.StatusCode, b)
	}
}

func TestAllowedTrafficPassesUnchangedBothWays(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Header.Get("Proxy-Authorization")+r.Header.Get("X-Mine"))
		_, _ = w.Write(append([]byte("got "), b...))
	})
	plain, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	defer plain.Close()
	defer secure.Close()
	c, _ := proxy(t, &egress.Proxy{Public: anywhere})
	tr := c.Transport.(*http.Transport)
	tr.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	tr.ProxyConnectHeader = http.Header{"Proxy-Authorization": {"secret"}}
	for _, base := range []string{plain.URL, secure.URL} {
		q, _ := http.NewRequestWithContext(t.Context(), "POST", base, strings.NewReader(strings.Repeat("x", 1<<20)))
		q.Header.Set("X-Mine", "kept")
		q.Header.Set("Proxy-Authorization", "")
		resp, err := c.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || len(b) != 1<<20+4 || resp.Header.Get("X-Seen") != "kept" {
			t.Errorf("%s: %d bytes, %q, %v", base, len(b), resp.Header.Get("X-Seen"), err)
		}
	}
}
