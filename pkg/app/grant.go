package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/store"
)

// Of what has no tenant yet the rows lie with the control plane itself, under the
// keyed hash of the secret that finds them: who reads the table can use none.
func (a *App) grantKey(kind, secret string) store.Key {
	return store.For(names.TenantReserved).Grant(kind, a.blind(kind, secret))
}

// blind is a keyed hash, so that a short secret cannot be found from it either.
func (a *App) blind(kind, secret string) string {
	mac := hmac.New(sha256.New, a.Key)
	mac.Write([]byte("grant\x00" + kind + "\x00" + secret))
	return hex.EncodeToString(mac.Sum(nil))
}

// The kinds of grant rows.
const (
	grantDevice = "device"
	grantUser   = "user-code"
	grantCode   = "code"
	grantClient = "client"
	grantFlow   = "flow"
	grantLogin  = "browser"
	grantLink   = "link"
	grantRate   = "rate"
)

// grantRow writes a grant row that may be collected a day after it expires.
func grantRow(k store.Key, typ string, v any, expires time.Time, conds ...store.Cond) store.Write {
	w := put(k, typ, v, conds...)
	w.Item.Expires = expires.Add(24 * time.Hour)
	return w
}

// take removes a grant row that may be used once. Of many that take it, one gets
// true.
func (a *App) take(ctx context.Context, k store.Key) (bool, error) {
	err := a.Store.Transact(ctx, store.Write{Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.Present()}})
	if lostRace(err) {
		return false, nil
	}
	return err == nil, err
}

// Allow counts one try of something that may be tried most times in a window by
// one origin, and refuses the next one.
func (a *App) Allow(ctx context.Context, what, origin string, most int64, window time.Duration) error {
	now := a.Now()
	began := now.Truncate(window)
	k := a.grantKey(grantRate, what+"\x00"+origin+"\x00"+began.UTC().Format(time.RFC3339))
	for range tries {
		err := a.Store.Transact(ctx, store.Write{
			Act: store.Update, Item: store.Item{Key: k}, Add: map[string]int64{"n": 1}, If: []store.Cond{store.FieldLess("n", most)},
		})
		lost, conflict := errors.AsType[*store.ConflictError](err)
		if !conflict {
			return err
		}
		if lost.Current.Attr != nil {
			return fault.New(fault.Limited, "Too many tries; nothing was done.").
				WithNext("Try again after " + began.Add(window).UTC().Format("15:04:05") + " UTC.")
		}
		first := grantRow(k, "rate", struct{}{}, began.Add(window), store.Absent())
		first.Item.Attr["n"] = int64(1)
		if err := a.Store.Transact(ctx, first); !lostRace(err) {
			return err
		}
	}
	return fault.New(fault.Limited, "Too many tries; nothing was done.")
}
