// Command serve runs a scripted model endpoint for a person who wants to point an
// agent CLI at it: go run ./integration/modelfake/serve script.txt
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/lazyplane/lazyplane/integration/modelfake"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:0", "address to listen on")
	bodies := flag.Bool("bodies", false, "print what is sent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, flag.Args(), *bodies); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, files []string, bodies bool) error {
	if len(files) == 0 {
		return errors.New("usage: serve [-listen ADDR] [-bodies] SCRIPT…")
	}
	var all modelfake.Script
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		s, err := modelfake.Parse(f, b)
		if err != nil {
			return err
		}
		all = append(all, s...)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s := modelfake.New(all)
	s.Log = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	var h http.Handler = s
	if bodies {
		h = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			s.ServeHTTP(w, q)
			if all := s.Requests(); len(all) > 0 {
				fmt.Printf("%s\n", all[len(all)-1].Body)
			}
		})
	}
	fmt.Printf(`listening on http://%s
  ANTHROPIC_BASE_URL=http://%[1]s ANTHROPIC_API_KEY=x claude -p …
  codex: base_url = "http://%[1]s/v1", wire_api = "responses"
  opencode: options.baseURL = "http://%[1]s/v1"
`, l.Addr())
	server := &http.Server{Handler: h}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
