package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	sqlite "modernc.org/sqlite"
)

// conn is one connection with its prepared statements, used by one goroutine at
// a time. It talks to the driver below database/sql, whose bookkeeping costs
// more than the read of an item.
type conn struct {
	c     driver.Conn
	stmts map[string]driver.Stmt
}

// dial opens a connection to an existing file. cache is in KiB.
func dial(path string, patience time.Duration, cache int) (*conn, error) {
	path = filepath.ToSlash(path)
	if path[0] != '/' { // a drive letter
		path = "/" + path
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_error_rc=1"}
	dc, err := new(sqlite.Driver).Open(name.String())
	if err != nil {
		return nil, err
	}
	c := &conn{c: dc, stmts: map[string]driver.Stmt{}}
	for _, p := range []string{
		fmt.Sprintf("PRAGMA busy_timeout=%d", max(patience.Milliseconds(), 0)),
		fmt.Sprintf("PRAGMA cache_size=-%d", cache),
		"PRAGMA synchronous=FULL",
		"PRAGMA fullfsync=1",
		"PRAGMA trusted_schema=0",
	} {
		if err := c.run(p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	var errs []error
	for _, st := range c.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// run executes a statement once, without keeping it.
func (c *conn) run(text string) error {
	_, err := c.c.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

func (c *conn) prepared(text string) (driver.Stmt, error) {
	if st, ok := c.stmts[text]; ok {
		return st, nil
	}
	st, err := c.c.Prepare(text)
	if err == nil {
		c.stmts[text] = st
	}
	return st, err
}

func named(args []any) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, a := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return out
}

// exec executes a kept statement and returns the number of rows it changed.
func (c *conn) exec(text string, args ...any) (int64, error) {
	st, err := c.prepared(text)
	if err != nil {
		return 0, err
	}
	// No context: a local statement is short, and an interrupted one would leave
	// its neighbours in the same commit to guess.
	res, err := st.(driver.StmtExecContext).ExecContext(context.Background(), named(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// rows executes a kept statement and calls each until it returns false.
func (c *conn) rows(text string, args []any, each func(row []any) (bool, error)) (err error) {
	st, err := c.prepared(text)
	if err != nil {
		return err
	}
	rs, err := st.(driver.StmtQueryContext).QueryContext(context.Background(), named(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rs.Close()) }()
	n := len(rs.Columns())
	vals := make([]driver.Value, n)
	row := make([]any, n)
	for {
		if err := rs.Next(vals); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for i, v := range vals {
			row[i] = v
		}
		if more, err := each(row); err != nil || !more {
			return err
		}
	}
}

// number reads the single value of a statement such as a pragma.
func (c *conn) number(text string) (int64, error) {
	var n int64
	err := c.rows(text, nil, func(row []any) (bool, error) {
		n, _ = row[0].(int64)
		return false, nil
	})
	return n, err
}

// pool lends up to a fixed number of connections, the most recently used first,
// so that a quiet process holds one page cache.
type pool struct {
	open  func() (*conn, error)
	slots chan struct{}

	mu   sync.Mutex
	free []*conn // guarded by mu
	shut bool    // guarded by mu
}

var errShut = errors.New("the store is closed")

func newPool(n int, open func() (*conn, error)) *pool {
	return &pool{open: open, slots: make(chan struct{}, n)}
}

func (p *pool) use(ctx context.Context, f func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return errShut
	}
	var c *conn
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
	}
	p.mu.Unlock()
	if c == nil {
		var err error
		if c, err = p.open(); err != nil {
			return err
		}
	}
	err := f(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
	return err
}

// close waits for the lent connections and closes them all.
func (p *pool) close() error {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	var errs []error
	for _, c := range p.free {
		errs = append(errs, c.close())
	}
	p.free = nil
	for range cap(p.slots) {
		<-p.slots
	}
	return errors.Join(errs...)
}
