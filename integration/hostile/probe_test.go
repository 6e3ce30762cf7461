//go:build linux

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// probe is the attacker's tool box, for what a shell cannot do by itself. It ends
// with 0 when the attacker got what it names.
func probe(args []string) int {
	if len(args) == 0 {
		return 2
	}
	tools := map[string]func([]string) error{
		"dial": dial, "get": get, "request": request, "socket": request, "ptrace": ptrace, "listen": listen,
		"forks": forks, "eat": eat, "open": openMany, "loot": loot, "serve": serveDev, "leave-socket": leaveSocket,
		"squeeze": squeeze,
	}
	run := tools[args[0]]
	if run == nil {
		fmt.Fprintln(os.Stderr, "probe: no tool", args[0])
		return 2
	}
	if args[0] == "socket" {
		run = overSocket
	}
	if err := run(args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		return 1
	}
	return 0
}

// dial NETWORK ADDRESS connects and prints what the other side says first.
func dial(a []string) error {
	c, err := net.DialTimeout(a[0], a[1], 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	b := make([]byte, 512)
	n, _ := c.Read(b)
	fmt.Printf("connected: %s\n", b[:n])
	return nil
}

// get URL [PROXY] fetches a page through the proxy of the environment.
func get(a []string) error {
	tr := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if len(a) > 1 {
		at, err := url.Parse(a[1])
		if err != nil {
			return err
		}
		tr.Proxy = http.ProxyURL(at)
	} else if p := os.Getenv("HTTP_PROXY"); p != "" {
		at, err := url.Parse(p) // loopback too, which ProxyFromEnvironment leaves out
		if err != nil {
			return err
		}
		tr.Proxy = http.ProxyURL(at)
	}
	c := http.Client{Transport: tr, Timeout: 10 * time.Second}
	r, err := c.Get(a[0])
	if err != nil {
		return err
	}
	return answer(r)
}

func answer(r *http.Response) error {
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	fmt.Printf("%d\n%s\n", r.StatusCode, b)
	if r.StatusCode >= 400 {
		return fmt.Errorf("answered %d", r.StatusCode)
	}
	return err
}

// request METHOD URL BEARER [BODY [HEADER…]]
func request(a []string) error { return send(http.DefaultClient, a) }

// socket PATH METHOD URL BEARER [BODY [HEADER…]]
func overSocket(a []string) error {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", a[0])
	}}, Timeout: 20 * time.Second}
	return send(c, a[1:])
}

func send(c *http.Client, a []string) error {
	body := ""
	if len(a) > 3 {
		body = a[3]
	}
	r, err := http.NewRequest(a[0], a[1], strings.NewReader(body))
	if err != nil {
		return err
	}
	if a[2] != "" && a[2] != "-" {
		r.Header.Set("Authorization", "Bearer "+a[2])
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range a[min(4, len(a)):] {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Add(k, v)
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	return answer(resp)
}

// ptrace PID attaches to a process.
func ptrace(a []string) error {
	pid, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// squeeze PID takes a process its open files and its priority.
func squeeze(a []string) error {
	pid, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	none := unix.Rlimit{}
	return errors.Join(
		unix.Prlimit(pid, unix.RLIMIT_NOFILE, &none, nil), unix.Prlimit(pid, unix.RLIMIT_CPU, &none, nil),
		unix.Setpriority(unix.PRIO_PROCESS, pid, 19), unix.SchedSetaffinity(pid, &unix.CPUSet{}),
	)
}

// listen PATH binds a unix socket and answers every request with a forgery.
func listen(a []string) error {
	l, err := net.Listen("unix", a[0])
	if err != nil {
		return err
	}
	defer l.Close()
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "forged") }))
	return nil
}

// leave-socket PATH leaves a socket in the file system.
func leaveSocket(a []string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: a[0], Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// forks N starts processes that stay, and says how many it got.
func forks(a []string) error {
	want, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	n := 0
	for ; n < want; n++ {
		if err := exec.Command("sleep", "300").Start(); err != nil {
			break
		}
	}
	fmt.Println("started", n)
	if n < want {
		return errors.New("no more processes")
	}
	time.Sleep(20 * time.Second)
	return nil
}

// eat MB takes memory and keeps it.
func eat(a []string) error {
	n, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	var keep [][]byte
	for range n {
		keep = append(keep, bytes.Repeat([]byte{1}, 1<<20))
	}
	time.Sleep(20 * time.Second)
	fmt.Println("kept", len(keep), "MB")
	return nil
}

// open N opens that many files.
func openMany(a []string) error {
	n, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(n + 64), Max: uint64(n + 64)})
	var keep []*os.File
	for range n {
		f, err := os.Open("/dev/null")
		if err != nil {
			fmt.Println("opened", len(keep))
			return err
		}
		keep = append(keep, f)
	}
	fmt.Println("opened", len(keep))
	return nil
}

// serve ADDRESS FILE is a dev server that writes where it listens.
func serveDev(a []string) error {
	l, err := net.Listen("tcp", a[0])
	if err != nil {
		return err
	}
	if err := os.WriteFile(a[1], []byte(l.Addr().String()), 0o644); err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "dev server") }))
}

// loot OUT [DIR…] copies everything an agent can read of processes and files into
// one file.
func loot(a []string) error {
	out, err := os.Create(a[0])
	if err != nil {
		return err
	}
	defer out.Close()
	fmt.Fprintln(out, strings.Join(os.Environ(), "\n"))
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		for _, f := range []string{"environ", "cmdline", "mountinfo", "comm"} {
			take(out, filepath.Join(p, f))
		}
		fds, _ := filepath.Glob(p + "/fd/*")
		for _, fd := range fds {
			to, _ := os.Readlink(fd)
			fmt.Fprintln(out, fd, to)
		}
	}
	for _, dir := range a[1:] {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == a[0] || d.IsDir() && (d.Name() == "proc" || d.Name() == "sys") {
				return nil //nolint:nilerr // what cannot be read is passed over
			}
			fmt.Fprintln(out, p)
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Size() < 1<<20 {
				take(out, p)
			}
			return nil
		})
	}
	return nil
}

func take(out io.Writer, name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(out, "\n== %s\n", name)
	_, _ = io.Copy(out, io.LimitReader(f, 1<<20))
}
