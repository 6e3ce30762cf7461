package emulated

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Content is what a store holds of the given tasks and their project, one line a
// row, with everything that may differ between two runs of the same work
// replaced. Two control planes that did the same work have equal contents.
//
// Left out are the rows that only say how something is being done: the clock's
// places in the index, an engine's own executions, credentials and idempotency
// keys, which are in other partitions, leases, the row of a hosted project, and its
// repository, which on a laptop is git's: what is in it is compared with git.
func Content(ctx context.Context, s store.Store, tenant, project string, tasks ...id.Task) ([]string, error) {
	tn := store.For(tenant)
	n := normaliser{seen: map[string]string{}}
	var parts []string
	for i, t := range tasks {
		n.seen[string(t)], n.seen[t.Short()] = fmt.Sprintf("TASK%d", i+1), fmt.Sprintf("SHORT%d", i+1)
		parts = append(parts, tn.Task(t).PK)
	}
	parts = append(parts, tn.Project(project).PK) // its rows name what the tasks' rows do
	var out []string
	for _, pk := range parts {
		var rows []store.Item
		err := store.All(ctx, s, store.Query{PK: pk, Limit: store.MaxLimit}, func(it store.Item) bool {
			if (pk != parts[len(tasks)] || !apart.MatchString(it.Key.SK)) && !merger(it) {
				rows = append(rows, it)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		if pk == parts[len(tasks)] {
			// By the tasks they are of: their own keys are as random as short ids.
			slices.SortStableFunc(rows, func(a, b store.Item) int {
				return strings.Compare(n.text(a.Key.SK), n.text(b.Key.SK))
			})
		}
		for _, it := range rows {
			attr, err := json.Marshal(it.Attr)
			if err != nil {
				return nil, fmt.Errorf("encode the fields of %s: %w", it.Key, err)
			}
			out = append(out, n.text(fmt.Sprintf("%s %s %s", it.Key, attr, it.Doc)))
		}
	}
	slices.Sort(out)
	return out, nil
}

// merger reports whether a row is that of an accept's broker: on a laptop the plane
// merges itself.
func merger(it store.Item) bool {
	return strings.HasPrefix(it.Key.SK, "RUN#") && strings.Contains(string(it.Doc), `"token_for":"broker"`)
}

// normaliser replaces ids by the order of their first appearance, so that which id
// is named where still counts, and times by a word.
type normaliser struct {
	seen map[string]string
}

var (
	apart   = regexp.MustCompile(`^(META$|LSE#|GIT$|REF#|PCK#|PSH#)`)
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hashes  = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32})\b`)
	shorts  = regexp.MustCompile(`\b[0-9a-f]{8}\b`)
	counts  = regexp.MustCompile(`^0+[0-9]+$`) // of the rows of a kind
	heads   = regexp.MustCompile(`@ [0-9a-f]{7}\b`)
	times   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`)
	numbers = regexp.MustCompile(`"(until|agent_time)":\d+`)
	// A row that the flow, the beats and the outbox write in turn has as many
	// versions as they happened to write, and the task token is the engine's own.
	beats  = regexp.MustCompile(`"(version)":\d+`)
	tokens = regexp.MustCompile(`"token":"[^"]*"`)
	// Hosted, a person pays for the models of what they start; a laptop has one.
	payers = regexp.MustCompile(`"payer":"[^"]*",`)
	// A row that asked for work may keep the mark until it is next written.
	marks = regexp.MustCompile(`,"follow":(?:true|false)`)
	// Hosted, commits are kept as bundles and the workspace as checkpoints, since it
	// ends with its container; a laptop's stays where it is.
	kept  = regexp.MustCompile(`"bundle":"[^"]*",|"checkpoint":\{[^}]*\},`)
	saved = regexp.MustCompile(`\{\\"time\\":\\"TIME\\"[^{}]*\\"phase\\":\\"(?:restore|save)-workspace\\"\}\\n`)
	paths = regexp.MustCompile(`"/[^"]*"`)
)

func (n normaliser) text(s string) string {
	s = payers.ReplaceAllString(s, "")
	s = paths.ReplaceAllString(s, `"PATH"`)
	s = tokens.ReplaceAllString(s, `"token":"TOKEN"`)
	s = times.ReplaceAllString(s, "TIME")
	s = marks.ReplaceAllString(s, "")
	s = saved.ReplaceAllString(kept.ReplaceAllString(s, ""), "")
	s = strings.ReplaceAll(s, `"phase":"save-workspace"`, `"phase":"post-turn"`)
	s = heads.ReplaceAllString(s, "@ HEAD")
	s = numbers.ReplaceAllString(s, `"$1":N`) // before ids, which eight digits look like
	for _, ids := range []*regexp.Regexp{uuids, hashes, shorts} {
		s = ids.ReplaceAllStringFunc(s, n.name)
	}
	if strings.Contains(s, " RUN#") {
		s = beats.ReplaceAllString(s, `"$1":N`)
	}
	return s
}

func (n normaliser) name(id string) string {
	if counts.MatchString(id) {
		return id
	}
	if n.seen[id] == "" {
		n.seen[id] = fmt.Sprintf("ID%d", len(n.seen)+1)
	}
	return n.seen[id]
}
