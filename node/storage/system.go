package storage

import (
	"errors"
	"io"
	"os"
)

// fileSystem is what the package asks of the operating system. The tests put in its place one that is killed in the
// middle of any write and one whose disk is full.
type fileSystem interface {
	open(path string, flag int) (file, error)
	mkdir(path string) error
	rename(from, to string) error
	remove(path string) error
	readDir(path string) ([]os.DirEntry, error)
	syncDir(path string) error
}

// file is an open file; *os.File is one.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
}

// osFiles is the operating system itself. Its errors are [os.PathError] and [os.LinkError], which name call and path.
type osFiles struct{}

func (osFiles) open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err // not a nil *os.File in a file that is not nil
	}
	return f, nil
}

func (osFiles) mkdir(path string) error                    { return os.MkdirAll(path, 0o755) }
func (osFiles) rename(from, to string) error               { return os.Rename(from, to) }
func (osFiles) remove(path string) error                   { return os.Remove(path) }
func (osFiles) readDir(path string) ([]os.DirEntry, error) { return os.ReadDir(path) }

// syncDir makes the names in a folder durable: of files made, renamed and removed.
func (osFiles) syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readFile reads a whole file; [os.ErrNotExist] if there is none.
func readFile(fs fileSystem, path string) ([]byte, error) {
	f, err := fs.open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f)
	return data, errors.Join(err, f.Close())
}

func readAll(f file) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	n, err := f.ReadAt(data, 0)
	if n == len(data) {
		err = nil // at the end of the file, as it should be
	}
	return data[:n], err
}

// temporary is the suffix of files that become others by a rename; those that a kill leaves behind are removed at start.
const temporary = ".tmp"

// replace gives a file new content in one step: whoever looks, also after a power failure, sees the old or the new.
func replace(fs fileSystem, dir, path string, content []byte) error {
	f, err := fs.open(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.rename(path+temporary, path); err != nil {
		return err
	}
	return fs.syncDir(dir)
}

// removeIfThere removes a file that may be gone already.
func removeIfThere(fs fileSystem, path string) error {
	if err := fs.remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
