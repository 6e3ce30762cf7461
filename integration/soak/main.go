// Command soak plays the crash scenarios for a given time, ending processes at
// one durable step after the other, and prints how many steps and deaths there
// were and what was found. It is the long form of the tests in integration/crash.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lazyplane/lazyplane/integration/crash"
)

func main() {
	crash.Main()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// tally is what all workers count together.
type tally struct {
	mu       sync.Mutex
	runs     int
	points   int
	deaths   int
	findings int
}

func run() error {
	long := flag.Duration("for", 10*time.Minute, "how long to play")
	only := flag.String("scenario", "", "names of scenarios, by commas; all when empty")
	wide := flag.Int("wide", 2, "worlds at once")
	from := flag.Int("from", 1, "first point to end a process at")
	random := flag.Bool("random", false, "end processes at one to three random points instead of each in turn")
	keep := flag.Bool("keep", false, "keep the worlds in which something was found")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *long)
	defer cancel()
	places, err := crash.NewPlaces()
	if err != nil {
		return err
	}
	if !*keep {
		defer places.Remove()
	}
	var t tally
	chosen := slices.DeleteFunc(crash.Scenarios(), func(s crash.Scenario) bool {
		return *only != "" && !strings.Contains(","+*only+",", ","+s.Name+",")
	})
	for _, s := range chosen {
		if ctx.Err() != nil {
			break
		}
		dir, err := places.Next()
		if err != nil {
			return err
		}
		clean, err := crash.Play(ctx, places.Home, dir, s)
		if err != nil {
			return fmt.Errorf("the clean run: %w", err)
		}
		n := len(clean.Points)
		fmt.Printf("%-8s N = %d: %s\n", s.Name, n, s.Doc)
		work := make(chan []int)
		var workers sync.WaitGroup
		for range *wide {
			workers.Go(func() {
				for at := range work {
					t.play(ctx, places, s, at, *keep)
				}
			})
		}
		if *random {
			share := time.Now().Add(*long / time.Duration(len(chosen)))
			for time.Now().Before(share) && ctx.Err() == nil {
				at := make([]int, 1+rand.N(3))
				for i := range at {
					at[i] = 1 + rand.N(n+n/3)
				}
				work <- at
			}
		} else {
			for i := *from; i <= n && ctx.Err() == nil; i++ {
				work <- []int{i}
			}
		}
		close(work)
		workers.Wait()
	}
	fmt.Printf("%d runs, %d durable steps, %d deaths, %d findings\n", t.runs, t.points, t.deaths, t.findings)
	if t.findings > 0 {
		return fmt.Errorf("%d findings", t.findings)
	}
	return nil
}

func (t *tally) play(ctx context.Context, places *crash.Places, s crash.Scenario, at []int, keep bool) {
	dir, err := places.Next()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return
	}
	out, err := crash.Play(ctx, places.Home, dir, s, at...)
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs++
	t.points += len(out.Points)
	t.deaths += len(out.Died)
	if err != nil {
		t.findings++
		fmt.Printf("FINDING in %s: %v\n", dir, err)
	}
	if err == nil || !keep {
		_ = os.RemoveAll(dir)
	}
}
