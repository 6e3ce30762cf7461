package sqlite

import (
	"errors"
	"strconv"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// The most that one commit gathers: enough to share a sync among everyone who
// waited for the last one, little enough to keep the wait short.
const (
	batchRequests = 256
	batchWrites   = 2000
)

// Expired items go an hour after their time, a few at a time: a caller who asks
// shortly after is told "expired" rather than "unknown".
const (
	grace        = time.Hour
	collectEvery = 10 * time.Minute
	collectMost  = 200
)

const (
	readText = "SELECT rec, doc FROM item WHERE pk = ?1 AND sk = ?2"
	putText  = `INSERT INTO item (pk, sk, rec, doc, due_pk, due_sk, past_pk, past_sk, find_pk, find_sk, expires)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (pk, sk) DO UPDATE SET rec = excluded.rec, doc = excluded.doc,
due_pk = excluded.due_pk, due_sk = excluded.due_sk, past_pk = excluded.past_pk, past_sk = excluded.past_sk,
find_pk = excluded.find_pk, find_sk = excluded.find_sk, expires = excluded.expires`
	deleteText  = "DELETE FROM item WHERE pk = ?1 AND sk = ?2"
	collectText = `DELETE FROM item WHERE (pk, sk) IN (SELECT pk, sk FROM item WHERE expires IS NOT NULL AND expires < ?1 LIMIT ?2)`
)

// request is one transaction on its way. err is set before done is closed.
type request struct {
	ws   []store.Write
	err  error
	done chan struct{}
}

// writer owns the only connection that writes. Its fields belong to the
// writer's goroutine.
type writer struct {
	conn      *conn
	collected time.Time // when expired items were last looked for
}

// openWriter opens the connection that writes and makes the schema when the
// file is empty. Nothing is changed in a file that is not ours.
func openWriter(s *Store) (*writer, error) {
	c, err := dial(s.path, s.patience, 4096)
	if err != nil {
		return nil, err
	}
	if err := s.setUp(c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return &writer{conn: c}, nil
}

// header is what tells our file from any other.
type header struct{ application, schema, tables int64 }

func readHeader(c *conn) (h header, err error) {
	for _, q := range []struct {
		text string
		into *int64
	}{
		{"PRAGMA application_id", &h.application},
		{"PRAGMA user_version", &h.schema},
		{"SELECT count(*) FROM sqlite_schema", &h.tables},
	} {
		if *q.into, err = c.number(q.text); err != nil {
			return header{}, err
		}
	}
	return h, nil
}

func (s *Store) check(h header) error {
	switch {
	case h == header{}:
		return nil
	case h.application != application:
		return fault.New(fault.Invalid, "%s is a database of another program; name another file for the store", s.path)
	case h.schema > Schema:
		return fault.New(fault.Invalid, "the store %s has format %d and this build knows formats up to %d; install a newer lazy", s.path, h.schema, Schema)
	case h.schema < 1 || h.tables == 0:
		return fault.New(fault.Invalid, "the store %s is damaged; keep a copy of the file and put back a backup", s.path)
	}
	return nil
}

func (s *Store) setUp(c *conn) error {
	h, err := readHeader(c)
	if err != nil {
		return err
	}
	if err := s.check(h); err != nil {
		return err
	}
	mode := ""
	if err := c.rows("PRAGMA journal_mode=WAL", nil, func(row []any) (bool, error) {
		mode, _ = row[0].(string)
		return false, nil
	}); err != nil {
		return err
	}
	if mode != "wal" {
		return fault.New(fault.Unavailable, "the disk that holds the store %s cannot share memory between processes; name a file on a local disk", s.path)
	}
	for _, p := range []string{"PRAGMA journal_size_limit=16777216", "PRAGMA wal_autocheckpoint=1000"} {
		if err := c.run(p); err != nil {
			return err
		}
	}
	if s.maxPages > 0 {
		if err := c.run("PRAGMA max_page_count=" + strconv.Itoa(s.maxPages)); err != nil {
			return err
		}
	}
	// The write lock is taken even when there is nothing to make: a file or a
	// folder that cannot be written is refused here and not at the first write.
	if err := c.run("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := s.makeSchema(c); err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	if err := c.run("COMMIT"); err != nil {
		return errors.Join(err, c.run("ROLLBACK"))
	}
	for _, text := range []string{readText, putText, deleteText} {
		if _, err := c.prepared(text); err != nil {
			return &damaged{err}
		}
	}
	return nil
}

// makeSchema runs under the write lock, so that of two processes that start
// together one makes the tables and the other finds them.
func (s *Store) makeSchema(c *conn) error {
	h, err := readHeader(c)
	if err != nil {
		return err
	}
	if h != (header{}) {
		return s.check(h)
	}
	if err := c.run(schema); err != nil {
		return err
	}
	if err := c.run("PRAGMA application_id=" + strconv.Itoa(application)); err != nil {
		return err
	}
	return c.run("PRAGMA user_version=" + strconv.Itoa(Schema))
}

// write is the writer's goroutine. It takes whoever waits, up to a limit, and
// commits them together; those who come meanwhile are the next batch.
func (s *Store) write() {
	defer close(s.done)
	for {
		var batch []*request
		select {
		case r := <-s.queue:
			batch = append(batch, r)
		case <-s.closing:
			return
		}
		for n := len(batch[0].ws); len(batch) < batchRequests && n < batchWrites; {
			select {
			case r := <-s.queue:
				batch, n = append(batch, r), n+len(r.ws)
				continue
			default:
			}
			break
		}
		s.commit(batch)
	}
}

// commit answers a batch. Nobody is answered before the commit is durable, not
// even the refused, who may have been refused on account of a neighbour.
func (s *Store) commit(batch []*request) {
	err := s.w.run(s, batch, true)
	if err != nil && len(batch) > 1 {
		// One member may be the reason, such as a document that no longer fits on
		// the disk: each has its own try.
		for _, r := range batch {
			if err := s.w.run(s, []*request{r}, false); err != nil {
				r.err = s.fault(err, false)
			}
		}
	} else if err != nil {
		batch[0].err = s.fault(err, false)
	}
	for _, r := range batch {
		close(r.done)
	}
}

// run carries a batch through in one SQL transaction. A refusal is left in the
// request; an error means that nothing of the batch was written. A tidy run also
// collects expired items.
func (w *writer) run(s *Store, batch []*request, tidy bool) (err error) {
	if _, err := w.conn.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// SQLite may have rolled back on its own; then this one has nothing to do.
			_, _ = w.conn.exec("ROLLBACK")
		}
	}()
	wrote := false
	for _, r := range batch {
		changes, refused, err := w.evaluate(r.ws)
		if err != nil {
			return err
		}
		if r.err = refused; refused != nil {
			continue
		}
		for _, ch := range changes {
			if err := w.change(ch); err != nil {
				return err
			}
			wrote = true
		}
	}
	if wrote && tidy {
		if err := w.collect(s); err != nil {
			return err
		}
	}
	if !wrote {
		_, err := w.conn.exec("COMMIT")
		return err
	}
	s.crash(BeforeCommit)
	if _, err := w.conn.exec("COMMIT"); err != nil {
		return err
	}
	s.crash(AfterCommit)
	return nil
}

