package app

import (
	"context"
	"fmt"

	"github.com/lazyplane/lazyplane/pkg/event"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/task"
)

// history is the type of a history row.
const history = "history"

// historyWrite is the row of one change of a status. It is the outbox row of the
// change's event as well: immutable, written in the change's own transaction, and
// enough to tell the event from.
func historyWrite(k store.Key, project string, h task.History) store.Write {
	w := put(k, history, h, store.Absent())
	w.Item.Attr[store.AttrProject] = project
	return w
}

// MovedOf words the event of a history row; ok is false for any other row.
func MovedOf(it store.Item) (m event.TaskMoved, ok bool, err error) {
	t, version, place, ok := store.HistoryOf(it.Key)
	if !ok {
		return event.TaskMoved{}, false, nil
	}
	h, err := decode[task.History](it)
	if err == nil && (h.ID == "" || h.Version != version) {
		err = fmt.Errorf("row %s does not say which change it is about", it.Key)
	}
	if err != nil {
		return event.TaskMoved{}, true, err
	}
	return event.Moved(store.TenantOf(it.Key), it.Str(store.AttrProject), t, place, h), true, nil
}

// tell tells of the changes among writes that were committed.
func (a *App) tell(ctx context.Context, ws []store.Write) {
	if a.Moved == nil {
		return
	}
	for _, w := range ws {
		if w.Act != store.Put {
			continue
		}
		switch m, ok, err := MovedOf(w.Item); {
		case err != nil:
			a.Log.ErrorContext(ctx, "a change cannot be told of", "row", w.Item.Key.String(), "error", err)
		case ok:
			a.Moved(m)
		}
	}
}
