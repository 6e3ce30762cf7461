package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/names"
	"github.com/lazyplane/lazyplane/pkg/pattern"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/text"
)

// Conversation is a builder's conversation with its agent, captured while it
// goes on. Transcripts only grow, so it is stored in parts, each written once.
type Conversation struct {
	Session string             `json:"session_id"`
	Label   string             `json:"label"` // of the session that wrote it last
	Email   string             `json:"email,omitempty"`
	Agent   string             `json:"agent"`
	Title   string             `json:"title,omitempty"`
	Size    int64              `json:"size"`
	Parts   []ConversationPart `json:"parts"`
	Created time.Time          `json:"created_at"`
	Updated time.Time          `json:"updated_at"`
}

// ConversationPart is a piece of a conversation in the blob store.
type ConversationPart struct {
	Blob string `json:"blob"`
	Size int64  `json:"size"`
	Sum  string `json:"sha256"`
}

// ConversationShown is a stored conversation as it is listed.
type ConversationShown struct {
	Session string    `json:"session_id" jsonschema:"its id, for lazy builder --resume"`
	Agent   string    `json:"agent" jsonschema:"the agent it was led with"`
	Title   string    `json:"title,omitempty" jsonschema:"its first words"`
	Size    int64     `json:"size" jsonschema:"bytes stored"`
	Live    bool      `json:"live" jsonschema:"whether its session goes on"`
	Updated time.Time `json:"updated_at" jsonschema:"when something was last added"`
}

// Conversations lists stored conversations, newest first.
type Conversations struct {
	Conversations []ConversationShown `json:"conversations" jsonschema:"the caller's, newest first"`
}

// SaveConversation is one piece of a transcript: the bytes from offset on.
type SaveConversation struct {
	Session string `json:"session_id"`
	Agent   string `json:"agent"`
	Title   string `json:"title,omitempty"`
	Offset  int64  `json:"offset"`
	Replace bool   `json:"replace,omitempty"` // the agent wrote its transcript anew
	Content []byte `json:"content"`
	Sum     string `json:"sha256"` // of content
}

// SavedConversation says what is stored afterwards: the next piece begins there.
type SavedConversation struct {
	Session string `json:"session_id"`
	Size    int64  `json:"size"`
	Added   bool   `json:"added"` // false when it was stored already
}

