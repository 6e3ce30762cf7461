package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/req"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

func TestRandomTreesComeBackByteForByte(t *testing.T) {
	req.Covers(t, "UW-008", "UW-011")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		top := filepath.Join(t.TempDir(), fmt.Sprint(n))
		was, tree, again := filepath.Join(top, "was"), filepath.Join(top, "tree"), filepath.Join(top, "again")
		if err := os.MkdirAll(was, 0o755); err != nil {
			rt.Fatal(err)
		}
		draw(rt, was, rapid.IntRange(0, 15).Draw(rt, "base"))
		usual(t, was)
		clone(t, was, tree)
		blobs, raw := base(t, was)
		d := newDepot()
		s := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
		parts := []checkpoint.Part{{Name: "tree", Dir: tree, Base: blobs}, {Name: "none", Dir: filepath.Join(top, "missing")}}
		for range rapid.IntRange(1, 3).Draw(rt, "saves") {
			draw(rt, tree, rapid.IntRange(0, 12).Draw(rt, "edits"))
			_, _, changed, err := s.Save(t.Context(), "base", parts)
			if err != nil {
				rt.Fatal(err)
			}
			_, st, twice, err := s.Save(t.Context(), "base", parts)
			if err != nil || twice || st.Objects > 0 {
				rt.Fatalf("an unchanged tree was stored again: %t %+v %v (before: %t)", twice, st, err, changed)
			}
		}
		clone(t, was, again)
		// A checkout may have converted some files; one is, here.
		for _, p := range slices.Sorted(maps.Keys(blobs)) {
			if b := blobs[p]; !b.Link {
				if err := os.WriteFile(filepath.Join(again, p), []byte("converted"), 0o600); err != nil {
					rt.Fatal(err)
				}
				break
			}
		}
		m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
		if err != nil {
			rt.Fatal(err)
		}
		err = checkpoint.Restore(t.Context(), d, key(t), m, filepath.Join(top, "scratch"), map[string]checkpoint.Target{
			"tree": {Dir: again, Base: blobs, Raw: raw},
		})
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(list(t, tree), list(t, again)); diff != "" {
			rt.Fatalf("restored tree differs (-saved +restored):\n%s", diff)
		}
	})
}

func TestASupersededSupervisorMovesNoPointer(t *testing.T) {
	req.Covers(t, "UW-011", "P7")
	d, dir := newDepot(), t.TempDir()
	write(t, dir, "a", "one")
	parts := []checkpoint.Part{{Name: "tree", Dir: dir}}
	old := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
	if _, _, _, err := old.Save(t.Context(), "base", parts); err != nil {
		t.Fatal(err)
	}
	m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
	if err != nil {
		t.Fatal(err)
	}
	d.epoch = 2
	fresh := checkpoint.NewSaver(d, key(t), 2, &m, time.Now)
	p, st, changed, err := fresh.Save(t.Context(), "base", parts)
	if err != nil || !changed || p.Epoch != 2 || st.Objects != 1 {
		t.Fatalf("the next epoch's first checkpoint: %+v %+v %t %v; want its manifest alone", p, st, changed, err)
	}
	write(t, dir, "a", "late")
	if _, _, _, err := old.Save(t.Context(), "base", parts); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the old epoch saves: %v, want a conflict", err)
	}
	if d.at != p {
		t.Errorf("the pointer is %+v, want %+v", d.at, p)
	}
}

func TestADamagedCheckpointChangesNothing(t *testing.T) {
	req.Covers(t, "UW-012")
	d, dir := newDepot(), t.TempDir()
	write(t, dir, "a", strings.Repeat("a secret line\n", 1000))
	s := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
	p, _, _, err := s.Save(t.Context(), "base", []checkpoint.Part{{Name: "tree", Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	restore := func(p checkpoint.Pointer, c checkpoint.Cipher) (string, error) {
		to := filepath.Join(t.TempDir(), "tree")
		m, err := checkpoint.Load(t.Context(), d, c, p)
		if err == nil {
			err = checkpoint.Restore(t.Context(), d, c, m, t.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}})
		}
		return to, err
	}
	if to, err := restore(p, key(t)); err != nil || len(list(t, to)) != 1 {
		t.Fatalf("the whole checkpoint: %v", err)
	}
	for name, sound := range d.objects {
		if bytes.Contains(sound, []byte("secret")) {
			t.Errorf("%s can be read", name)
		}
		for what, bad := range map[string][]byte{
			"one bit":    flip(sound),
			"cut":        sound[:len(sound)-1],
			"empty":      nil,
			"another's":  d.objects[other(d.objects, name)],
			"plain text": []byte("{}"),
		} {
			d.objects[name] = bad
			to, err := restore(p, key(t))
			if !errors.Is(err, checkpoint.ErrDamaged) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, checkpoint.ErrDamaged)
			}
			if _, err := os.Lstat(to); err == nil {
				t.Errorf("%s, %s: something was restored", name, what)
			}
		}
		d.objects[name] = sound
	}
	foreign, err := checkpoint.NewCipher(bytes.Repeat([]byte{8}, checkpoint.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := restore(p, foreign); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("another task's key: %v", err)
	}
	p.Digest = strings.Repeat("0", 64)
	if _, err := restore(p, key(t)); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("another manifest than the recorded one: %v", err)
	}
}

