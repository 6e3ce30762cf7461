package emulated_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/integration/emulated"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// A later version of the programs, made of this one: every record of a turn, every
// word between a supervisor and the functions, and every payload has a field more,
// which is always written, and a second version of one step stands beside the
// first. The compiler gets the changed files in place of the ones that are there.

// laterMark is the field's name, and what is in it.
const (
	laterMark  = "later_field"
	laterStep  = "prepare.v2"
	laterHint  = "from the later definition"
	laterField = "\n\tLaterField laterMark `json:\"" + laterMark + "\"`\n"
)

// laterTypes are the types that a later version adds to, by file.
var laterTypes = map[string][]string{
	"pkg/turn/wire.go":  {"Hello", "Welcome", "Command", "BeatIn", "BeatOut", "Ack", "GitIn", "GitOut"},
	"pkg/turn/vault.go": {"UploadIn", "UploadOut"},
	"pkg/turn/turn.go":  {"Turn", "Run", "Response"},
	"pkg/task/task.go":  {"Task"},
	"pkg/app/record.go": {"Op"},
	"pkg/app/job.go":    {"Job"},
	"pkg/app/steps.go":  {"Payload"},
}

// laterCode is the source of the field's type in package pkg.
const laterCode = `package %s

type laterMark struct{}

func (laterMark) MarshalJSON() ([]byte, error) { return []byte("[\"later\"]"), nil }

func (*laterMark) UnmarshalJSON([]byte) error { return nil }
`

// laterPrepare is the second version of the step, which only the later definition
// can have called: it needs what the first one's payload lacks.
const laterPrepare = `
func (a *App) prepareLater(ctx context.Context, p Payload) (any, error) {
	if p.Hint != %q {
		return nil, fault.New(fault.Invalid, "the step was called without what its version needs")
	}
	return a.stepPrepare(ctx, p)
}
`

// A supervisor of the later version beats so often that a test need not wait for it.
var slowBeat = regexp.MustCompile(`(?m)^\tBeat\s+= 15 \* time\.Second`)

// later compiles the later version and returns the folder of its programs.
func later(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join("..", "..")
	overlay, err := laterSources(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := emulated.Build(t.Context(), source, bin, "-overlay", overlay); err != nil {
		t.Fatal(err)
	}
	return bin
}

// laterSources writes the changed files into dir and returns the compiler's list of
// what stands in whose place.
func laterSources(source, dir string) (string, error) {
	root, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	write := func(file string, text []byte) error {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
		return os.WriteFile(to, text, 0o600)
	}
	const limits = "pkg/names/limits.go"
	text, err := os.ReadFile(filepath.Join(root, limits))
	if err != nil {
		return "", err
	}
	if !slowBeat.Match(text) {
		return "", fmt.Errorf("%s does not say how often a supervisor beats", limits)
	}
	if err := write(limits, slowBeat.ReplaceAll(text, []byte("\tBeat = time.Second"))); err != nil {
		return "", err
	}
	for file, types := range laterTypes {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		if text, err = addFields(file, text, types); err != nil {
			return "", err
		}
		if err := write(file, text); err != nil {
			return "", err
		}
		pkg := filepath.Dir(file)
		if err := write(pkg+"/later_field.go", fmt.Appendf(nil, laterCode, filepath.Base(pkg))); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	at := filepath.Join(dir, "overlay.json")
	return at, os.WriteFile(at, list, 0o600)
}

// addFields adds the field to types, and to the payload and the table of steps what
// the second version of the step needs.
func addFields(file string, text []byte, types []string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	in := map[int]string{} // by offset
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			s, ok := n.Type.(*ast.StructType)
			if !ok || !slices.Contains(types, n.Name.Name) {
				return true
			}
			field := laterField
			if n.Name.Name == "Payload" {
				field += "\tHint string `json:\"hint,omitempty\"`\n"
			}
			in[set.Position(s.Fields.Closing).Offset] = field
			types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == n.Name.Name })
		case *ast.FuncDecl:
			if n.Name.Name != "Steps" {
				return true
			}
			ast.Inspect(n.Body, func(n ast.Node) bool {
				if table, ok := n.(*ast.CompositeLit); ok {
					in[set.Position(table.Lbrace).Offset+1] = fmt.Sprintf("%q: a.prepareLater,", laterStep)
					return false
				}
				return true
			})
			in[len(text)] = fmt.Sprintf(laterPrepare, laterHint)
		}
		return true
	})
	if len(types) > 0 {
		return nil, fmt.Errorf("%s has no %v", file, types)
	}
	var out []byte
	for n := range len(text) + 1 {
		out = append(out, in[n]...)
		if n < len(text) {
			out = append(out, text[n])
		}
	}
	return out, nil
}

// laterDefinition is a flow's definition with the second version of the step.
func laterDefinition(src []byte) ([]byte, error) {
	old := fmt.Sprintf("%q: %q", "step", names.StepPrepare)
	now := fmt.Sprintf("%q: %q, %q: %q", "step", laterStep, "hint", laterHint)
	if strings.Count(string(src), old) != 1 {
		return nil, fmt.Errorf("the definition does not call %s once", names.StepPrepare)
	}
	return []byte(strings.Replace(string(src), old, now, 1)), nil
}
