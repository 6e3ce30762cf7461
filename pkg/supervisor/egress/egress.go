// Package egress is the only way from a sandbox to the network: an HTTP proxy on
// a unix socket that refuses loopback, link-local and private addresses, and with
// an allow list every host that is not on it (AG-027). What counts is the address
// a connection really goes to, so a name that resolves to a private one is
// refused too.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
)

// Policy says which hosts may be reached.
type Policy struct {
	None  bool
	Hosts []string // empty is every public host; ".example.com" is it and all below
}

// Parse reads the network setting: "open", "none" or "allow:host,…".
func Parse(s string) (Policy, error) {
	switch s {
	case "open", "":
		return Policy{}, nil
	case "none":
		return Policy{None: true}, nil
	}
	list, ok := strings.CutPrefix(s, "allow:")
	if !ok {
		return Policy{}, fault.New(fault.Invalid, "network = %q is none of open, none and allow:host,…", s)
	}
	var p Policy
	for h := range strings.SplitSeq(list, ",") {
		h = strings.ToLower(strings.TrimSpace(h))
		if h == "" || strings.ContainsAny(h, "/:@ *") {
			return Policy{}, fault.New(fault.Invalid, "network = %q: %q is not a host name", s, h)
		}
		p.Hosts = append(p.Hosts, h)
	}
	return p, nil
}

// Allows reports whether the policy lets a host be tried at all.
func (p Policy) Allows(host string) bool {
	if p.None {
		return false
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return len(p.Hosts) == 0 || slices.ContainsFunc(p.Hosts, func(h string) bool {
		bare, below := strings.CutPrefix(h, ".")
		return host == bare || below && strings.HasSuffix(host, h)
	})
}

// ErrPrivate means that an address is not on the public internet.
var ErrPrivate = errors.New("address is not public")

// Public reports whether an address is on the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range special() {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// special are ranges that look global and are not: shared address space, this
// network, protocol and benchmark ranges, reserved ones, and IPv6 forms that
// carry an IPv4 address.
func special() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
	}
}

// Proxy serves a policy.
type Proxy struct {
	Policy Policy
	Log    *slog.Logger
	// Public decides about an address; nil is the function of that name.
	Public func(netip.Addr) bool

	live sync.WaitGroup
}

// dial connects to a public address. The check sits where the address is known.
func (p *Proxy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	public := p.Public
	if public == nil {
		public = Public
	}
	d := net.Dialer{Timeout: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !public(ap.Addr()) {
			return fmt.Errorf("%s: %w", address, ErrPrivate)
		}
		return nil
	}}
	return d.DialContext(ctx, network, addr)
}

// Serve answers on l until ctx is done; then every connection is closed.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) {
	tr := &http.Transport{DialContext: p.dial, DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second}
	s := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.answer(w, r, tr) }),
		ReadHeaderTimeout: 30 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	_ = s.Serve(l)
	tr.CloseIdleConnections()
	p.live.Wait()
}

func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, tr *http.Transport) {
	host := r.URL.Hostname()
	if r.Method == http.MethodConnect {
		if h, _, err := net.SplitHostPort(r.Host); err == nil {
			host = h
		}
	} else if r.URL.Scheme != "http" || host == "" {
		http.Error(w, "lazy: this is an HTTP proxy; ask for an absolute http address or CONNECT", http.StatusBadRequest)
		return
	}
	if !p.Policy.Allows(host) {
		p.Log.Info("network refused", "host", host)
		http.Error(w, "lazy: the project's network setting does not allow "+host, http.StatusForbidden)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	p.forward(w, r, tr)
}

func failed(w http.ResponseWriter, host string, err error) {
	if errors.Is(err, ErrPrivate) {
		http.Error(w, "lazy: "+host+" is not on the public internet; private, loopback and link-local addresses are refused", http.StatusForbidden)
		return
	}
	http.Error(w, "lazy: "+host+" cannot be reached", http.StatusBadGateway)
}

func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	up, err := p.dial(r.Context(), "tcp", r.Host)
	if err != nil {
		failed(w, r.Host, err)
		return
	}
	defer up.Close()
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	p.live.Add(1)
	defer p.live.Done()
	defer down.Close()
	defer context.AfterFunc(r.Context(), func() { _ = down.Close(); _ = up.Close() })()
	if _, err := io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(up, buffered)
		closeWrite(up)
	})
	_, _ = io.Copy(down, up)
	closeWrite(down)
	both.Wait()
}

// closeWrite passes on that one side has said all it had to say.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, tr *http.Transport) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, h := range append(strings.Split(strings.Join(out.Header.Values("Connection"), ","), ","),
		"Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Keep-Alive", "Te", "Trailer", "Upgrade") {
		out.Header.Del(strings.TrimSpace(h))
	}
	resp, err := tr.RoundTrip(out)
	if err != nil {
		failed(w, r.Host, err)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.Header().Del("Connection")
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(flushing{w}, resp.Body)
}

// flushing passes on each part as it comes: answers of models are streams.
type flushing struct{ w http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	_ = http.NewResponseController(f.w).Flush()
	return n, err
}
