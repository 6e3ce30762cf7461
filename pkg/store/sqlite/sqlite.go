// Package sqlite is the embedded adapter of the store port: one file, one
// writer that commits many transactions with one sync, and a few readers that
// see every acknowledged write. A transaction is durable when it is
// acknowledged (WAL, synchronous FULL) and leaves no trace when it is refused.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Schema is the number of the newest file format that this build knows.
const Schema = 1

// application marks a file as a store, in the header that SQLite keeps for it.
const application = 0x6c7a7970

const schema = `
CREATE TABLE item (
	pk TEXT NOT NULL, sk TEXT NOT NULL,
	rec BLOB NOT NULL, doc BLOB,
	due_pk TEXT, due_sk TEXT, past_pk TEXT, past_sk TEXT, find_pk TEXT, find_sk TEXT,
	expires INTEGER,
	PRIMARY KEY (pk, sk)
) WITHOUT ROWID;
CREATE INDEX item_due ON item (due_pk, due_sk, pk, sk) WHERE due_pk IS NOT NULL;
CREATE INDEX item_past ON item (past_pk, past_sk, pk, sk) WHERE past_pk IS NOT NULL;
CREATE INDEX item_find ON item (find_pk, find_sk, pk, sk) WHERE find_pk IS NOT NULL;
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL;
`

// The points a crash hook is called at, on the writer's goroutine.
const (
	BeforeCommit = "store.commit.before"
	AfterCommit  = "store.commit.after"
)

const readers = 4

// Store is an open file. It is safe for concurrent use.
type Store struct {
	path     string
	now      func() time.Time
	crash    func(point string)
	patience time.Duration
	maxPages int

	queue   chan *request
	closing chan struct{}
	done    chan struct{} // closed when the writer has ended
	close   sync.Once
	waiting atomic.Int64 // transactions at work or waiting their turn
	keep    atomic.Bool  // do not collect expired items
	w       *writer
	pool    *pool
}

var _ store.Store = (*Store)(nil)

// Option changes how a store is opened.
type Option func(*Store)

// WithCrashPoint has hook called with BeforeCommit when a commit is about to be
// made durable, and with AfterCommit when it is and nobody has been told.
func WithCrashPoint(hook func(point string)) Option {
	return func(s *Store) { s.crash = hook }
}

// WithPatience sets how long a lock held by another process is waited for; five
// seconds otherwise.
func WithPatience(d time.Duration) Option {
	return func(s *Store) { s.patience = d }
}

// Open opens the file, or makes it, with mode 0600, when there is none. The
// folder must exist. A file that is not a store, is damaged, or was written by a
// newer build is refused with a fault and left as it is.
func Open(ctx context.Context, path string, now func() time.Time, opts ...Option) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find store %s: %w", path, err)
	}
	s := &Store{
		path: abs, now: now, patience: 5 * time.Second, crash: func(string) {},
		queue: make(chan *request), closing: make(chan struct{}), done: make(chan struct{}),
	}
	for _, o := range opts {
		o(s)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Where there is no fdatasync the commit falls back to fsync, which promises
	// no less.
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("choose a sync: %w", err)
	}
	if err := prepareFile(abs); err != nil {
		return nil, err
	}
	if s.w, err = openWriter(s); err != nil {
		return nil, s.fault(err, true)
	}
	s.pool = newPool(readers, func() (*conn, error) {
		c, err := dial(abs, s.patience, 1024)
		if err == nil {
			err = c.run("PRAGMA query_only=1")
		}
		return c, err
	})
	if err := s.pool.use(ctx, func(*conn) error { return nil }); err != nil {
		_ = s.w.conn.close() // the first error says more
		return nil, s.fault(err, true)
	}
	go s.write()
	return s, nil
}

// prepareFile sees to a private file at path. An existing one is never opened
// here: closing it again would drop the locks that another Store of this process
// holds on it.
func prepareFile(path string) error {
	st, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Unavailable, err, "the store %s cannot be made; check that its folder exists, is writable and has room", path)
		}
		return f.Close()
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the store %s cannot be looked at; check the permissions of its folder", path)
	}
	if !st.Mode().IsRegular() {
		return fault.New(fault.Invalid, "%s is not a file; name a file for the store", path)
	}
	if st.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o600); err != nil {
			return fault.Wrap(fault.Unavailable, err, "the store %s is readable by others and cannot be made private; set its mode to 0600", path)
		}
	}
	return nil
}

