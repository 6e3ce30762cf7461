package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/sandbox"
)

func TestAPlanThatCouldMeanMoreThanItSaysIsRefused(t *testing.T) {
	good := func() sandbox.Plan {
		return sandbox.Plan{Argv: []string{"sh"}, Dir: "/tmp", Env: []string{"A=b=c"}, Mounts: []sandbox.Mount{{Source: "/srv/x"}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*sandbox.Plan){
		"no program":          func(p *sandbox.Plan) { p.Argv = nil },
		"program is a switch": func(p *sandbox.Plan) { p.Argv[0] = "--bind" },
		"NUL in an argument":  func(p *sandbox.Plan) { p.Argv = append(p.Argv, "a\x00--bind\x00/\x00/") },
		"NUL in a variable":   func(p *sandbox.Plan) { p.Env = []string{"A=\x00"} },
		"no variable":         func(p *sandbox.Plan) { p.Env = []string{"A"} },
		"odd variable":        func(p *sandbox.Plan) { p.Env = []string{"A B=c"} },
		"relative directory":  func(p *sandbox.Plan) { p.Dir = "x" },
		"the whole machine":   func(p *sandbox.Plan) { p.Mounts[0].Source = "/" },
		"the whole inside":    func(p *sandbox.Plan) { p.Mounts[0].Target = "/" },
		"a way up":            func(p *sandbox.Plan) { p.Mounts[0].Source = "/srv/../etc" },
		"system by switch":    func(p *sandbox.Plan) { p.System = []string{"--bind"} },
	} {
		p := good()
		spoil(&p)
		if err := p.Check(); !errors.Is(err, sandbox.ErrPlan) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMountThroughALinkOrOfNothingIsRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{filepath.Join(dir, "link"), filepath.Join(dir, "link", "passwd"), filepath.Join(dir, "none")} {
		p := sandbox.Plan{Mounts: []sandbox.Mount{{Source: src}}}
		if err := p.CheckSources(); !errors.Is(err, sandbox.ErrPlan) {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestDefaultsNeverReplaceAVariableOfThePlan(t *testing.T) {
	got := strings.Join(sandbox.With([]string{"HOME=/mine", "X=1"}, "HOME=/other", "PATH=/bin"), " ")
	if want := "HOME=/mine X=1 PATH=/bin"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}
