package arch_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLines is the length at which a file is cut.
const maxLines = 500

// source is one parsed file.
type source struct {
	pkg       listed
	name      string // below the module, for messages
	fset      *token.FileSet
	file      *ast.File
	text      []byte
	test      bool
	generated bool
}

func (s source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(pos).Line)
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, p := range packages(t) {
		files := p.production()
		for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			files = append(files, filepath.Join(p.Dir, f))
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s := source{pkg: p, text: text, fset: token.NewFileSet()}
			s.name = path.Join(p.rel(), filepath.Base(f))
			s.test = strings.HasSuffix(f, "_test.go")
			s.file, err = parser.ParseFile(s.fset, f, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			s.generated = ast.IsGenerated(s.file)
			all = append(all, s)
		}
	}
	return all
}

func TestEveryPackageHasOneDocComment(t *testing.T) {
	docs := map[string][]string{}
	for _, s := range sources(t) {
		rel := s.pkg.rel()
		if s.test {
			continue
		}
		if docs[rel] == nil {
			docs[rel] = []string{}
		}
		if s.file.Doc == nil {
			continue
		}
		docs[rel] = append(docs[rel], s.name)
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(s.file.Doc.Text(), want) {
			t.Errorf("%s: the package comment does not begin with %q", s.name, want)
		}
	}
	for rel, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments: %s", rel, len(files), strings.Join(files, ", "))
		}
	}
}

// standardMethods are known by everybody and need a comment only when they
// surprise.
var standardMethods = []string{
	"Error", "String", "GoString", "Unwrap", "Is", "As", "Format", "LogValue",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText",
	"Read", "Write", "Close", "ServeHTTP", "Len", "Less", "Swap",
}

func TestEveryExportedNameHasADocComment(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated || !strings.HasPrefix(s.pkg.rel(), "pkg/") {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, wrong := range undocumented(decl) {
				t.Errorf("%s: %s", s.at(decl.Pos()), wrong)
			}
		}
	}
}

// undocumented lists the exported names of decl whose comment is missing or
// begins with another word.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if !ast.IsExported(name) {
			return nil
		}
		if d.Recv != nil && (!ast.IsExported(receiver(d)) || d.Doc == nil && slices.Contains(standardMethods, name)) {
			return nil
		}
		return complain(name, d.Doc)
	case *ast.GenDecl:
		var all []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				doc := spec.Doc
				if doc == nil && !d.Lparen.IsValid() {
					doc = d.Doc
				}
				if spec.Name.IsExported() {
					all = append(all, complain(spec.Name.Name, doc)...)
				}
			case *ast.ValueSpec:
				all = append(all, undocumentedValue(d, spec)...)
			}
		}
		return all
	}
	return nil
}

// undocumentedValue accepts one comment for a whole group of constants.
func undocumentedValue(d *ast.GenDecl, spec *ast.ValueSpec) []string {
	for _, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		if d.Lparen.IsValid() {
			if d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				return complain(name.Name, nil)
			}
			return nil
		}
		return complain(name.Name, d.Doc)
	}
	return nil
}

func complain(name string, doc *ast.CommentGroup) []string {
	text := doc.Text()
	if text == "" {
		return []string{name + " has no doc comment"}
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(text, "\n", " "), " ")
	if strings.TrimRight(first, ",.:;") != name {
		return []string{fmt.Sprintf("the comment of %s begins with %q", name, first)}
	}
	return nil
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func TestNoPackageRunsCodeBeforeMain(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: init; let the caller build it and pass it down", s.at(f.Pos()))
			}
		}
	}
}

func TestNoFileIsLongerThanAReaderLikes(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		if n := bytes.Count(s.text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d: cut it by what it does", s.name, n, maxLines)
		}
	}
}

// ambient are the functions that make a test wait or depend on the machine.
var ambient = map[string][]string{
	"time": {"Now", "Sleep", "Since", "Until"},
	"os":   {"Getenv", "LookupEnv", "Environ", "ExpandEnv"},
}

func TestTimeAndEnvironmentAreHandedDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || matches(s.pkg.rel(), clocks()) {
			continue
		}
		local := map[string]string{} // the name a file gives to an import
		for _, spec := range s.file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if _, ok := ambient[name]; !ok {
				continue
			}
			if spec.Name != nil {
				local[spec.Name.Name] = name
			} else {
				local[name] = name
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(ambient[local[x.Name]], sel.Sel.Name) {
				t.Errorf("%s: %s.%s; take it as an argument, or add the package to clocks() in pkg/arch/table_test.go",
					s.at(sel.Pos()), local[x.Name], sel.Sel.Name)
			}
			return true
		})
	}
}

var (
	openEnd   = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	numbered  = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b.*#\d+`)
	wastebins = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc", "base", "lib"}
)

func TestOpenEndsNameTheirIssue(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg.rel() == "pkg/arch" {
			continue
		}
		for _, group := range s.file.Comments {
			for line := range strings.Lines(group.Text()) {
				if openEnd.MatchString(line) && !numbered.MatchString(line) {
					t.Errorf("%s: %q names no issue", s.at(group.Pos()), strings.TrimSpace(line))
				}
			}
		}
	}
}

func TestPackagesAreNamedForWhatTheyHold(t *testing.T) {
	for _, p := range packages(t) {
		if name := path.Base(p.rel()); slices.Contains(wastebins, name) {
			t.Errorf("%s: a package called %s holds anything; put each thing where its type lives", p.rel(), name)
		}
	}
}