func flip(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

func other(m map[string][]byte, not string) string {
	for k := range m {
		if k != not {
			return k
		}
	}
	return ""
}

func TestAFailedSaveLosesNothingOfTheNext(t *testing.T) {
	d, dir := newDepot(), t.TempDir()
	parts := []checkpoint.Part{{Name: "tree", Dir: dir}}
	s := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
	write(t, dir, "a", "one")
	if _, _, _, err := s.Save(t.Context(), "base", parts); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "b", "two")
	d.fail = fault.New(fault.Unavailable, "no storage")
	was := d.at
	if _, _, _, err := s.Save(t.Context(), "base", parts); fault.KindOf(err) != fault.Unavailable || d.at != was {
		t.Fatalf("the failing save: %v, pointer %+v", err, d.at)
	}
	if _, _, changed, err := s.Save(t.Context(), "base", parts); err != nil || !changed {
		t.Fatalf("the next save: %t %v", changed, err)
	}
	to := filepath.Join(t.TempDir(), "tree")
	m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Restore(t.Context(), d, key(t), m, t.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list(t, dir), list(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAnAgentPlantsIsNeitherFollowedNorWaitedFor(t *testing.T) {
	req.Covers(t, "UW-012", "GT-027")
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, filepath.Dir(secret), "secret", "canary-of-the-host")
	dir := t.TempDir()
	for _, err := range []error{
		os.Symlink(secret, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(secret), filepath.Join(dir, "dirlink")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644),
		os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644),
		os.Truncate(filepath.Join(dir, "sparse"), checkpoint.MaxFile+1),
		os.WriteFile(filepath.Join(dir, "setuid"), []byte("x"), 0o755),
		os.Chmod(filepath.Join(dir, "setuid"), 0o755|fs.ModeSetuid),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := newDepot()
	s := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
	_, st, _, err := s.Save(t.Context(), "base", []checkpoint.Part{{Name: "tree", Dir: dir}})
	if err != nil {
		t.Fatal(err)
	}
	if st.Read > 100 {
		t.Errorf("%d bytes were read", st.Read)
	}
	m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
	if err != nil {
		t.Fatal(err)
	}
	if want := []checkpoint.Path{"tree:pipe", "tree:sparse"}; !slices.Equal(m.Left, want) {
		t.Errorf("left out: %q, want %q", m.Left, want)
	}
	to := filepath.Join(t.TempDir(), "tree")
	if err := checkpoint.Restore(t.Context(), d, key(t), m, t.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}}); err != nil {
		t.Fatal(err)
	}
	if at, err := os.Readlink(filepath.Join(to, "link")); err != nil || at != secret {
		t.Errorf("the link came back as %q (%v)", at, err)
	}
	if fi, err := os.Lstat(filepath.Join(to, "setuid")); err != nil || fi.Mode() != 0o755 {
		t.Errorf("a program that changes its user came back with mode %v (%v)", fi.Mode(), err)
	}
}

func TestAManifestThatNamesPlacesOutsideIsRefused(t *testing.T) {
	for _, p := range []checkpoint.Path{"../x", "/etc/x", "a/../../x", ".", "", "a//b", "a\x00b"} {
		m := checkpoint.Manifest{Parts: map[string]checkpoint.Saved{"tree": {Entries: []checkpoint.Entry{{Path: p, Kind: checkpoint.Dir, Mode: 0o755}}}}}
		to := filepath.Join(t.TempDir(), "tree")
		err := checkpoint.Restore(t.Context(), newDepot(), key(t), m, t.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}})
		if !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestALongTaskIsNotKeptInThousandsOfPieces(t *testing.T) {
	d, dir := newDepot(), t.TempDir()
	parts := []checkpoint.Part{{Name: "tree", Dir: dir}}
	s := checkpoint.NewSaver(d, key(t), 1, nil, time.Now)
	most := 0
	for i := range 140 {
		write(t, dir, fmt.Sprintf("f%d", i), fmt.Sprint(i))
		if _, _, _, err := s.Save(t.Context(), "base", parts); err != nil {
			t.Fatal(err)
		}
		m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(m.Objects))
	}
	d.gets = 0
	to := filepath.Join(t.TempDir(), "tree")
	m, err := checkpoint.Load(t.Context(), d, key(t), d.at)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Restore(t.Context(), d, key(t), m, t.TempDir(), map[string]checkpoint.Target{"tree": {Dir: to}}); err != nil {
		t.Fatal(err)
	}
	if most > 129 || d.gets > 131 || len(list(t, to)) != 140 {
		t.Errorf("at most %d objects, %d fetched, %d files", most, d.gets, len(list(t, to)))
	}
}

func TestNamesOfObjectsAreTakenApartExactly(t *testing.T) {
	name := checkpoint.Name(3, 14, "pack-0")
	if e, s, w, err := turn.ParseObject(name); err != nil || e != 3 || s != 14 || w != "pack-0" {
		t.Errorf("%q: %d %d %q %v", name, e, s, w, err)
	}
	for _, bad := range []string{
		"", "a", "1/2/x", "00000001/00000002", "00000001/00000002/", "00000001/00000002/../x", "00000001/00000002/X",
		"-0000001/00000002/x", "00000001/00000002/x/y", "/00000001/00000002/x", "+0000001/00000002/x", "00000001/00000002/aaaaaaaaaaaaaaaaa",
	} {
		if _, _, _, err := turn.ParseObject(bad); err == nil {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
