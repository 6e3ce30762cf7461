package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/raise"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// Places are the sections of a task that a search looks into.
func Places() []string { return []string{"goal", "prompt", "turns", "journal", "comments", "raised"} }

// Hit is one text that matched.
type Hit struct {
	TaskID  id.Task     `json:"task_id" jsonschema:"the task it belongs to"`
	Code    string      `json:"code" jsonschema:"its code"`
	Goal    string      `json:"goal" jsonschema:"its goal"`
	Status  task.Status `json:"status" jsonschema:"its status"`
	Section string      `json:"section" jsonschema:"goal, prompt, turns, journal, comments or raised"`
	Number  int64       `json:"number,omitempty" jsonschema:"number of the entry inside its section"`
	Excerpt string      `json:"excerpt" jsonschema:"the words around the first match, on one line"`
}

// Found is the answer of a search.
type Found struct {
	Hits     []Hit  `json:"hits" jsonschema:"what matched, the most recently changed tasks first"`
	AsOf     string `json:"as_of" jsonschema:"finished tasks come from an index that may lag behind this time"`
	Complete bool   `json:"complete" jsonschema:"false when older tasks or further hits were left out"`
	Looked   int    `json:"tasks_searched" jsonschema:"how many tasks were looked into"`
}

const (
	searchLimit = 20
	searchMost  = 100
	searchTasks = 400
	searchTexts = 5000
	excerptSide = 80
)

// terms is a parsed query.
type terms struct {
	words []string
	in    []string
}

func parseQuery(who identity.Caller, q string) (terms, error) {
	var t terms
	for _, w := range splitQuery(q) {
		place, ok := strings.CutPrefix(w, "in:")
		if !ok {
			t.words = append(t.words, strings.ToLower(w))
			continue
		}
		for p := range strings.SplitSeq(place, ",") {
			switch {
			case p == "scratch" && who.Kind == identity.Task:
				return t, refusal.Of(refusal.ScratchBoundary)
			case !slices.Contains(Places(), p):
				return t, refusal.Of(refusal.InvalidArguments, "query", "in: one of "+strings.Join(Places(), ", "), fmt.Sprintf("%q", p))
			}
			t.in = append(t.in, p)
		}
	}
	if len(t.words) == 0 {
		return t, refusal.Of(refusal.InvalidArguments, "query", "at least one word to look for", "none")
	}
	if len(t.in) == 0 {
		t.in = Places()
	}
	return t, nil
}

// splitQuery splits at white space outside of double quotes.
func splitQuery(q string) []string {
	var out []string
	var b strings.Builder
	quoted := false
	flush := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
			b.Reset()
		}
	}
	for _, r := range q {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune(" \t\r\n", r):
			flush()
		default:
			b.WriteRune(r)
		}
	}
	flush()
	return out
}

// match returns the words around the first term, if every term occurs in s.
func (t terms) match(s string) (string, bool) {
	low := strings.ToLower(s)
	first := -1
	for _, w := range t.words {
		i := strings.Index(low, w)
		if i < 0 {
			return "", false
		}
		if first < 0 || i < first {
			first = i
		}
	}
	if len(low) != len(s) { // lower case may differ in length; then show the start
		first = 0
	}
	from, to := max(0, first-excerptSide), min(len(s), first+excerptSide)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	e := strings.Join(strings.Fields(s[from:to]), " ")
	if from > 0 {
		e = "…" + e
	}
	if to < len(s) {
		e += "…"
	}
	return e, true
}

