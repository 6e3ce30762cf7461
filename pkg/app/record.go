package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/id"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// schema is the number written on every record. A reader refuses a larger one.
const schema = 1

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("app: encode %T: %v", v, err)) // records hold no value JSON cannot carry
	}
	return b
}

func decode[T any](it store.Item) (T, error) {
	var v T
	if it.Int("schema") > schema {
		return v, fault.New(fault.Unavailable, "this record was written by a newer lazy (schema %d)", it.Int("schema")).
			WithNext("Upgrade lazy, then try again.")
	}
	if err := json.Unmarshal(it.Doc, &v); err != nil {
		return v, fmt.Errorf("decode %s: %w", it.Key, err)
	}
	return v, nil
}

// get reads and decodes one row; ok is false when it is absent.
func get[T any](ctx context.Context, s store.Store, k store.Key) (v T, ok bool, err error) {
	it, err := s.Get(ctx, k)
	if errors.Is(err, store.ErrNotFound) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("read %s: %w", k, err)
	}
	v, err = decode[T](it)
	return v, err == nil, err
}

func put(k store.Key, typ string, v any, conds ...store.Cond) store.Write {
	return store.Write{
		Act:  store.Put,
		Item: store.Item{Key: k, Attr: store.Attr{store.AttrType: typ, "schema": int64(schema)}, Doc: encode(v)},
		If:   conds,
	}
}

func (a *App) tenant(t task.Task) store.Tenant { return store.For(t.Tenant) }

func (a *App) part(t task.Task) store.Partition { return a.tenant(t).Task(t.ID) }

// loadTask reads a task by id inside a tenant.
func (a *App) loadTask(ctx context.Context, tenant string, tid id.Task) (task.Task, bool, error) {
	return get[task.Task](ctx, a.Store, store.For(tenant).Task(tid).Meta())
}

// taskWrite puts a changed task on condition that nobody has written since.
func taskWrite(k store.Key, t task.Task, was int64) store.Write {
	w := put(k, "task", t, store.VersionIs(was))
	w.Item.Attr[store.AttrVersion] = t.Version
	w.Item.Attr[store.AttrStatus] = string(t.Status)
	w.Item.Attr[store.AttrEpoch] = t.Epoch
	w.Item.Attr[store.AttrParent] = string(t.Parent)
	w.Item.Attr["project"] = t.Project
	if was == 0 {
		w.If = []store.Cond{store.Absent()}
	}
	return w
}

// Live is the list row of a task: what every listing shows, at most 1 KB.
type Live struct {
	ID       id.Task     `json:"id"`
	Code     string      `json:"code"`
	Goal     string      `json:"goal"`
	Status   task.Status `json:"status"`
	Parent   id.Task     `json:"parent,omitempty"`
	Agent    string      `json:"agent"`
	Model    string      `json:"model,omitempty"`
	Tags     []string    `json:"tags,omitempty"`
	Epoch    int64       `json:"epoch"`
	Kind     string      `json:"turn_kind,omitempty"`
	Host     bool        `json:"host_process,omitempty"`
	Began    time.Time   `json:"turn_began,omitzero"`
	Blocking int64       `json:"open_blocking,omitempty"`
	Open     int64       `json:"open_raised,omitempty"`
	Commits  int64       `json:"commits,omitempty"`
	MidMerge bool        `json:"mid_merge,omitempty"`
	Waits    string      `json:"waits,omitempty"` // what a held launch waits for
	Created  time.Time   `json:"created"`
	Updated  time.Time   `json:"updated"`
}

const liveGoal = 200

func liveOf(t task.Task) Live {
	goal := t.Goal
	if r := []rune(goal); len(r) > liveGoal {
		goal = string(r[:liveGoal]) + "…"
	}
	tags := t.Tags
	for len(encode(tags)) > 200 {
		tags = tags[:len(tags)-1]
	}
	l := Live{
		ID: t.ID, Code: t.Code, Goal: goal, Status: t.Status, Parent: t.Parent, Agent: t.Agent,
		Model: t.Model, Tags: tags, Epoch: t.Epoch, Kind: t.TurnKind, Host: t.Host, Began: t.TurnBegan,
		Blocking: t.Blocking, Open: t.Open, Commits: t.Commits, MidMerge: len(t.MidMerge) > 0, Waits: waitText(t),
		Created: t.Created, Updated: t.Updated,
	}
	for r := []rune(goal); len(encode(l)) > names.LiveRow && len(r) > 1; {
		r = r[:len(r)*3/4]
		l.Goal = string(r) + "…"
	}
	return l
}

// liveWrite keeps the project's live list in step with the task: a row while it
// is live, none once it is terminal, when it moves to the history index.
func liveWrite(t task.Task) store.Write {
	p := store.For(t.Tenant).Project(t.Project)
	k := p.Live(t.Created, t.ID)
	if t.Status.Terminal() {
		return store.Write{Act: store.Delete, Item: store.Item{Key: k}}
	}
	return put(k, "live", liveOf(t))
}

// Op is the row by which an operation's id finds its task (OT-048).
type Op struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"` // turn, accept, stop
	Verb    string    `json:"verb"`
	Project string    `json:"project"`
	Task    id.Task   `json:"task"`
	Seq     int64     `json:"seq"`
	Epoch   int64     `json:"epoch"`
	Caller  string    `json:"caller"` // hash of the credential that began it
	At      time.Time `json:"at"`
	// Of is the operation of another caller that this one follows, or ends.
	Of string `json:"of,omitempty"`
}

// putBody stores an immutable text: small ones in a row of their own, larger
// ones in the blob store with a pointer (RP-025). It returns the write to add to
// the transaction; the blob, if any, is stored before it.
func (a *App) putBody(ctx context.Context, t task.Task, name, text string) (store.Write, error) {
	k := a.part(t).Body(name)
	if len(text) <= names.InlineBody {
		return put(k, "body", body{Text: text}), nil
	}
	// The digest keeps a text apart from what a writer who lost the race for the
	// name has left behind: an object never changes.
	sum := sha256.Sum256([]byte(text))
	key := t.Tenant + "/" + string(t.ID) + "/body/" + name + "-" + hex.EncodeToString(sum[:8])
	if err := a.Blob.Put(ctx, key, []byte(text)); err != nil {
		return store.Write{}, fmt.Errorf("store body %s: %w", name, err)
	}
	return put(k, "body", body{Blob: key, Size: len(text)}), nil
}

// firstPrompt names the text that lies in the row of its task's short id.
const firstPrompt = "short"

type body struct {
	Text string `json:"text,omitempty"`
	Blob string `json:"blob,omitempty"`
	Size int    `json:"size,omitempty"`
}

// getBody reads a text stored by putBody; an absent one is "".
func (a *App) getBody(ctx context.Context, t task.Task, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if name == firstPrompt {
		ptr, _, err := get[pointer](ctx, a.Store, a.tenant(t).Project(t.Project).Short(t.ID.Short()))
		return ptr.Prompt, err
	}
	b, ok, err := get[body](ctx, a.Store, a.part(t).Body(name))
	if err != nil || !ok {
		return "", err
	}
	if b.Blob == "" {
		return b.Text, nil
	}
	data, err := a.Blob.Get(ctx, b.Blob)
	if errors.Is(err, blob.ErrNotFound) {
		return "", fault.Wrap(fault.Unavailable, err, "the text %s of task %s is not in the blob store", name, t.ID.Short())
	}
	return string(data), err
}
