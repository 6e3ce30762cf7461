package integration_test

import (
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/names"
)

const modulePath = "github.com/lazyplane/lazyplane/"

// checked are the folders whose every file a check must reach.
var checked = []string{"statemachines", "functions", "infra", "events", "integration"}

// unread are files that no program reads, each with its reason.
var unread = map[string]string{
	"integration/hostile/README.md": "it tells people what the corpus is",
	"integration/soak/main.go":      "it plays the scenarios of integration/crash, whose test is the short form, for hours",
}

// tree is the source as far as it matters here.
type tree struct {
	root     string
	files    []string          // of the checked folders, slash-separated
	packages map[string]*unit  // by path below the module
	text     map[string]string // of every Go file, and of .ci/run
}

// unit is one package.
type unit struct {
	tests   bool
	imports []string
}

func readTree(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	s := &tree{root: root, packages: map[string]*unit{}, text: map[string]string{}}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			// What a build leaves is no source.
			if name := d.Name(); rel != "." && strings.HasPrefix(name, ".") || name == "node_modules" || name == "__pycache__" || name == "rapid" || strings.HasPrefix(name, "cdk.out") || rel == "infra/dist" {
				return fs.SkipDir
			}
			return nil
		}
		if top, _, _ := strings.Cut(rel, "/"); slices.Contains(checked, top) && d.Type().IsRegular() {
			s.files = append(s.files, rel)
		}
		if strings.HasSuffix(rel, ".go") && !strings.Contains(rel, "testdata/") {
			return s.source(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	s.text[".ci/run"] = string(run)
	return s
}

func (s *tree) source(rel string) error {
	b, err := os.ReadFile(filepath.Join(s.root, rel))
	if err != nil {
		return err
	}
	s.text[rel] = string(b)
	f, err := parser.ParseFile(token.NewFileSet(), rel, b, parser.ImportsOnly)
	if err != nil {
		return err
	}
	u := s.packages[path.Dir(rel)]
	if u == nil {
		u = &unit{}
		s.packages[path.Dir(rel)] = u
	}
	u.tests = u.tests || strings.HasSuffix(rel, "_test.go")
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if to, ours := strings.CutPrefix(p, modulePath); ours {
			u.imports = append(u.imports, to)
		}
	}
	return nil
}

// reached are the packages that a step of the checks runs: those with tests, those
// that a step or a test starts by their path, and all that these import.
func (s *tree) reached() map[string]bool {
	all := map[string]bool{}
	var visit func(p string)
	visit = func(p string) {
		if u := s.packages[p]; u != nil && !all[p] {
			all[p] = true
			for _, i := range u.imports {
				visit(i)
			}
		}
	}
	for p, u := range s.packages {
		started := slices.ContainsFunc(names.Surfaces(), func(f string) bool { return p == "functions/"+f })
		for file, text := range s.text {
			if file == ".ci/run" || path.Dir(file) != p {
				started = started || strings.Contains(text, "./"+p) || strings.Contains(text, `"`+p+`"`) ||
					strings.Contains(text, "go run ./build") && p == "infra/build"
			}
		}
		if u.tests || started {
			visit(p)
		}
	}
	return all
}

// read reports whether a program names the file, embeds it, or goes through its
// folder of test data.
func (s *tree) read(file string, reached map[string]bool) bool {
	dir, base := path.Split(file)
	dir = path.Clean(dir)
	data, _, isData := strings.Cut(file, "/testdata/")
	for from, text := range s.text {
		if from != ".ci/run" && !reached[path.Dir(from)] {
			continue
		}
		if strings.Contains(text, `"`+path.Base(dir)+"/*"+path.Ext(base)+`"`) && path.Dir(from) == path.Dir(dir) {
			return true
		}
		if strings.Contains(text, `"`+base+`"`) || strings.Contains(text, file) || strings.Contains(text, "/"+base) {
			return true
		}
		if isData && path.Dir(from) == data && strings.Contains(text, `"testdata`) {
			return true
		}
		if path.Dir(from) == dir {
			if ext := path.Ext(base); strings.Contains(text, `"`+strings.TrimSuffix(base, ext)+`"`) && strings.Contains(text, `"`+ext+`"`) {
				return true
			}
			for _, m := range embeds.FindAllStringSubmatch(text, -1) {
				for pattern := range strings.FieldsSeq(m[1]) {
					if ok, err := path.Match(pattern, base); err == nil && ok || strings.TrimPrefix(pattern, "all:") == base {
						return true
					}
				}
			}
		}
		// A command that is given a folder reads what is meant for it there.
		if from == ".ci/run" && strings.Contains(text, "cd "+dir+" ") && (base == "package.json" || base == "package-lock.json" || base == "cdk.json") {
			return true
		}
	}
	return false
}

