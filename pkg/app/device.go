package app

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// ClientCLI is the client that `lazy login` is. It needs no registration and can
// do nothing but the device grant.
const ClientCLI = "lazy"

// DeviceAsk is a program that wants a person to sign in elsewhere.
type DeviceAsk struct {
	Machine string `json:"machine"`              // what the machine calls itself
	ID      string `json:"machine_id,omitempty"` // drawn once there; "" for none
	From    string `json:"from"`                 // address the request came from
	Project string `json:"project,omitempty"`    // the project it asks for, "" to leave it to the person
}

// Device is a device grant on its way (RFC 8628).
type Device struct {
	DeviceAsk
	Status   string        `json:"status"` // pending, approved, denied
	Tenant   string        `json:"tenant,omitempty"`
	Into     string        `json:"into,omitempty"` // the project that the person chose
	Email    string        `json:"email,omitempty"`
	Name     string        `json:"name,omitempty"`
	Created  time.Time     `json:"created"`
	Expires  time.Time     `json:"expires"`
	Interval time.Duration `json:"interval"`
	Next     time.Time     `json:"next"` // when the next poll may come
	Version  int64         `json:"version"`
}

// The states of a device grant.
const (
	devicePending  = "pending"
	deviceApproved = "approved"
	deviceDenied   = "denied"
)

// DeviceCodes is what the program gets: one code to poll with and one to show.
type DeviceCodes struct {
	Device   string
	User     string
	Expires  time.Duration
	Interval time.Duration
}

// userLetters have no vowels, so that no code is a word, and no digits that look
// like letters (RFC 8628 6.1).
const userLetters = "BCDFGHJKLMNPQRSTVWXZ"

func newUserCode() string {
	var b strings.Builder
	for i := range 8 {
		if i == 4 {
			b.WriteByte('-')
		}
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(userLetters))))
		if err != nil {
			panic("app: no randomness: " + err.Error())
		}
		b.WriteByte(userLetters[n.Int64()])
	}
	return b.String()
}

// UserCode is a user code as it is written, from what a person typed.
func UserCode(typed string) string {
	var b strings.Builder
	for _, r := range strings.ToUpper(typed) {
		if strings.ContainsRune(userLetters, r) {
			b.WriteRune(r)
		}
		if b.Len() > 8 {
			return ""
		}
	}
	if b.Len() != 8 {
		return ""
	}
	return b.String()[:4] + "-" + b.String()[4:]
}

// BeginDevice begins a device grant. On a laptop there is none: it has one person
// and one credential (OP-010).
func (a *App) BeginDevice(ctx context.Context, ask DeviceAsk) (DeviceCodes, error) {
	if a.Local {
		return DeviceCodes{}, refusal.Of(refusal.SingleOwner)
	}
	ask.Machine, _ = text.Cut(text.Line(ask.Machine), 80)
	ask.Project, _ = text.Cut(text.Line(ask.Project), 64)
	ask.ID, _ = text.Cut(text.Line(ask.ID), 64)
	now := a.Now()
	d := Device{
		DeviceAsk: ask, Status: devicePending, Created: now, Expires: now.Add(names.DeviceLife),
		Interval: names.DeviceInterval, Next: now, Version: 1,
	}
	for range tries {
		codes := DeviceCodes{Device: "lzd_" + randomHex(32), User: newUserCode(), Expires: names.DeviceLife, Interval: d.Interval}
		k := a.grantKey(grantDevice, codes.Device)
		// A user code that waits for its person is never given out twice.
		err := a.Store.Transact(ctx, deviceWrite(k, d, store.Absent()),
			grantRow(a.grantKey(grantUser, codes.User), "user-code", deviceRef{k.PK}, d.Expires, store.Absent()))
		if !lostRace(err) {
			return codes, err
		}
	}
	return DeviceCodes{}, store.ErrContention
}

// deviceRef leads from a user code to its device grant.
type deviceRef struct {
	PK string `json:"pk"`
}

func (r deviceRef) key() store.Key { return store.Key{PK: r.PK, SK: "META"} }

func deviceWrite(k store.Key, d Device, cond ...store.Cond) store.Write {
	w := grantRow(k, "device", d, d.Expires, cond...)
	w.Item.Attr[store.AttrVersion] = d.Version
	return w
}

