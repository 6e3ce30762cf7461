package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// initMost is how many allocations one of our packages may make before main: room for
// its errors and tables, and not for an expression or a catalogue. The
// program starts three times between the start of a task and its agent, each time
// for a little of what it can do.
const initMost = 60

func TestOurPackagesDoNextToNothingBeforeMain(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs$`)
	all := line.FindAllStringSubmatch(string(out), -1)
	if len(all) < 50 {
		t.Fatalf("%d packages told of their start:\n%s", len(all), out)
	}
	for _, m := range all {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(m[1], "github.com/lazyplane/") && n > initMost {
			t.Errorf("%s makes %d allocations before main, and %d are allowed: use sync.OnceValue or pkg/pattern", m[1], n, initMost)
		}
	}
}