// change is the item as it will stand, or its removal.
type change struct {
	item store.Item
	keep bool
}

// evaluate decides a whole transaction before its first write, so that a
// refused one needs no undoing. refused is a conflict, or says why the
// transaction can never be.
func (w *writer) evaluate(ws []store.Write) (changes []change, refused, err error) {
	changes = make([]change, 0, len(ws))
	for i, wr := range ws {
		var before store.Item
		exists := false
		if len(wr.If) > 0 || wr.Act == store.Update {
			if before, exists, err = w.read(wr.Item.Key); err != nil {
				return nil, nil, err
			}
		}
		if c, no := wr.Refused(before, exists); no {
			return nil, &store.ConflictError{Write: i, Key: wr.Item.Key, Failed: c, Current: before}, nil
		}
		after, keep, err := wr.Apply(before, exists)
		if err != nil {
			return nil, err, nil
		}
		if wr.Act != store.Check {
			changes = append(changes, change{after, keep})
		}
	}
	return changes, nil, nil
}

func (w *writer) read(k store.Key) (it store.Item, exists bool, err error) {
	it.Key = k
	err = w.conn.rows(readText, []any{k.PK, k.SK}, func(row []any) (bool, error) {
		exists = true
		it, err = decode(k, row[0], row[1])
		return false, err
	})
	return it, exists, err
}

func (w *writer) change(ch change) error {
	it := ch.item
	if !ch.keep {
		_, err := w.conn.exec(deleteText, it.Key.PK, it.Key.SK)
		return err
	}
	rec, err := encode(it)
	if err != nil {
		return err
	}
	args := []any{it.Key.PK, it.Key.SK, rec, nil}
	if it.Doc != nil {
		args[3] = it.Doc
	}
	for _, x := range store.Indexes() {
		if p, ok := it.Index[x]; ok {
			args = append(args, p.PK, p.SK)
		} else {
			args = append(args, nil, nil)
		}
	}
	if it.Expires.IsZero() {
		args = append(args, nil)
	} else {
		args = append(args, it.Expires.Unix())
	}
	_, err = w.conn.exec(putText, args...)
	return err
}

// collect removes some expired items along with a commit that happens anyway.
func (w *writer) collect(s *Store) error {
	now := s.now()
	if s.keep.Load() || now.Sub(w.collected) < collectEvery {
		return nil
	}
	n, err := w.conn.exec(collectText, now.Add(-grace).Unix(), int64(collectMost))
	if err == nil && n < collectMost {
		w.collected = now
	}
	return err
}
