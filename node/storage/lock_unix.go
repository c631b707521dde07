//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package storage

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lockFolder keeps a second broker off the folder, as Kafka's .lock does. The lock ends with the process, however it
// ends.
func lockFolder(dir string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("lock %s: %w", f.Name(), err)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s is in use by another broker: stop it, or give this one another folder", dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
