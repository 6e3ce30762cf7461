package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/req"
)

// reachable collects the functions of this package that a function calls, directly
// or not, by name: more than are called, never fewer.
func reachable(t *testing.T, from ...string) map[string]*ast.FuncDecl {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]*ast.FuncDecl{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				all[fn.Name.Name] = append(all[fn.Name.Name], fn)
			}
		}
	}
	out := map[string]*ast.FuncDecl{}
	for len(from) > 0 {
		name := from[0]
		from = from[1:]
		if out[name] != nil {
			continue
		}
		for _, fn := range all[name] {
			out[name] = fn
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch f := call.Fun.(type) {
				case *ast.Ident:
					from = append(from, f.Name)
				case *ast.SelectorExpr:
					from = append(from, f.Sel.Name)
				}
				return true
			})
		}
	}
	return out
}

// The functions that assemble a prompt read comments and cannot read the journal.
func TestPromptAssemblyDoesNotReachTheTextOfTheJournal(t *testing.T) {
	req.Covers(t, "JR-003")
	fns := reachable(t, "prompt", "syncPrompt")
	names := slices.Sorted(maps.Keys(fns))
	for _, want := range []string{"comments", "eachComment", "past"} {
		if fns[want] == nil {
			t.Errorf("prompt assembly does not reach %s: %v", want, names)
		}
	}
	reads := func(name string) bool {
		found := false
		ast.Inspect(fns[name], func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.BasicLit:
				found = found || strings.Contains(x.Value, "JRN#")
			case *ast.SelectorExpr:
				id, _ := x.X.(*ast.Ident)
				found = found || x.Sel.Name == "Entry" && id != nil && id.Name == "raise"
			}
			return true
		})
		return found
	}
	for _, name := range names {
		if reads(name) {
			t.Errorf("prompt assembly reaches %s, which reads the journal", name)
		}
	}
	fns = reachable(t, "showJournal")
	if !reads("showJournal") {
		t.Error("the reader of the journal is not told from others")
	}
}