// Search looks through the texts of the project's tasks, one task after the
// other: the live ones, then the finished ones by their history index. It reads a
// bounded number of rows and says when that was not all.
func (a *App) Search(ctx context.Context, c Call, query string, limit int) (Found, error) {
	q, err := parseQuery(c.Who, query)
	if err != nil {
		return Found{}, err
	}
	if limit <= 0 {
		limit = searchLimit
	}
	s := &search{a: a, q: q, limit: min(limit, searchMost), texts: searchTexts}
	s.out = Found{Hits: []Hit{}, AsOf: stamp(a.Now()), Complete: true}
	live, err := a.liveRows(ctx, c.Who)
	if err != nil {
		return Found{}, err
	}
	slices.SortStableFunc(live, func(x, y Live) int { return y.Updated.Compare(x.Updated) })
	seen := map[id.Task]bool{}
	for _, l := range live {
		t, ok, err := a.loadTask(ctx, c.Who.Tenant, l.ID)
		if err != nil {
			return Found{}, err
		}
		seen[l.ID] = true
		if ok && !s.task(ctx, t) {
			return s.out, s.err
		}
	}
	var bad error
	past := store.Query{Index: store.Past, PK: store.For(c.Who.Tenant).Project(c.Who.Project).PK + "#PAST", Reverse: true}
	err = store.All(ctx, a.Store, past, func(it store.Item) bool {
		t, err := decode[task.Task](it)
		if err != nil {
			bad = err
			return false
		}
		return seen[t.ID] || s.task(ctx, t)
	})
	for _, e := range []error{err, bad, s.err} {
		if e != nil {
			return Found{}, e
		}
	}
	return s.out, nil
}

type search struct {
	a     *App
	q     terms
	limit int
	texts int
	out   Found
	err   error
}

// task looks into one task and reports whether to go on.
func (s *search) task(ctx context.Context, t task.Task) bool {
	if s.out.Looked == searchTasks || s.texts <= 0 {
		s.out.Complete = false
		return false
	}
	s.out.Looked++
	look := func(section string, n int64, words string, err error) bool {
		s.texts--
		if err != nil {
			s.err = err
			return false
		}
		e, ok := s.q.match(words)
		if !ok {
			return s.texts > 0
		}
		if len(s.out.Hits) == s.limit {
			s.out.Complete = false
			return false
		}
		s.out.Hits = append(s.out.Hits, Hit{
			TaskID: t.ID, Code: t.Code, Goal: t.Goal, Status: t.Status, Section: section, Number: n, Excerpt: e,
		})
		return true
	}
	for _, place := range s.q.in {
		ok := true
		switch place {
		case "goal":
			ok = look(place, 0, t.Goal, nil)
		case "prompt":
			words, err := s.a.getBody(ctx, t, t.Prompt)
			ok = look(place, 0, words, err)
		case "turns":
			ok = rows(ctx, s, t, "TRN#", func(r turn.Turn) bool {
				words, err := s.a.readText(ctx, t, r.Text, r.Body)
				return look(place, r.Seq, words, err)
			})
		case "journal":
			ok = t.Journal == 0 || rows(ctx, s, t, "JRN#", func(r raise.Entry) bool {
				words, err := s.a.readText(ctx, t, r.Text, r.Body)
				return look(place, r.Index, words, err)
			})
		case "comments":
			ok = t.Comments == 0 || rows(ctx, s, t, "CMT#", func(r raise.Comment) bool {
				words, err := s.a.readText(ctx, t, r.Text, r.Body)
				return look(place, r.Seq, words, err)
			})
		case "raised":
			ok = t.Raised == 0 || rows(ctx, s, t, "RSD#", func(r raise.Item) bool {
				words, err := s.a.readText(ctx, t, r.Content, r.Body)
				return look(place, r.Seq, r.Title+"\n"+words, err)
			})
		}
		if !ok {
			s.out.Complete = false
			return false
		}
	}
	return true
}

// rows walks the rows of a task under a prefix until f returns false.
func rows[T any](ctx context.Context, s *search, t task.Task, prefix string, f func(T) bool) bool {
	on := true
	err := store.All(ctx, s.a.Store, store.Query{PK: s.a.part(t).PK, Prefix: prefix}, func(it store.Item) bool {
		r, err := decode[T](it)
		if err != nil {
			s.err = err
			on = false
			return false
		}
		on = f(r)
		return on
	})
	if err != nil {
		s.err = err
		return false
	}
	return on
}