var embeds = regexp.MustCompile(`(?m)^//go:embed (.*)$`)

// Every file of these folders is compiled, run or read by a step of .ci/run.
func TestEveryFileIsReachedByACheck(t *testing.T) {
	s := readTree(t)
	for _, step := range []string{"go build ./...", "go vet ./...", " ./... |", "step_infra()", "step_definitions()"} {
		if !strings.Contains(s.text[".ci/run"], step) {
			t.Errorf(".ci/run has no %q any more", step)
		}
	}
	reached := s.reached()
	for _, file := range s.files {
		switch dir := path.Dir(file); {
		case unread[file] != "":
		case strings.HasSuffix(file, ".go") && !strings.Contains(file, "testdata/"):
			if !reached[dir] {
				t.Errorf("%s is in a package that nothing tests, starts or imports", file)
			}
			if !compiled(t, s.root, file) {
				t.Errorf("%s is compiled for no platform that is checked", file)
			}
		case !s.read(file, reached):
			t.Errorf("%s is read by nothing", file)
		}
	}
	for file := range unread {
		if !slices.Contains(s.files, file) {
			t.Errorf("%s is excused and is not there", file)
		}
	}
	if len(s.files) < 100 {
		t.Errorf("only %d files were looked at", len(s.files))
	}
}

// compiled reports whether a file is part of a build that some step makes.
func compiled(t *testing.T, root, file string) bool {
	t.Helper()
	for _, system := range []string{"linux", "darwin", "windows"} {
		c := build.Default
		c.GOOS, c.CgoEnabled = system, false
		ok, err := c.MatchFile(filepath.Join(root, path.Dir(file)), path.Base(file))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return true
		}
	}
	return false
}

// Every function has a sample, and the folder of functions has nothing else.
func TestEveryFunctionIsDeployedAndHasASample(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join("..", "functions"))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, d := range dirs {
		have = append(have, d.Name())
		if _, err := os.Stat(filepath.Join("..", "functions", d.Name(), "event.json")); err != nil {
			t.Error(err)
		}
	}
	want := names.Surfaces()
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("functions/ has %v, deployed are %v", have, want)
	}
}

var (
	inRow  = regexp.MustCompile("`([a-z0-9/]+)` (Test[A-Za-z0-9]+(?:, Test[A-Za-z0-9]+)*)")
	inText = regexp.MustCompile(`\((Test[A-Za-z0-9]+)\)`)
)

// The tests that docs/faults.md names are there.
func TestEveryFaultOfAServiceHasItsTest(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := readTree(t)
	has := func(pkg, test string) bool {
		for file, text := range s.text {
			if strings.HasSuffix(file, "_test.go") && (pkg == "" || path.Dir(file) == pkg) && strings.Contains(text, "\nfunc "+test+"(") {
				return true
			}
		}
		return false
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		found := inRow.FindAllStringSubmatch(line, -1)
		if strings.HasPrefix(line, "| ") && !strings.Contains(line, "| What it gives |") {
			if rows++; len(found) == 0 {
				t.Errorf("without a test: %s", line)
			}
		}
		for _, m := range found {
			for test := range strings.SplitSeq(m[2], ", ") {
				if !has(m[1], test) {
					t.Errorf("%s has no %s", m[1], test)
				}
			}
		}
		for _, m := range inText.FindAllStringSubmatch(line, -1) {
			if !has("", m[1]) {
				t.Errorf("there is no %s", m[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows were read", rows)
	}
}
