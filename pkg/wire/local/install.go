package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/names"
)

// install copies the program under a name that is a hash of its bytes, so that an
// upgrade never changes a binary under a running run (AG-015). A copy that is
// there already was verified when it was made and is never rewritten.
func install(from, dir string) (string, error) {
	src, err := os.Open(from)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "the program %s cannot be read, and runs need it", from)
	}
	defer func() { _ = src.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, src); err != nil {
		return "", fmt.Errorf("hash the program: %w", err)
	}
	to := filepath.Join(dir, names.AgentBinary+"-"+hex.EncodeToString(h.Sum(nil))[:16])
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "the folder %s cannot be made", dir)
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("copy the program: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".install-*")
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "nothing can be written to %s", dir)
	}
	_, err = io.Copy(tmp, src)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), to)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy the program: %w", err), os.Remove(tmp.Name()))
	}
	return to, nil
}
