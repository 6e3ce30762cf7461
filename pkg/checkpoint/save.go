package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Blob is a file of the base as git knows it.
type Blob struct {
	ID   string // object id: SHA-1 or SHA-256 of the content as git hashes it
	Exec bool
	Link bool
	Dir  bool // a submodule: its directory
}

// Part is one directory of a workspace.
type Part struct {
	Name string
	Dir  string
	// Skip leaves out a path, with all below it. It is never asked for the
	// directory itself.
	Skip func(path string, dir bool) bool
	// Base is what a restore finds there already; nil is an empty directory.
	Base map[string]Blob
}

// Saver writes the checkpoints of one epoch of a task. It is not safe for
// concurrent use.
type Saver struct {
	depot  Depot
	cipher Cipher
	epoch  int64
	seq    int64
	last   *Manifest        // in force, of whatever epoch
	known  map[string]place // chunks that are stored
	seen   map[string]seen  // by part and path
	now    func() time.Time
	// settled is the time before which a file has to have changed last for its
	// content to be remembered: two writes may bear the same time.
	settled int64
}

type place struct {
	object   string
	at, size int64
}

// seen is a file as it was when it was last read.
type seen struct {
	stat   stat
	blob   string // object id, "" when it was not asked for
	chunks []string
	read   bool // chunks are known
}

// NewSaver returns the saver of an epoch. last is the checkpoint that was
// restored, or nil; what it stored need not be stored again.
func NewSaver(d Depot, c Cipher, epoch int64, last *Manifest, now func() time.Time) *Saver {
	s := &Saver{depot: d, cipher: c, epoch: epoch, last: last, now: now, known: map[string]place{}, seen: map[string]seen{}}
	if last != nil {
		for sum, p := range last.Chunks {
			if p.Object >= 0 && p.Object < len(last.Objects) {
				s.known[sum] = place{last.Objects[p.Object], p.At, p.Size}
			}
		}
		if last.Epoch == epoch {
			s.seq = last.Seq
		}
	}
	return s
}

// Stats says what a save did.
type Stats struct {
	Entries int   // paths in the manifest
	Read    int64 // bytes read from files
	Stored  int64 // bytes of objects written, the manifest included
	Objects int   // objects written
}

// Save writes a checkpoint of parts on the commit base, if it differs from the
// last one, and moves the pointer. Of what did not change since the last save,
// nothing is read or stored again.
func (s *Saver) Save(ctx context.Context, base string, parts []Part) (p Pointer, st Stats, changed bool, err error) {
	full := false
	if s.last != nil && len(s.last.Objects) > maxObjects {
		full = true
		clear(s.known)
		clear(s.seen)
	}
	s.settled = s.now().Add(-time.Second).UnixNano()
	s.seq++ // also after a failure: a name is never written twice
	w := &writer{s: s, st: &st, seq: s.seq}
	m := Manifest{V: version, Epoch: s.epoch, Seq: s.seq, Base: base, Parts: map[string]Saved{}}
	next := map[string]seen{}
	for _, part := range parts {
		sc := &scan{w: w, part: part, saver: s, next: next, m: &m}
		saved, err := sc.run(ctx)
		if err != nil {
			return Pointer{}, st, false, fmt.Errorf("checkpoint %s: %w", part.Name, err)
		}
		m.Parts[part.Name] = saved
		st.Entries += len(saved.Entries) + len(saved.Gone)
	}
	if err := w.flush(ctx); err != nil {
		return Pointer{}, st, false, err
	}
	s.seen = next
	if !full && s.last != nil && s.last.Base == base && s.last.Epoch == s.epoch && reflect.DeepEqual(s.last.Parts, m.Parts) {
		return Pointer{}, st, false, nil
	}
	if err := s.index(&m); err != nil {
		return Pointer{}, st, false, err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return Pointer{}, st, false, fmt.Errorf("write manifest: %w", err)
	}
	if err := w.put(ctx, manifestName, b); err != nil {
		return Pointer{}, st, false, err
	}
	p = Pointer{Epoch: s.epoch, Seq: m.Seq, Digest: digest(b), Base: base}
	if err := s.depot.Point(ctx, p); err != nil {
		return Pointer{}, st, false, fmt.Errorf("move checkpoint pointer: %w", err)
	}
	s.last = &m
	return p, st, true, nil
}

// index says where the chunks of a manifest lie and forgets those it does not use.
func (s *Saver) index(m *Manifest) error {
	m.Chunks, m.Objects = map[string]Place{}, []string{}
	at := map[string]int{}
	live := map[string]place{}
	for _, name := range slices.Sorted(maps.Keys(m.Parts)) {
		for _, e := range m.Parts[name].Entries {
			for _, sum := range e.Chunks {
				if _, ok := live[sum]; ok {
					continue
				}
				p, ok := s.known[sum]
				if !ok {
					return fmt.Errorf("checkpoint: a chunk of %q was not stored", e.Path)
				}
				live[sum] = p
				if _, ok := at[p.object]; !ok {
					at[p.object] = len(m.Objects)
					m.Objects = append(m.Objects, p.object)
				}
				m.Chunks[sum] = Place{Object: at[p.object], At: p.at, Size: p.size}
			}
		}
	}
	s.known = live
	return nil
}

// writer collects chunks into packs and stores them.
type writer struct {
	s       *Saver
	st      *Stats
	seq     int64
	n       int
	pack    []byte
	pending map[string]place // in pack
}

// add takes a chunk that may be stored already.
func (w *writer) add(ctx context.Context, sum string, b []byte) error {
	if _, ok := w.s.known[sum]; ok {
		return nil
	}
	if _, ok := w.pending[sum]; ok {
		return nil
	}
	if w.pending == nil {
		w.pending = map[string]place{}
	}
	w.pending[sum] = place{at: int64(len(w.pack)), size: int64(len(b))}
	w.pack = append(w.pack, b...)
	if len(w.pack) >= packSize {
		return w.flush(ctx)
	}
	return nil
}

// flush stores the pack. Its chunks are known only from then on.
func (w *writer) flush(ctx context.Context) error {
	if len(w.pack) == 0 {
		return nil
	}
	what := fmt.Sprintf("pack-%d", w.n)
	if err := w.put(ctx, what, w.pack); err != nil {
		return err
	}
	for sum, p := range w.pending {
		p.object = Name(w.s.epoch, w.seq, what)
		w.s.known[sum] = p
	}
	w.n++
	w.pack, w.pending = w.pack[:0], nil
	return nil
}

func (w *writer) put(ctx context.Context, what string, b []byte) error {
	name := Name(w.s.epoch, w.seq, what)
	sealed := w.s.cipher.Seal(name, b)
	if err := w.s.depot.Put(ctx, name, sealed); err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	w.st.Objects++
	w.st.Stored += int64(len(sealed))
	return nil
}