// KeepExpired ends the collection of expired items, for a test that needs the
// ones which DynamoDB may return long after their time.
func (s *Store) KeepExpired() { s.keep.Store(true) }

// Close waits for the transactions at work and closes the file. Later calls
// answer with a fault.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		close(s.closing)
		<-s.done
		// The readers first: the last connection to leave folds the log into the file.
		err = errors.Join(s.pool.close(), s.w.conn.close())
	})
	<-s.done
	return err
}

func (s *Store) closed() error {
	return fault.New(fault.Unavailable, "the store %s is closed; try again when the process has started", s.path)
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, k store.Key) (store.Item, error) {
	var it store.Item
	found := false
	err := s.pool.use(ctx, func(c *conn) error {
		return c.rows(readText, []any{k.PK, k.SK}, func(row []any) (bool, error) {
			found = true
			var err error
			it, err = decode(k, row[0], row[1])
			return false, err
		})
	})
	switch {
	case err != nil:
		return store.Item{}, s.fault(err, false)
	case !found:
		return store.Item{}, store.ErrNotFound
	}
	return it, nil
}

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, q store.Query) (store.Page, error) {
	p, err := q.Plan()
	if err != nil {
		return store.Page{}, err
	}
	if p.Empty {
		return store.Page{}, nil
	}
	text, args := statement(p)
	var page store.Page
	size, more := 0, false
	err = s.pool.use(ctx, func(c *conn) error {
		return c.rows(text, args, func(row []any) (bool, error) {
			if len(page.Items) == p.Limit || size > store.PageBytes {
				more = true
				return false, nil
			}
			pk, _ := row[2].(string)
			sk, _ := row[3].(string)
			it, err := decode(store.Key{PK: pk, SK: sk}, row[0], row[1])
			page.Items = append(page.Items, it)
			size += it.Size()
			return true, err
		})
	})
	if err != nil {
		return store.Page{}, s.fault(err, false)
	}
	if more {
		page.Next = q.CursorAfter(page.Items[len(page.Items)-1])
	}
	return page, nil
}

// statement renders a plan. The order ends with the item's own key, so that it
// is total in an index too and a cursor names one place.
func statement(p store.Plan) (string, []any) {
	pk, sk, from := "pk", "sk", "item"
	order := []string{"sk"}
	if p.Index != "" {
		pk, sk = string(p.Index)+"_pk", string(p.Index)+"_sk"
		from = "item INDEXED BY item_" + string(p.Index)
		order = []string{sk, "pk", "sk"}
	}
	text := "SELECT rec, doc, pk, sk FROM " + from + " WHERE " + pk + " = ?1"
	args := []any{p.PK}
	arg := func(v string) string {
		args = append(args, v)
		return fmt.Sprintf("?%d", len(args))
	}
	beyond, dir := " > ", ""
	if p.Reverse {
		beyond, dir = " < ", " DESC"
	}
	if p.After != nil && p.Index == "" {
		text += " AND sk" + beyond + arg(p.After.Key.SK)
	}
	if p.After != nil && p.Index != "" {
		text += " AND (" + sk + ", pk, sk)" + beyond +
			"(" + arg(p.After.Slot.SK) + ", " + arg(p.After.Key.PK) + ", " + arg(p.After.Key.SK) + ")"
	}
	if p.From != "" {
		text += " AND " + sk + " >= " + arg(p.From)
	}
	if p.To != "" {
		text += " AND " + sk + " < " + arg(p.To)
	}
	text += " ORDER BY " + strings.Join(order, dir+", ") + dir
	args = append(args, int64(p.Limit+1))
	return text + fmt.Sprintf(" LIMIT ?%d", len(args)), args
}

// Transact implements store.Store. A context that ends while the transaction
// waits for its turn withdraws it; later it is carried through, so that the
// answer is always the truth.
func (s *Store) Transact(ctx context.Context, ws ...store.Write) error {
	if err := store.Validate(ws); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{ws: ws, done: make(chan struct{})}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.queue <- r:
		<-r.done
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.closed()
	}
}
