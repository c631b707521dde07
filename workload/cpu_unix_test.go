//go:build unix

package workload

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of processors so far, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
