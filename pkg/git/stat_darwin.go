package git

import "syscall"

func changeTime(t *syscall.Stat_t) (sec, nsec uint32) {
	return uint32(t.Ctimespec.Sec), uint32(t.Ctimespec.Nsec)
}
