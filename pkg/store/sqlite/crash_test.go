package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

func TestMain(m *testing.M) {
	if os.Getenv("STORE_CHILD") == "write" {
		childWrites()
	}
	os.Exit(m.Run())
}

// Each transaction of the child writes this many rows, to be found all or none.
const rowsEach = 3

// childWrites writes until it is killed, from several goroutines, and prints
// each acknowledged transaction. With STORE_KILL=point:n it kills itself at the
// nth time it comes to that point.
func childWrites() {
	point, nth, _ := strings.Cut(os.Getenv("STORE_KILL"), ":")
	left, _ := strconv.Atoi(nth)
	s, err := sqlite.Open(context.Background(), os.Getenv("STORE_PATH"), time.Now, sqlite.WithCrashPoint(func(p string) {
		if p == point {
			if left--; left == 0 {
				if me, err := os.FindProcess(os.Getpid()); err == nil {
					me.Kill()
				}
				select {}
			}
		}
	}))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	generation := os.Getenv("STORE_GENERATION")
	p := store.For("t").Project("p")
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("%s-%d-%d", generation, w, n)
				ws := []store.Write{{Act: store.Update, Item: store.Item{Key: p.Meta()}, Add: map[string]int64{"rows": rowsEach}}}
				for r := range rowsEach {
					ws = append(ws, store.Write{Act: store.Put, Item: store.Item{
						Key: p.Key("ROW#" + name + "#" + strconv.Itoa(r)), Doc: make([]byte, 100+n%3000),
						Index: map[store.Index]store.Slot{store.Due: {PK: p.PK + "#D", SK: name}},
					}, If: []store.Cond{store.Absent()}})
				}
				if err := s.Transact(context.Background(), ws...); err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println("ack", name)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// kill starts a writer, kills it after it has acknowledged a number of
// transactions, or lets it kill itself, and returns what it acknowledged.
func kill(t *testing.T, path, generation string, after int, at string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "STORE_CHILD=write", "STORE_PATH="+path, "STORE_GENERATION="+generation, "STORE_KILL="+at)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acked []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "ack ")
		if !ok {
			t.Fatalf("the writer says %q", lines.Text())
		}
		if acked = append(acked, name); len(acked) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the writer ended with %v", err)
	}
	return acked
}

// sound asks SQLite whether the file is whole.
func sound(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var answer string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&answer); err != nil || answer != "ok" {
		t.Fatalf("integrity check: %s, %v", answer, err)
	}
}

// One file lives through all the kills, so that each reopening also recovers
// what the earlier ones left.
func TestKillingTheWriterLosesNoAcknowledgedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	rnd := rand.New(rand.NewPCG(1, 2))
	acked := map[string]bool{}
	points := 0
	run := func(after int, at string) {
		t.Helper()
		points++
		for _, name := range kill(t, path, strconv.Itoa(points), after, at) {
			acked[name] = true
		}
		s, err := sqlite.Open(t.Context(), path, time.Now)
		if err != nil {
			t.Fatalf("kill %d: open: %v", points, err)
		}
		defer s.Close()
		p := store.For("t").Project("p")
		found := map[string]int{}
		count := func(into map[string]int) func(store.Item) bool {
			return func(it store.Item) bool {
				into[strings.Split(it.Key.SK, "#")[1]]++
				return true
			}
		}
		if err := store.All(t.Context(), s, store.Query{PK: p.PK, Prefix: "ROW#"}, count(found)); err != nil {
			t.Fatal(err)
		}
		due := map[string]int{}
		if err := store.All(t.Context(), s, store.Query{PK: p.PK + "#D", Index: store.Due}, count(due)); err != nil {
			t.Fatal(err)
		}
		for name := range acked {
			if found[name] != rowsEach {
				t.Fatalf("kill %d (%d, %s): acknowledged transaction %s has %d of %d rows", points, after, at, name, found[name], rowsEach)
			}
		}
		for name, n := range found {
			if n != rowsEach || due[name] != n {
				t.Fatalf("kill %d (%d, %s): half a transaction: %s has %d rows, %d in the index", points, after, at, name, n, due[name])
			}
		}
		meta, err := s.Get(t.Context(), p.Meta())
		if len(found) > 0 && (err != nil || meta.Int("rows") != int64(rowsEach*len(found))) {
			t.Fatalf("kill %d: the counter says %d, %d transactions are there: %v", points, meta.Int("rows"), len(found), err)
		}
	}
	for n := range 4 {
		run(0, fmt.Sprintf("%s:%d", sqlite.BeforeCommit, n+1))
		run(0, fmt.Sprintf("%s:%d", sqlite.AfterCommit, n+1))
	}
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	for range rounds {
		run(1+rnd.IntN(120), "")
	}
	sound(t, path)
	t.Logf("%d kills, %d acknowledged transactions", points, len(acked))
}
