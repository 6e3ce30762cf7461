package box

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// alone reports whether everything this process sees is in its own sandbox.
func alone() bool { return os.Getpid() == 1 }

// endOthers kills everything in the process namespace but its first process, at
// once: nothing that is being started meanwhile gets away.
func endOthers() { _ = syscall.Kill(-1, syscall.SIGKILL) }

// limitFiles bounds the open files of this process and of all it starts.
func limitFiles(n int64) error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		return err
	}
	most := min(uint64(n), was.Max)
	// By the syscall package, which then no longer hands children what it found.
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most})
}

// memory adds up what the processes hold alone, what they share by memory files,
// and what lies in scratch file systems, which are memory too.
func memory(pids []int, scratch []string) (sum int64) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		sum += field(b, "RssAnon:") << 10
	}
	for _, dir := range scratch {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			sum += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	return sum
}

func field(status []byte, name string) int64 {
	_, rest, ok := bytes.Cut(status, []byte("\n"+name))
	if !ok {
		return 0
	}
	f := bytes.Fields(rest[:min(len(rest), 40)])
	if len(f) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(f[0]), 10, 64)
	return n
}

// taken is the room a file takes on its disk, which for a sparse one is less than
// its size.
func taken(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return fi.Size()
}
