//go:build unix

package sim

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of the processors, for figures on machines that do other work beside it.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
