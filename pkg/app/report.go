package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// ReportSection is a titled part of a turn report.
type ReportSection struct {
	Title string `json:"title" jsonschema:"what the section is about; a later section with this title replaces it"`
	Body  string `json:"body" jsonschema:"its text"`
}

// Report is what an agent says about its turn.
type Report struct {
	Summary      string          `json:"summary" jsonschema:"the turn in a few sentences"`
	Sections     []ReportSection `json:"sections,omitempty" jsonschema:"titled parts"`
	Presentation map[string]any  `json:"presentation,omitempty" jsonschema:"the walkthrough of the change for its reviewer"`
}

// ReportShown is a report with where it belongs.
type ReportShown struct {
	Report
	Revision int64     `json:"revision" jsonschema:"how often it was written in its turn"`
	Turn     id.Turn   `json:"turn_id" jsonschema:"the turn it is about"`
	At       time.Time `json:"at" jsonschema:"when it was last written"`
	Cut      bool      `json:"truncated,omitempty" jsonschema:"it was left out of this answer for its size"`
}

// Reported answers lazy_report.
type Reported struct {
	TaskID   id.Task `json:"task_id" jsonschema:"your task"`
	Code     string  `json:"code" jsonschema:"its code"`
	Revision int64   `json:"revision" jsonschema:"how often the report of this turn has been written"`
}

// reportRow points at the current text of a turn's report.
type reportRow struct {
	Turn     id.Turn   `json:"turn_id"`
	Epoch    int64     `json:"epoch"`
	Body     string    `json:"body"`
	Revision int64     `json:"revision"`
	At       time.Time `json:"at"`
}

func reportKey(p store.Partition, epoch int64) store.Key {
	return p.Key(fmt.Sprintf("RPT#%08d", epoch))
}

// TurnReport stores the report of the running turn. It ends no turn and changes no
// status; a second call replaces the summary and the sections it names again
// (FN-008).
func (a *App) TurnReport(ctx context.Context, c Call, in Report) (Reported, error) {
	in = cleanReport(in)
	var out Reported
	_, err := a.own(ctx, c, func(t task.Task) (change, error) {
		k := reportKey(a.part(t), t.Epoch)
		row, had, err := get[reportRow](ctx, a.Store, k)
		if err != nil {
			return change{}, err
		}
		next := in
		if had {
			if next, err = a.mergeReport(ctx, t, row, in); err != nil {
				return change{}, err
			}
		}
		was := row.Revision
		row = reportRow{Turn: t.Turn, Epoch: t.Epoch, Revision: was + 1, At: a.Now(), Body: fmt.Sprintf("report.%d.%d", t.Epoch, was+1)}
		body, err := a.putBody(ctx, t, row.Body, string(encode(next)))
		if err != nil {
			return change{}, err
		}
		w := put(k, "report", row, store.VersionIs(was))
		w.Item.Attr[store.AttrVersion] = row.Revision
		if !had {
			w.If = []store.Cond{store.Absent()}
		}
		out = Reported{TaskID: t.ID, Code: t.Code, Revision: row.Revision}
		fence := store.Write{Act: store.Check, Item: store.Item{Key: a.part(t).Meta()}, If: []store.Cond{store.EpochIs(t.Epoch)}}
		return change{silent: true, writes: []store.Write{w, body, fence}, result: out}, nil
	})
	return out, err
}

func (a *App) mergeReport(ctx context.Context, t task.Task, row reportRow, in Report) (Report, error) {
	old, err := a.readReport(ctx, t, row)
	if err != nil {
		return Report{}, err
	}
	old.Summary = in.Summary
	for _, s := range in.Sections {
		i := slices.IndexFunc(old.Sections, func(o ReportSection) bool { return o.Title == s.Title })
		if i < 0 {
			old.Sections = append(old.Sections, s)
		} else {
			old.Sections[i] = s
		}
	}
	if in.Presentation != nil {
		old.Presentation = in.Presentation
	}
	return old, nil
}

func (a *App) readReport(ctx context.Context, t task.Task, row reportRow) (Report, error) {
	var r Report
	body, err := a.getBody(ctx, t, row.Body)
	if err == nil {
		err = json.Unmarshal([]byte(body), &r)
	}
	if err != nil {
		return r, fmt.Errorf("read report %s: %w", row.Body, err)
	}
	return r, nil
}

// showReport reads the report of the latest turn that has one.
func (a *App) showReport(ctx context.Context, t task.Task, left *budget) (*ReportShown, error) {
	p, err := a.Store.Query(ctx, store.Query{PK: a.part(t).PK, Prefix: "RPT#", Reverse: true, Limit: 1})
	if err != nil || len(p.Items) == 0 {
		return nil, err
	}
	row, err := decode[reportRow](p.Items[0])
	if err != nil {
		return nil, err
	}
	v := &ReportShown{Revision: row.Revision, Turn: row.Turn, At: row.At}
	r, err := a.readReport(ctx, t, row)
	if err != nil {
		return nil, err
	}
	if n := budget(len(encode(r))); n > *left {
		v.Cut = true
		v.Summary, _ = left.cut(r.Summary)
		return v, nil
	} else {
		*left -= n
	}
	v.Report = r
	return v, nil
}

func cleanReport(r Report) Report {
	r.Summary = text.Prose(r.Summary)
	r.Sections = slices.Clone(r.Sections)
	for i, s := range r.Sections {
		r.Sections[i] = ReportSection{Title: text.Line(s.Title), Body: text.Prose(s.Body)}
	}
	if r.Presentation != nil {
		r.Presentation, _ = cleanAny(r.Presentation).(map[string]any)
	}
	return r
}

// cleanAny escapes control characters in every string of a JSON value.
func cleanAny(v any) any {
	switch x := v.(type) {
	case string:
		return text.Field(x)
	case []any:
		for i := range x {
			x[i] = cleanAny(x[i])
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[text.Field(k)] = cleanAny(e)
		}
		return out
	}
	return v
}
