package app_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/blob"
	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/refusal"
	"github.com/lazyplane/lazyplane/pkg/req"
	sealfile "github.com/lazyplane/lazyplane/pkg/seal/file"
	"github.com/lazyplane/lazyplane/pkg/turn"
)

// bucket is a blob store that gives links, as a hosted one does.
type bucket struct{ *memBlobs }

func (bucket) Upload(_ context.Context, key string, size int64, sum [32]byte) (blob.Link, error) {
	return blob.Link{Method: "PUT", URL: fmt.Sprintf("https://bucket/%s?%d&%x", key, size, sum[:2])}, nil
}

func (bucket) Download(_ context.Context, key string) (blob.Link, error) {
	return blob.Link{Method: "GET", URL: "https://bucket/" + key}, nil
}

func (b bucket) Purge(_ context.Context, prefix string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.data {
		if strings.HasPrefix(k, prefix+"/") {
			delete(b.data, k)
		}
	}
	return nil
}

func hosted(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	env, err := sealfile.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r.Seal, r.Blob = env, bucket{r.blobs}
	return r
}

func parcel(name string) turn.Parcel {
	return turn.Parcel{Name: name, Size: 10, SHA256: bytes.Repeat([]byte{1}, 32)}
}

func TestARunGetsLinksIntoItsOwnVaultAndUnderItsOwnEpochOnly(t *testing.T) {
	req.Covers(t, "UW-011", "AG-023")
	r := hosted(t)
	tid := r.working("task", "")
	who := r.supervisor(tid)
	mine := turn.ObjectName(who.Epoch, 1, "pack-0")
	out, err := r.Upload(t.Context(), who, turn.UploadIn{Put: []turn.Parcel{parcel(mine)}, Get: []string{turn.ObjectName(0, 3, "manifest")}})
	at := "https://bucket/" + tenant + "/tasks/" + string(tid) + "/vault/"
	if err != nil || len(out.Put) != 1 || out.Put[0].URL != at+mine+"?10&0101" || len(out.Get) != 1 || !strings.HasPrefix(out.Get[0].URL, at) {
		t.Fatalf("%+v, %v", out, err)
	}
	for what, in := range map[string]turn.UploadIn{
		"another epoch":    {Put: []turn.Parcel{parcel(turn.ObjectName(who.Epoch+1, 1, "pack-0"))}},
		"an earlier epoch": {Put: []turn.Parcel{parcel(turn.ObjectName(who.Epoch-1, 1, "pack-0"))}},
		"a way out":        {Put: []turn.Parcel{parcel("../../other/vault/00000001/00000001/x")}},
		"a way out, read":  {Get: []string{"../other"}},
		"no size":          {Put: []turn.Parcel{{Name: mine, SHA256: make([]byte, 32)}}},
		"too large":        {Put: []turn.Parcel{{Name: mine, Size: 1 << 40, SHA256: make([]byte, 32)}}},
		"no checksum":      {Put: []turn.Parcel{{Name: mine, Size: 1}}},
		"too many":         {Get: make([]string, turn.VaultLinks+1)},
		"a foreign point":  {Point: &turn.Checkpoint{Epoch: who.Epoch + 1, Seq: 1, Digest: strings.Repeat("a", 64), Base: "b"}},
		"half a point":     {Point: &turn.Checkpoint{Epoch: who.Epoch, Seq: 1}},
	} {
		r.quiet(tid, func() {
			if out, err := r.Upload(t.Context(), who, in); err == nil || fault.HTTP(err) >= 500 {
				t.Errorf("%s: %+v, %v", what, out, err)
			}
		})
	}
	if _, err := newRig(t).Upload(t.Context(), who, turn.UploadIn{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a control plane on a laptop: %v", err)
	}
}

func TestTheCheckpointPointerMovesForwardAndNotForASupersededRun(t *testing.T) {
	req.Covers(t, "UW-011", "P7", "SY-048")
	r := hosted(t)
	tid := r.working("task", "")
	who := r.supervisor(tid)
	point := func(who identity.Caller, seq int64) error {
		_, err := r.Upload(t.Context(), who, turn.UploadIn{Point: &turn.Checkpoint{
			Epoch: who.Epoch, Seq: seq, Digest: strings.Repeat("a", 64), Base: r.load(tid).Tip,
		}})
		return err
	}
	before := r.load(tid)
	for _, seq := range []int64{1, 1, 3} {
		if err := point(who, seq); err != nil {
			t.Fatalf("%d: %v", seq, err)
		}
	}
	if err := point(who, 2); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an older one: %v", err)
	}
	if after := r.load(tid); after.Version != before.Version {
		t.Error("the task's own row was written")
	}
	r.again(tid)
	if err := point(who, 9); !refusal.Is(err, refusal.Fenced) {
		t.Errorf("the superseded run: %v", err)
	}
	v, err := r.TaskVault(t.Context(), tenant, tid)
	if err != nil || v.Checkpoint == nil || v.Checkpoint.Epoch != who.Epoch || v.Checkpoint.Seq != 3 || len(v.Key) != 32 {
		t.Errorf("the next run is told %+v, %v", v, err)
	}
}

