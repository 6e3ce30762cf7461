package git

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain runs one operation and dies at a given crash point when the parent
// test asks for it; a process that is really killed leaves real leftovers.
func TestMain(m *testing.M) {
	if job := os.Getenv("LAZY_TEST_JOB"); job != "" {
		if err := child(context.Background(), job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// job is what a child process does.
type job struct {
	Dir    string
	Do     string
	Die    int // at this crash point, counted from 1; 0 is never
	Squash Squash
	Commit string
	WS     Workspace
	Spec   WorkspaceSpec
	Tip    string
	Next   string
}

func child(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	n := 0
	r, err := Open(ctx, j.Dir, WithCrashPoint(func(point string) {
		if n++; n == j.Die {
			fmt.Println("died at " + point)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}))
	if err != nil {
		return err
	}
	switch j.Do {
	case "land":
		return r.Land(ctx, j.Squash, j.Commit)
	case "workspace":
		_, err := r.CreateWorkspace(ctx, j.Spec)
		return err
	case "advance":
		u, err := r.Untrusted(j.WS, j.Tip)
		if err != nil {
			return err
		}
		return u.Advance(ctx, j.Next)
	case "commit":
		u, err := r.Untrusted(j.WS, j.Tip)
		if err != nil {
			return err
		}
		c, err := u.Prepare(ctx, CommitSpec{Message: "work", Author: author, When: when})
		if err != nil {
			return err
		}
		fmt.Println("row " + c.Parent + " " + c.Commit) // stands for the durable row
		return r.MoveRef(ctx, "refs/heads/"+j.WS.Branch, c.Commit, c.Parent)
	}
	return fmt.Errorf("no job %q", j.Do)
}

// run starts a child. It returns where it died, "" when it finished.
func (j job) run(t *testing.T) (died, row string) {
	t.Helper()
	b, err := json.Marshal(j)
	must(t, err)
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), "LAZY_TEST_JOB="+string(b))
	out, err := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "died at "); ok {
			died = p
		}
		if p, ok := strings.CutPrefix(line, "row "); ok {
			row = p
		}
	}
	if err != nil && died == "" {
		t.Fatalf("child: %v: %s", err, out)
	}
	return died, row
}

// everyCrash makes a fixture for each crash point of a job, kills the job there,
// and calls check. It returns the points in order.
func everyCrash(t *testing.T, prepare func(t *testing.T) (*fixture, job), check func(t *testing.T, f *fixture, j job, died, row string)) []string {
	t.Helper()
	var points []string
	for n := 1; ; n++ {
		done := false
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			f, j := prepare(t)
			j.Die = n
			died, row := j.run(t)
			if died == "" {
				done = true
				return
			}
			points = append(points, died)
			check(t, f, j, died, row)
		})
		if done || t.Failed() {
			return points
		}
	}
}
