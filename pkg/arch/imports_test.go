package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/lazyplane/lazyplane"

// listed is what go list says of one package.
type listed struct {
	Dir            string
	ImportPath     string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string
	TestGoFiles    []string
	XTestGoFiles   []string
	Imports        []string
	TestImports    []string
	XTestImports   []string
}

func (p listed) rel() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// production lists the files that are compiled into a program somewhere, also
// those for other operating systems.
func (p listed) production() []string {
	var files []string
	for _, f := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, filepath.Join(p.Dir, f))
		}
	}
	return files
}

// list runs go list once for all tests. It walks the tree first: go test
// remembers the directories a test opened, not those that a child of it did, and
// would keep an old answer when a package is added.
var list = sync.OnceValues(func() ([]listed, error) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []listed
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		all = append(all, p)
	}
})

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// imports of the package's production files on every operating system.
func (p listed) imports() ([]string, error) {
	seen := map[string]bool{}
	for _, f := range p.production() {
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// matches reports whether a package path fits one of the patterns.
func matches(pkg string, patterns []string) bool {
	for _, p := range patterns {
		if p == pkg {
			return true
		}
		if dir, ok := strings.CutSuffix(p, "/*"); ok && path.Dir(pkg) == dir {
			return true
		}
	}
	return false
}

// layerOf finds the layer that names pkg; a full name wins over a pattern.
func layerOf(pkg string) (layer, bool) {
	for _, l := range layers() {
		if slices.Contains(l.packages, pkg) {
			return l, true
		}
	}
	for _, l := range layers() {
		if matches(pkg, l.packages) {
			return l, true
		}
	}
	return layer{}, false
}

func isStandard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".")
}

// below reports whether imp is module mod or a package in it, in any major
// version.
func below(imp, mod string) bool { return imp == mod || strings.HasPrefix(imp, mod+"/") }

// judge says what is wrong with an import, or "".
func judge(l layer, pkg, imp string) string {
	if isStandard(imp) {
		for _, no := range l.never {
			if below(imp, no) && exceptions()[pkg+" -> "+imp] == "" {
				return fmt.Sprintf("layer %q stays away from it", l.name)
			}
		}
		return ""
	}
	if below(imp, module) {
		to := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
		if exceptions()[pkg+" -> "+to] != "" {
			return ""
		}
		target, ok := layerOf(to)
		if !ok {
			return "which is in no layer"
		}
		if matches(to, l.may) || slices.Contains(l.may, target.name) || l.within && target.name == l.name {
			return ""
		}
		return fmt.Sprintf("layer %q may not import layer %q; turn the arrow round, or edit layers() in pkg/arch/table_test.go", l.name, target.name)
	}
	if l.anything {
		return ""
	}
	for _, mod := range append(sdks()[pkg], l.also...) {
		if below(imp, mod) {
			return ""
		}
	}
	return "that module is not among this package's; edit sdks() in pkg/arch/table_test.go"
}

func TestImportsPointToTheCentreOnly(t *testing.T) {
	arrows := 0
	for _, p := range packages(t) {
		l, ok := layerOf(p.rel())
		if !ok {
			t.Errorf("%s is in no layer: add it to layers() in pkg/arch/table_test.go", p.rel())
			continue
		}
		imports, err := p.imports()
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range imports {
			arrows++
			if wrong := judge(l, p.rel(), imp); wrong != "" {
				t.Errorf("%s imports %s: %s", p.rel(), imp, wrong)
			}
		}
	}
	t.Logf("%d imports checked", arrows)
}