// PollDevice answers a program that asks whether its person has decided. It may
// ask as often as it was told; each time it asks sooner it is told to wait 5 s
// longer from then on.
func (a *App) PollDevice(ctx context.Context, code, client string) (Issued, error) {
	if client != ClientCLI {
		return Issued{}, badGrant()
	}
	k := a.grantKey(grantDevice, code)
	for range tries {
		d, ok, err := get[Device](ctx, a.Store, k)
		switch {
		case err != nil:
			return Issued{}, err
		case !ok:
			return Issued{}, badGrant()
		case !a.Now().Before(d.Expires):
			return Issued{}, &GrantError{ExpiredToken, "nobody approved this sign-in in time"}
		case d.Status == deviceDenied:
			return Issued{}, &GrantError{AccessDenied, "the person declined this sign-in"}
		case d.Status == deviceApproved:
			return a.redeemDevice(ctx, k, d)
		}
		answer := &GrantError{Pending, "the person has not decided yet"}
		if a.Now().Before(d.Next) {
			d.Interval += names.DeviceInterval
			answer = &GrantError{SlowDown, "asked too soon; wait 5 seconds longer from now on"}
		}
		was := d.Version
		d.Next, d.Version = a.Now().Add(d.Interval), was+1
		err = a.Store.Transact(ctx, deviceWrite(k, d, store.VersionIs(was)))
		if err == nil {
			return Issued{}, answer
		}
		if !lostRace(err) {
			return Issued{}, err
		}
	}
	return Issued{}, &GrantError{SlowDown, "too many ask at once"}
}

// redeemDevice gives out the tokens, once: the grant's row goes in the same
// transaction.
func (a *App) redeemDevice(ctx context.Context, k store.Key, d Device) (Issued, error) {
	m, ok, err := a.enters(ctx, d.Tenant, d.Into, d.Email)
	if err != nil || !ok {
		return Issued{}, errors.Join(badGrant(), err)
	}
	if err := a.endAlone(ctx, d.Tenant, d.ID, m); err != nil {
		return Issued{}, err
	}
	out, ws, err := a.startFamily(ctx, d.Tenant, Family{
		ID: newFamilyID(d.Email, d.ID), Kind: identity.User, Project: d.Into, Email: d.Email, Name: d.Name,
		Client: ClientCLI, ClientName: "lazy", Machine: d.Machine,
	})
	if err != nil {
		return Issued{}, err
	}
	once := store.Write{Act: store.Delete, Item: store.Item{Key: k}, If: []store.Cond{store.VersionIs(d.Version)}}
	err = a.Store.Transact(ctx, append(ws, once)...)
	if lostRace(err) {
		return Issued{}, badGrant()
	}
	return out, err
}

// endAlone ends the sign-ins of a machine that are good for one project each, as they
// were begun before one was for the whole machine: the new one replaces them all.
func (a *App) endAlone(ctx context.Context, tenant, machine string, m Member) error {
	if machine == "" {
		return nil
	}
	for _, project := range m.Projects {
		f, ok, err := get[Family](ctx, a.Store, store.For(tenant).Family(newFamilyID(m.Email, machine+"\x00"+project)))
		if err == nil && ok {
			err = a.endFamily(ctx, tenant, f, "its person signed in again")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notWaiting answers a user code that stands for nothing, whatever the reason.
func notWaiting() error {
	return fault.New(fault.NotFound, "No sign-in waits for this code.").WithNext("Look at the terminal again, or run `lazy login` anew.")
}

func (a *App) awaited(ctx context.Context, code string) (store.Key, Device, error) {
	code = UserCode(code)
	ref, ok, err := get[deviceRef](ctx, a.Store, a.grantKey(grantUser, code))
	if err != nil {
		return store.Key{}, Device{}, err
	}
	if !ok || code == "" {
		return store.Key{}, Device{}, notWaiting()
	}
	d, ok, err := get[Device](ctx, a.Store, ref.key())
	if err == nil && (!ok || d.Status != devicePending || !a.Now().Before(d.Expires)) {
		err = notWaiting()
	}
	return ref.key(), d, err
}

// LookDevice shows a person the sign-in that a user code stands for. How often a
// person may try is bounded, so that codes cannot be guessed (RFC 8628 5.1).
func (a *App) LookDevice(ctx context.Context, by Browser, code string) (Device, error) {
	if err := a.Allow(ctx, "user-code", by.Email, 10, names.DeviceLife); err != nil {
		return Device{}, err
	}
	_, d, err := a.awaited(ctx, code)
	return d, err
}

// DecideDevice is a person's answer to a device grant. Only a signed-in browser
// gets here; whoever began the grant cannot (LG-002).
func (a *App) DecideDevice(ctx context.Context, by Browser, code string, approve bool, into Entry) error {
	if err := a.Allow(ctx, "user-code", by.Email, 10, names.DeviceLife); err != nil {
		return err
	}
	for range tries {
		k, d, err := a.awaited(ctx, code)
		if err != nil {
			return err
		}
		was := d.Version
		d.Version++
		d.Status = deviceDenied
		if approve {
			m, ok, err := a.enters(ctx, into.Tenant, into.Project, by.Email)
			if err != nil {
				return err
			}
			if !ok {
				return noEntry()
			}
			d.Status, d.Tenant, d.Into, d.Email, d.Name = deviceApproved, into.Tenant, into.Project, m.Email, m.Name
			if d.Name == "" {
				d.Name = by.Name
			}
		}
		err = a.Store.Transact(ctx, deviceWrite(k, d, store.VersionIs(was)))
		if !lostRace(err) {
			return err
		}
	}
	return store.ErrContention
}
