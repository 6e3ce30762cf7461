package cli_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/cli"
)

// doctorAWS runs `lazy doctor --aws` with a helper that prints out, or is missing.
func doctorAWS(t *testing.T, out string, fails error, args ...string) (code int, stdout string, argv []string) {
	t.Helper()
	var o, e bytes.Buffer
	env := &cli.Env{
		In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(string) string { return "" }, Dir: t.TempDir(),
		Self: filepath.Join(t.TempDir(), "lazy"), TTY: func(any) bool { return false }, Piped: func() bool { return false },
		LookPath: func(name string) (string, error) {
			if out == "" && fails == nil {
				return "", errors.New("not found")
			}
			return "/bin/" + name, nil
		},
		Output: func(_ context.Context, _ string, a ...string) (string, error) { argv = a; return out, fails },
	}
	code = cli.Main(t.Context(), env, append([]string{"doctor", "--aws"}, args...))
	return code, o.String() + e.String(), argv
}

func TestDoctorHasAnAccountLookedAt(t *testing.T) {
	code, out, argv := doctorAWS(t, `{"checks":[{"name":"identity","state":"ok","detail":"arn:aws:x"},{"name":"VPCs","state":"warn","detail":"few","remedy":"Ask."}]}`, nil,
		"--region", "eu-west-1", "--stage", "test")
	if code != 0 || !strings.Contains(out, "arn:aws:x") || !strings.Contains(out, "Ask.") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if !slices.Equal(argv, []string{"/bin/lazy-aws", "--stage", "test", "--region", "eu-west-1"}) {
		t.Errorf("it ran %q", argv)
	}
	code, out, _ = doctorAWS(t, `{"checks":[{"name":"identity","state":"fail","detail":"nobody"}]}`, nil)
	if code != 1 || !strings.Contains(out, "nobody") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestDoctorWithoutItsHelperSaysWhatToInstall(t *testing.T) {
	code, out, argv := doctorAWS(t, "", nil)
	if code != 1 || !strings.Contains(out, "go install ./cmd/lazy-aws") || argv != nil {
		t.Errorf("exit %d, ran %q:\n%s", code, argv, out)
	}
	for _, c := range []struct {
		out  string
		fail error
	}{{"not json", nil}, {`{"checks":[]}`, nil}, {"x", errors.New("exit status 1")}} {
		if code, out, _ := doctorAWS(t, c.out, c.fail); code != 1 || !strings.Contains(out, "fail") {
			t.Errorf("exit %d:\n%s", code, out)
		}
	}
}
