package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stream = `{"Action":"start","Package":"x"}
{"Action":"output","Package":"x","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"x","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"x","Test":"TestA"}
{"Action":"output","Package":"x","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"x","Test":"TestB","Output":"    x_test.go:3: no emulator\n"}
{"Action":"output","Package":"x","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"x","Test":"TestB"}
{"Action":"output","Package":"x","Output":"PASS\n"}
{"Action":"output","Package":"x","Output":"ok  \tx\t0.002s\n"}
{"Action":"pass","Package":"x"}
`

func TestAGreenRunReadsLikeGoTestWithItsSkips(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "kept.json")
	var out strings.Builder
	ok, err := run(strings.NewReader(stream), &out, keep)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	want := "ok  \tx\t0.002s\nskipped x.TestB: x_test.go:3: no emulator\n1 tests passed, 1 skipped, 0 failures\n"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
	if kept, err := os.ReadFile(keep); err != nil || string(kept) != stream {
		t.Errorf("kept %q, %v", kept, err)
	}
}

func TestAFailureIsPrintedWithWhatTheTestSaid(t *testing.T) {
	in := `{"Action":"output","Package":"x","Test":"TestC","Output":"    x_test.go:9: got 1\n"}
{"Action":"output","Package":"x","Test":"TestC","Output":"--- FAIL: TestC (0.00s)\n"}
{"Action":"fail","Package":"x","Test":"TestC"}
{"Action":"output","Package":"x","Output":"FAIL\tx\t0.1s\n"}
{"Action":"fail","Package":"x"}
`
	var out strings.Builder
	ok, err := run(strings.NewReader(in), &out, "")
	if err != nil || ok {
		t.Errorf("got %v, %v", ok, err)
	}
	for _, want := range []string{"x_test.go:9: got 1", "--- FAIL: TestC", "FAIL\tx\t0.1s", "0 tests passed, 0 skipped, 1 failures\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

func TestWhatDoesNotBuildOrEndsEarlyIsAFailure(t *testing.T) {
	for name, in := range map[string]string{
		"build":   `{"ImportPath":"x","Action":"build-output","Output":"x.go:1: undefined\n"}` + "\n" + `{"ImportPath":"x","Action":"build-fail"}`,
		"cut off": `{"Action":"start","Package":"x"}`,
	} {
		var out strings.Builder
		if ok, err := run(strings.NewReader(in), &out, ""); ok || err != nil {
			t.Errorf("%s: got %v, %v\n%s", name, ok, err, out.String())
		}
	}
}
