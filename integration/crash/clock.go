package crash

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// clock is the clock of a plane: the machine's, moved ahead by what the harness
// wrote. Whatever waits on it wakes when it is moved, so that no test waits out a
// grace of half a minute.
type clock struct {
	path string

	mu      sync.Mutex
	ahead   time.Duration // guarded by mu
	waiting []waiter      // guarded by mu
}

type waiter struct {
	at time.Time
	c  chan time.Time
}

func newClock(dir string) *clock {
	k := &clock{path: filepath.Join(dir, clockFile)}
	k.look()
	go func() {
		for range time.Tick(5 * time.Millisecond) {
			k.look()
		}
	}()
	return k
}

func (k *clock) look() {
	b, err := os.ReadFile(k.path)
	var n int64
	if err == nil {
		n, _ = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ahead = max(k.ahead, time.Duration(n))
	now := time.Now().Add(k.ahead)
	left := k.waiting[:0]
	for _, w := range k.waiting {
		if w.at.After(now) {
			left = append(left, w)
			continue
		}
		w.c <- now
	}
	k.waiting = left
}

// Now is the time of the plane.
func (k *clock) Now() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Add(k.ahead)
}

// After fires when d has passed on this clock.
func (k *clock) After(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now().Add(k.ahead)
	if d <= 0 {
		c <- now
		return c
	}
	k.waiting = append(k.waiting, waiter{now.Add(d), c})
	return c
}

// setAhead moves the clock of the world in dir.
func setAhead(dir string, d time.Duration) error {
	return replace(filepath.Join(dir, clockFile), strconv.AppendInt(nil, int64(d), 10))
}