var sessionShape = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{7,79}$`)

// partFull is the size from which a part is left as it is; smaller last parts are
// written anew together with what follows.
const partFull = 1 << 20

func conversationKey(who identity.Caller, session string) store.Key {
	return store.For(who.Tenant).Project(who.Project).Key("CNV#" + session)
}

// SaveConversation stores a piece of the caller's conversation. The same piece
// again is stored once, whoever of two sends it (CV-008); a piece that begins
// elsewhere than the stored text ends is refused with that place, unless it is the
// first of a transcript that its agent wrote anew.
func (a *App) SaveConversation(ctx context.Context, who identity.Caller, in SaveConversation) (SavedConversation, error) {
	sum := sha256.Sum256(in.Content)
	switch {
	case !sessionShape.MatchString(in.Session):
		return SavedConversation{}, refusal.Of(refusal.InvalidArguments, "session_id", "8 to 80 letters, digits, dashes and underscores", "another text")
	case in.Sum != hex.EncodeToString(sum[:]):
		return SavedConversation{}, refusal.Of(refusal.InvalidArguments, "sha256", "the digest of content", "another one")
	case in.Offset < 0 || len(in.Content) == 0:
		return SavedConversation{}, refusal.Of(refusal.InvalidArguments, "content", "bytes to add, from an offset of 0 or more", "none")
	}
	for n := 0; ; n++ {
		out, err := a.addPart(ctx, who, in)
		if _, lost := errors.AsType[*store.ConflictError](err); !lost || n == tries {
			return out, err
		}
	}
}

func (a *App) addPart(ctx context.Context, who identity.Caller, in SaveConversation) (SavedConversation, error) {
	k := conversationKey(who, in.Session)
	it, err := a.Store.Get(ctx, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return SavedConversation{}, err
	}
	cond := store.Absent()
	cv := Conversation{Session: in.Session, Email: who.Email, Created: a.Now()}
	if err == nil {
		if cv, err = decode[Conversation](it); err != nil {
			return SavedConversation{}, err
		}
		if cv.Email != who.Email {
			return SavedConversation{}, refusal.Of(refusal.NotFound, "conversation", in.Session)
		}
		cond = store.FieldIs("size", cv.Size)
		if done, err := a.stored(ctx, cv, in); err != nil || done {
			return SavedConversation{Session: cv.Session, Size: cv.Size}, err
		}
	}
	var old []ConversationPart
	switch {
	case in.Offset == 0 && in.Replace:
		old, cv.Parts, cv.Size = cv.Parts, nil, 0
	case in.Offset != cv.Size:
		return SavedConversation{}, refusal.Of(refusal.InvalidArguments, "offset", fmt.Sprintf("%d, where the stored text ends", cv.Size), fmt.Sprint(in.Offset)).
			WithDetail("size", cv.Size)
	}
	data := in.Content
	if n := len(cv.Parts); n > 0 && cv.Parts[n-1].Size < partFull {
		last, err := a.Blob.Get(ctx, cv.Parts[n-1].Blob)
		if err != nil {
			return SavedConversation{}, fmt.Errorf("read conversation %s: %w", cv.Session, err)
		}
		old, cv.Parts, data = append(old, cv.Parts[n-1]), cv.Parts[:n-1], append(last, data...)
	}
	part, err := a.putPart(ctx, who, in.Session, data)
	if err != nil {
		return SavedConversation{}, err
	}
	cv.Parts, cv.Size, cv.Updated, cv.Label = append(cv.Parts, part), cv.Size+int64(len(in.Content)), a.Now(), who.Subject
	cv.Agent, _ = text.Cut(text.Field(in.Agent), 60)
	if cv.Title == "" {
		cv.Title, _ = text.Cut(text.Line(in.Title), 120)
	}
	w := put(k, "conversation", cv, cond)
	w.Item.Attr["size"] = cv.Size
	if err := a.Store.Transact(ctx, w); err != nil {
		return SavedConversation{}, err // what was put is found again by its digest
	}
	for _, p := range old { // nothing names them any more
		if !slices.ContainsFunc(cv.Parts, func(x ConversationPart) bool { return x.Blob == p.Blob }) {
			if err := a.Blob.Delete(ctx, p.Blob); err != nil {
				a.Log.WarnContext(ctx, "a piece of a conversation is left behind", "session", cv.Session, "err", err)
			}
		}
	}
	return SavedConversation{Session: cv.Session, Size: cv.Size, Added: true}, nil
}

func (a *App) putPart(ctx context.Context, who identity.Caller, session string, data []byte) (ConversationPart, error) {
	sum := sha256.Sum256(data)
	p := ConversationPart{Size: int64(len(data)), Sum: hex.EncodeToString(sum[:])}
	p.Blob = strings.Join([]string{who.Tenant, who.Project, "conversations", session, p.Sum}, "/")
	return p, a.Blob.Put(ctx, p.Blob, data)
}

// stored reports whether a piece is stored already, where it would be.
func (a *App) stored(ctx context.Context, cv Conversation, in SaveConversation) (bool, error) {
	end := in.Offset + int64(len(in.Content))
	if end > cv.Size {
		return false, nil
	}
	have, err := a.transcript(ctx, cv)
	if err != nil {
		return false, err
	}
	return bytes.Equal(have[in.Offset:end], in.Content) && (!in.Replace || end == cv.Size), nil
}

func (a *App) transcript(ctx context.Context, cv Conversation) ([]byte, error) {
	var out []byte
	for _, p := range cv.Parts {
		b, err := a.Blob.Get(ctx, p.Blob)
		if errors.Is(err, blob.ErrNotFound) {
			return nil, fmt.Errorf("conversation %s lacks a part: %w", cv.Session, err)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// ListConversations lists the caller's stored conversations, newest first.
func (a *App) ListConversations(ctx context.Context, c Call) (Conversations, error) {
	out := Conversations{Conversations: []ConversationShown{}}
	cs, err := allOf[Conversation](ctx, a.Store, store.For(c.Who.Tenant).Project(c.Who.Project), "CNV#")
	if err != nil {
		return out, err
	}
	live, err := a.builders(ctx, c.Who)
	if err != nil {
		return out, err
	}
	for _, cv := range cs {
		if cv.Email != c.Who.Email && c.Who.Person() {
			continue
		}
		out.Conversations = append(out.Conversations, ConversationShown{
			Session: cv.Session, Agent: cv.Agent, Title: cv.Title, Size: cv.Size, Updated: cv.Updated,
			Live: slices.ContainsFunc(live, func(s BuilderSession) bool {
				return s.Label == cv.Label && a.Now().Sub(s.Seen) <= names.BuilderResidue
			}),
		})
	}
	slices.SortFunc(out.Conversations, func(x, y ConversationShown) int { return y.Updated.Compare(x.Updated) })
	return out, nil
}

// ScratchFile is a file of a builder's scratch, which is no part of a repository.
type ScratchFile struct {
	Name    string    `json:"name"`
	Size    int64     `json:"size"`
	Sum     string    `json:"sha256"`
	Blob    string    `json:"blob"`
	Updated time.Time `json:"updated_at"`
}

// ResumeIntent says which conversation a session would be resumed with (BL-012).
type ResumeIntent struct {
	Label   string    `json:"label"`
	Session string    `json:"session_id"`
	At      time.Time `json:"at"`
}

var scratchName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// SaveScratchFile stores a file of the caller's scratch, replacing one of that
// name.
func (a *App) SaveScratchFile(ctx context.Context, who identity.Caller, name string, content []byte) (ScratchFile, error) {
	if !scratchName.MatchString(name) {
		return ScratchFile{}, refusal.Of(refusal.InvalidArguments, "name", "up to 100 letters, digits, dots, dashes and underscores", "another text")
	}
	sum := sha256.Sum256(content)
	f := ScratchFile{Name: name, Size: int64(len(content)), Sum: hex.EncodeToString(sum[:]), Updated: a.Now()}
	f.Blob = strings.Join([]string{who.Tenant, who.Project, "scratch", personOf(who), f.Sum}, "/")
	if err := a.Blob.Put(ctx, f.Blob, content); err != nil {
		return ScratchFile{}, err
	}
	return f, a.Store.Transact(ctx, put(scratchKey(who, name), "scratch-file", f))
}

// personOf stands for a person in keys, which addresses are not fit for.
func personOf(who identity.Caller) string { return identity.Hash(who.Email)[:16] }

func scratchKey(who identity.Caller, name string) store.Key {
	return store.For(who.Tenant).Project(who.Project).Key("SCR#" + personOf(who) + "#" + name)
}

// ListScratchFiles lists the caller's scratch.
func (a *App) ListScratchFiles(ctx context.Context, who identity.Caller) ([]ScratchFile, error) {
	return allOf[ScratchFile](ctx, a.Store, store.For(who.Tenant).Project(who.Project), "SCR#"+personOf(who)+"#")
}

// SaveResumeIntent stamps which conversation the caller's session leads.
func (a *App) SaveResumeIntent(ctx context.Context, who identity.Caller, session string) (ResumeIntent, error) {
	if !sessionShape.MatchString(session) {
		return ResumeIntent{}, refusal.Of(refusal.InvalidArguments, "session_id", "the id of a conversation", "another text")
	}
	in := ResumeIntent{Label: who.Subject, Session: session, At: a.Now()}
	k := store.For(who.Tenant).Project(who.Project).Key("RSI#" + personOf(who) + "#" + who.Subject)
	return in, a.Store.Transact(ctx, put(k, "resume-intent", in))
}

// ListResumeIntents lists the stamps of the caller's person.
func (a *App) ListResumeIntents(ctx context.Context, who identity.Caller) ([]ResumeIntent, error) {
	return allOf[ResumeIntent](ctx, a.Store, store.For(who.Tenant).Project(who.Project), "RSI#"+personOf(who)+"#")
}

// StoragePath answers the preflight of a capture: that the store is reached, and
// what it calls the session (CV-006).
func (a *App) StoragePath(ctx context.Context, who identity.Caller) (string, error) {
	return who.Project + "/conversations/" + who.Subject, a.seen(ctx, who)
}
