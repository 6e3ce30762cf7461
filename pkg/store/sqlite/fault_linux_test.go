package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/store"
	"github.com/lazyplane/lazyplane/pkg/store/sqlite"
)

// The same on a file system that really has no room, where one may be mounted.
func TestADiskWithoutRoomIsAFault(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "store.db")
	p := store.For("t").Project("p")
	s, err := sqlite.Open(t.Context(), path, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	acked := 0
	for ; acked < 1000 && err == nil; acked++ {
		err = s.Transact(t.Context(), store.Write{Act: store.Put, Item: store.Item{Key: p.Turn(int64(acked)), Doc: make([]byte, 5000)}})
	}
	acked--
	unavailable(t, "a full file system", err, "is full; make room")
	if err := s.Close(); err != nil && fault.KindOf(err) == "" {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("there was room")
	}
	unavailable(t, "opening another", openErr(t, filepath.Join(dir, "other.db")), "")
	s, err = sqlite.Open(t.Context(), path, func() time.Time { return noon })
	if err != nil {
		unavailable(t, "opening it again", err, "")
		if err := os.Remove(filepath.Join(dir, "rest")); err != nil {
			t.Fatal(err)
		}
		if s, err = sqlite.Open(t.Context(), path, func() time.Time { return noon }); err != nil {
			t.Fatal(err)
		}
	}
	defer s.Close()
	for i := range acked {
		if _, err := s.Get(t.Context(), p.Turn(int64(i))); err != nil {
			t.Errorf("acknowledged row %d of %d: %v", i, acked, err)
		}
	}
}

// The superuser may write anywhere, so the child gives that up first.
func TestAReadOnlyFolderIsAFault(t *testing.T) {
	if os.Getenv("STORE_CHILD") == "open" {
		childOpens()
		os.Exit(0)
	}
	dir := t.TempDir()
	existing := filled(t)
	readonly := filepath.Join(dir, "ro")
	if err := os.Mkdir(readonly, 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(readonly, "old.db")
	if err := os.WriteFile(old, read(t, existing), 0o600); err != nil {
		t.Fatal(err)
	}
	unprivileged := os.Getuid()
	if unprivileged == 0 {
		unprivileged = 65534
		for p := old; strings.HasPrefix(p, os.TempDir()+"/"); p = filepath.Dir(p) {
			mode := os.FileMode(0o755)
			if p == old {
				mode = 0o600
			}
			if err := errors.Join(os.Chown(p, unprivileged, -1), os.Chmod(p, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(readonly, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(readonly, 0o755) })
	for _, path := range []string{old, filepath.Join(readonly, "new.db")} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAReadOnlyFolderIsAFault$")
		cmd.Env = append(os.Environ(), "STORE_CHILD=open", "STORE_PATH="+path, fmt.Sprint("STORE_UID=", unprivileged))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "unavailable: ") || !strings.Contains(string(out), "writable") {
			t.Errorf("%s: %v, %s", path, err, out)
		}
	}
	files, err := os.ReadDir(readonly)
	if err != nil || len(files) != 1 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
}

// childOpens tries to open a store without privileges and prints the fault.
func childOpens() {
	uid, _ := strconv.Atoi(os.Getenv("STORE_UID"))
	if os.Getuid() != uid {
		if err := syscall.Setuid(uid); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	s, err := sqlite.Open(context.Background(), os.Getenv("STORE_PATH"), time.Now)
	if err != nil {
		fmt.Printf("%s: %s\n", fault.KindOf(err), fault.Of(err).Public)
		return
	}
	s.Close()
	fmt.Println("opened")
}
