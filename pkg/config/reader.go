package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// reader walks a decoded file and collects what is wrong with it, so that a
// person corrects everything in one go.
type reader struct {
	problems []string
	at       []string // paths of the problems
	open     []table
}

type table struct {
	prefix string
	values map[string]any
	seen   map[string]bool
}

func (t table) path(name string) string {
	if t.prefix == "" {
		return name
	}
	return t.prefix + "." + name
}

func (t table) names() []string { return slices.Sorted(maps.Keys(t.values)) }

func (r *reader) table(prefix string, values map[string]any) table {
	t := table{prefix: prefix, values: values, seen: map[string]bool{}}
	r.open = append(r.open, t)
	return t
}

func (r *reader) problem(path, text string) {
	r.at = append(r.at, path)
	r.problems = append(r.problems, path+": "+text)
}

// has reports whether something is wrong at or below path.
func (r *reader) has(path string) bool {
	return slices.ContainsFunc(r.at, func(p string) bool { return p == path || strings.HasPrefix(p, path+".") })
}

// finish refuses every setting that nothing asked for, by its name.
func (r *reader) finish() {
	for _, t := range r.open {
		for _, name := range t.names() {
			if t.seen[name] {
				continue
			}
			text := "there is no such setting"
			if near := nearest(name, slices.Sorted(maps.Keys(t.seen))); near != "" {
				text += "; did you mean " + near + "?"
			}
			r.problem(t.path(name), text)
		}
	}
}

func read[T any](r *reader, t table, name, want string, to *T) bool {
	t.seen[name] = true
	v, ok := t.values[name]
	if !ok {
		return false
	}
	x, ok := v.(T)
	if !ok {
		r.problem(t.path(name), fmt.Sprintf("expected %s, got %s", want, kind(v)))
		return false
	}
	*to = x
	return true
}

func (r *reader) section(t table, name string, f func(table)) {
	var m map[string]any
	if read(r, t, name, "a table", &m) {
		f(r.table(t.path(name), m))
	}
}

func (r *reader) text(t table, name string, to *string) { read(r, t, name, "text in quotes", to) }

func (r *reader) texts(t table, name string, to *[]string) {
	var list []any
	if !read(r, t, name, "a list of texts", &list) {
		return
	}
	var out []string
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.problem(fmt.Sprintf("%s[%d]", t.path(name), i), "expected text in quotes, got "+kind(v))
			return
		}
		out = append(out, s)
	}
	*to = out
}

func (r *reader) textMap(t table, name string, to *map[string]string) {
	var m map[string]any
	if !read(r, t, name, "a table of texts", &m) {
		return
	}
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s, ok := m[k].(string)
		if !ok {
			r.problem(t.path(name)+"."+k, "expected text in quotes, got "+kind(m[k]))
			continue
		}
		out[k] = s
	}
	*to = out
}

func (r *reader) count(t table, name string, to *int) {
	var n int64
	if !read(r, t, name, "a whole number", &n) {
		return
	}
	if n < 0 || n > 1_000_000 {
		r.problem(t.path(name), fmt.Sprintf("expected 0 to 1000000, got %d", n))
		return
	}
	*to = int(n)
}

// tokens reads a budget; 0 is none. One that no model call fits into could never
// be met, and is a mistake.
func (r *reader) tokens(t table, name string, to *int64) {
	var n int64
	if !read(r, t, name, "a whole number", &n) {
		return
	}
	if n < 0 || n > 0 && n < names.TokenBudgetLeast {
		r.problem(t.path(name), fmt.Sprintf("%d tokens are not enough for one model call; expected %d or more, or 0 for no bound", n, names.TokenBudgetLeast))
		return
	}
	*to = n
}

// amount reads a number of things; 0 is no limit. Fewer than a shell needs is a
// mistake.
func (r *reader) amount(t table, name string, to *int64) {
	var n int64
	if !read(r, t, name, "a whole number", &n) {
		return
	}
	if n != 0 && n < 16 || n > 1<<22 {
		r.problem(t.path(name), fmt.Sprintf("expected 16 to 4194304, or 0 for no limit, got %d", n))
		return
	}
	*to = n
}

// size reads a number of bytes such as "4GB"; "0" is no limit.
func (r *reader) size(t table, name string, to *int64) {
	var s string
	if !read(r, t, name, "a size such as \"4GB\"", &s) {
		return
	}
	number, unit := s, int64(1)
	for _, u := range []struct {
		name  string
		bytes int64
	}{{"MB", 1 << 20}, {"GB", 1 << 30}, {"TB", 1 << 40}} {
		if n, ok := strings.CutSuffix(s, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > 1<<20 || n != 0 && unit == 1 || n != 0 && n*unit < 64<<20 {
		r.problem(t.path(name), fmt.Sprintf("expected a size of at least 64MB such as \"512MB\" or \"4GB\", or \"0\" for no limit, got %q", s))
		return
	}
	*to = n * unit
}

func (r *reader) millis(t table, name string, to *time.Duration) {
	var n int64
	if !read(r, t, name, "a whole number of milliseconds", &n) {
		return
	}
	if d := time.Duration(n) * time.Millisecond; n >= 1000 && d/time.Millisecond == time.Duration(n) {
		*to = d
		return
	}
	r.problem(t.path(name), fmt.Sprintf("expected at least 1000, got %d", n))
}

func (r *reader) duration(t table, name string, to *time.Duration) {
	var s string
	if !read(r, t, name, "a time such as \"6h\"", &s) {
		return
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Minute {
		r.problem(t.path(name), fmt.Sprintf("expected a time of at least a minute such as \"6h\" or \"90m\", got %q", s))
		return
	}
	*to = d
}

func kind(v any) string {
	switch v.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

// syntax says where a file stops being TOML.
func syntax(err error) string {
	if e, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, col := e.Position()
		return fmt.Sprintf("line %d, column %d: %s", row, col, strings.TrimPrefix(e.Error(), "toml: "))
	}
	return err.Error()
}

// nearest returns the known name that a mistyped one is at most two edits from.
func nearest(name string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

func distance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		cur := make([]int, len(b)+1)
		cur[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j]+cost, prev[j+1]+1, cur[j]+1)
		}
		prev = cur
	}
	return prev[len(b)]
}