func TestHostedNoCommitIsRecordedThatIsNotStoredOutsideItsRun(t *testing.T) {
	req.Covers(t, "UW-010")
	r := hosted(t)
	tid := r.working("task", "")
	who := r.agent(tid)
	commit := func(sha, bundle string) error {
		who.Commit = &identity.Commit{Parent: r.load(tid).Tip, Commit: sha, Tree: "tree", Bundle: bundle}
		_, err := r.RecordCommit(t.Context(), r.call(who), "work")
		return err
	}
	for _, name := range []string{"", "x", turn.ObjectName(who.Epoch+1, 1, turn.BundleObject), turn.ObjectName(who.Epoch, 1, "pack-0")} {
		r.quiet(tid, func() {
			if err := commit("c1c1c1c1", name); fault.KindOf(err) != fault.Invalid {
				t.Errorf("a bundle at %q: %v", name, err)
			}
		})
	}
	base := r.load(tid).Tip
	for n, sha := range []string{"c1c1c1c1", "c2c2c2c2"} {
		if err := commit(sha, turn.ObjectName(who.Epoch, int64(n+1), turn.BundleObject)); err != nil {
			t.Fatal(err)
		}
	}
	v, err := r.TaskVault(t.Context(), tenant, tid)
	if err != nil || len(v.Bundles) != 2 || v.Bundles[0].Parent != base || v.Bundles[1].Commit != "c2c2c2c2" {
		t.Errorf("the next run is told %+v, %v", v, err)
	}
}

func TestAVaultsKeyIsSealedAndGoesWithTheWorkspace(t *testing.T) {
	req.Covers(t, "UW-012", "P8")
	r := hosted(t)
	tid, other := r.working("task", ""), r.working("other", "")
	v, err := r.TaskVault(t.Context(), tenant, tid)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.TaskVault(t.Context(), tenant, tid)
	if err != nil || !bytes.Equal(v.Key, again.Key) {
		t.Fatalf("the key changes (%v)", err)
	}
	if o, err := r.TaskVault(t.Context(), tenant, other); err != nil || bytes.Equal(o.Key, v.Key) {
		t.Errorf("two tasks share a key (%v)", err)
	}
	for k, row := range r.snapshot() {
		if strings.Contains(row, string(v.Key)) || strings.Contains(row, fmt.Sprintf("%x", v.Key)) {
			t.Errorf("the key lies in row %s", k)
		}
	}
	prefix := tenant + "/tasks/" + string(tid) + "/vault/"
	for _, key := range []string{prefix + "00000001/00000001/pack-0", prefix + "00000001/00000001/manifest", tenant + "/tasks/" + string(other) + "/vault/x"} {
		if err := r.Blob.Put(t.Context(), key, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.EmptyVault(t.Context(), tenant, tid); err != nil {
		t.Fatal(err)
	}
	left := 0
	for key := range r.blobs.data {
		if strings.HasPrefix(key, prefix) {
			t.Errorf("%s is left", key)
		} else if strings.HasSuffix(key, "/vault/x") {
			left++
		}
	}
	if left != 1 {
		t.Error("another task's vault was emptied")
	}
	if fresh, err := r.TaskVault(t.Context(), tenant, tid); err != nil || bytes.Equal(fresh.Key, v.Key) {
		t.Errorf("the key outlives the workspace (%v)", err)
	}
}