// TestTheRuleRefusesArrowsOutward guards the guard: a table that allows
// everything would pass the test above.
func TestTheRuleRefusesArrowsOutward(t *testing.T) {
	for _, arrow := range [][2]string{
		{"pkg/fault", module + "/pkg/task"},
		{"pkg/task", module + "/pkg/store"},
		{"pkg/task", "net/http"},
		{"pkg/task", "github.com/aws/aws-sdk-go-v2/service/dynamodb"},
		{"pkg/app", module + "/pkg/store/sqlite"},
		{"pkg/app", module + "/pkg/op"},
		{"pkg/op", module + "/pkg/rpc"},
		{"pkg/store/sqlite", module + "/pkg/app"},
		{"pkg/engine/local", module + "/pkg/store/sqlite"},
		{"pkg/store/sqlite", module + "/pkg/store/storetest"},
		{"pkg/rpc", module + "/pkg/mcpserver"},
		{"pkg/rpc", module + "/pkg/store/dynamo"},
		{"pkg/rpc", module + "/pkg/wire/local"},
		{"pkg/cli", module + "/pkg/app"},
		{"pkg/cli", module + "/pkg/store/sqlite"},
		{"pkg/cli", "modernc.org/sqlite"},
		{"pkg/wire/local", module + "/pkg/cli"},
		{"pkg/wire/local", module + "/infra"},
		{"pkg/task", module + "/pkg/req"},
		{"infra", module + "/pkg/app"},
		{"cmd/lazy", module + "/pkg/cli"},
		{"cmd/lazy", "github.com/spf13/cobra"},
	} {
		l, ok := layerOf(arrow[0])
		if !ok {
			t.Errorf("%s is in no layer", arrow[0])
		}
		if judge(l, arrow[0], arrow[1]) == "" {
			t.Errorf("%s may import %s", arrow[0], arrow[1])
		}
	}
}

// Tests may reach further than the code they test, for a real adapter is the
// best fake, but not to where programs are put together.
func TestTestsStayBelowTheComposition(t *testing.T) {
	outer := []string{"composition", "functions", "infrastructure", "lazy", "lazy-agent"}
	for _, p := range packages(t) {
		l, _ := layerOf(p.rel())
		if slices.Contains(outer, l.name) || slices.Contains([]string{"integration", "programs", "commands"}, l.name) {
			continue
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			to, ok := strings.CutPrefix(imp, module+"/")
			if !ok {
				continue
			}
			if target, _ := layerOf(to); slices.Contains(outer, target.name) {
				t.Errorf("the tests of %s import %s: write that test in integration/ or beside the composition", p.rel(), to)
			}
		}
	}
}

func TestEveryPackageIsInOneLayer(t *testing.T) {
	seen := map[string]string{}
	for _, l := range layers() {
		for _, p := range l.packages {
			if other, ok := seen[p]; ok {
				t.Errorf("%s is in layers %q and %q", p, other, l.name)
			}
			seen[p] = l.name
		}
		for _, name := range l.may {
			known := strings.Contains(name, "/") || slices.ContainsFunc(layers(), func(l layer) bool { return l.name == name })
			if !known {
				t.Errorf("layer %q may import %q, which is no layer", l.name, name)
			}
		}
	}
}

func TestTheLauncherIsMadeOfTheStandardLibrary(t *testing.T) {
	for _, dep := range deps(t, module+"/cmd/lazy") {
		if !isStandard(dep) && dep != module+"/cmd/lazy" && dep != module+"/pkg/bootstrap" {
			t.Errorf("cmd/lazy depends on %s, which must be compiled before its first line", dep)
		}
		if dep == "net/http" || dep == "encoding/json" {
			t.Errorf("cmd/lazy depends on %s, which is slow to compile", dep)
		}
	}
}

func TestProgramsStayFreeOfWhatTheyDoNotNeed(t *testing.T) {
	exists := map[string]bool{}
	for _, p := range packages(t) {
		exists[p.rel()] = true
	}
	for pkg, banned := range without() {
		if !exists[pkg] {
			continue
		}
		t.Run(pkg, func(t *testing.T) {
			for _, dep := range deps(t, module+"/"+pkg) {
				for _, mod := range banned {
					if below(dep, mod) {
						t.Errorf("it depends on %s; `go list -deps` and `go mod why` show the way", dep)
					}
				}
			}
		})
	}
}

// deps lists everything pkg is compiled from.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
