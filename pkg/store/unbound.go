package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/id"
)

// This file holds every read that is not bound to a tenant beforehand (DESIGN 4).

// DueRows returns up to limit rows of one shard whose time has come, oldest first.
func DueRows(ctx context.Context, s Store, shard int, now time.Time, limit int, cursor string) (Page, error) {
	return s.Query(ctx, Query{
		Index:  Due,
		PK:     fmt.Sprintf("DUE#%02d", shard),
		To:     now.Add(1).UTC().Format(dueLayout),
		Limit:  limit,
		Cursor: cursor,
	})
}

// KeyOf reads back the key of a row that the table itself tells of, in its stream.
// ok is false for what this package would not have built.
func KeyOf(pk, sk string) (k Key, ok bool) {
	k = Key{pk, sk}
	return k, strings.HasPrefix(pk, "T#") && TenantOf(k) != "" && sk != ""
}

// IsOutbox reports whether a row is one of the outbox.
func IsOutbox(k Key) bool { return strings.HasPrefix(k.SK, "OUT#") }

// TaskOf reads the task out of a key, "" when the row is none of a task's.
func TaskOf(k Key) id.Task {
	_, tid, _ := strings.Cut(k.PK, taskPartition)
	return id.Task(tid)
}

// HistoryOf reads back which row of a task's history a key names: the nth, from 0,
// of the change that led to version. ok is false for any other key.
func HistoryOf(k Key) (t id.Task, version int64, place int, ok bool) {
	t = TaskOf(k)
	name, is := strings.CutPrefix(k.SK, historyPrefix)
	if t == "" || !is {
		return "", 0, 0, false
	}
	number, nth, more := strings.Cut(name, ".")
	version, err := strconv.ParseInt(number, 10, 64)
	if err == nil && more {
		place, err = strconv.Atoi(nth)
	}
	return t, version, place, err == nil
}

// TenantOf reads the tenant out of a key that this package built.
func TenantOf(k Key) string {
	t := strings.TrimPrefix(k.PK, "T#")
	if i := strings.IndexByte(t, '#'); i >= 0 {
		t = t[:i]
	}
	return t
}
