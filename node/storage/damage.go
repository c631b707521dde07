package storage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// DamageKind is a way in which a disk loses or changes what was written to it, whether it was flushed or not. No write call fails.
type DamageKind string

// The kinds of damage.
const (
	Flip   DamageKind = "flip"   // one bit of a batch, under its checksum
	Chop   DamageKind = "chop"   // the end of the newest segment is gone
	Forget DamageKind = "forget" // the checkpoint files are gone: high watermarks and leader epochs
)

// Damaged is what was damaged of one log.
type Damaged struct {
	Log      string // the name of its folder: orders-0
	What     string // in words
	From, To int64  // log end offset before, and where a recovery that looks at every checksum finds the end now
	Bytes    int64  // between the two, in the file
}

// Damage damages every log of a disk that no broker has open, some bytes in front of its end. Logs that hold nothing stay as they are.
// The journal of a damaged log goes too, and with it the recovery point: as after the loss of Kafka's recovery-point-offset-checkpoint,
// the next recovery looks at every checksum of the log, and what it finds counts as flushed. A bit that no recovery looks at would show
// only to whoever reads the batch. The marker of a clean shutdown goes, unless only checkpoints were lost: a disk that is not as the broker
// left it is not one that it can vouch for (KIP-966).
func Damage(dir string, kind DamageKind, bytes int64) (all []Damaged, err error) {
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("damage: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	folders, err := filepath.Glob(filepath.Join(dir, "*", "*"+segmentSuffix))
	if err != nil {
		return nil, err
	}
	for i := range folders {
		folders[i] = filepath.Dir(folders[i])
	}
	folders = slices.Compact(folders)
	if kind == Forget {
		return forget(dir, folders)
	}
	for _, folder := range folders {
		d, err := damageLog(folder, kind, bytes)
		if err != nil {
			return all, fmt.Errorf("damage %s: %w", filepath.Base(folder), err)
		}
		if d.Bytes > 0 {
			all = append(all, d)
		}
	}
	if len(all) > 0 {
		err = removeIfThere(osFiles{}, filepath.Join(dir, cleanMarker))
	}
	return all, err
}

func forget(dir string, folders []string) (all []Damaged, err error) {
	lose := func(log, path string) error {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil {
			all = append(all, Damaged{Log: log, What: filepath.Base(path) + " removed", Bytes: info.Size()})
		}
		return err
	}
	if err := lose("", filepath.Join(dir, offsetCheckpoint)); err != nil {
		return all, err
	}
	for _, folder := range folders {
		if err := lose(filepath.Base(folder), filepath.Join(folder, epochCheckpoint)); err != nil {
			return all, err
		}
	}
	return all, nil
}

func damageLog(folder string, kind DamageKind, bytes int64) (d Damaged, err error) {
	segments, err := filepath.Glob(filepath.Join(folder, "*"+segmentSuffix))
	if err != nil {
		return d, err
	}
	slices.Sort(segments)
	for len(segments) > 0 {
		// A segment that was only just begun holds nothing.
		info, err := os.Stat(segments[len(segments)-1])
		if err != nil {
			return d, err
		}
		if info.Size() > 0 {
			break
		}
		segments = segments[:len(segments)-1]
	}
	if len(segments) == 0 {
		return d, nil
	}
	path := segments[len(segments)-1]
	data, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	d.Log = filepath.Base(folder)
	base, _ := parseSegment(filepath.Base(path))
	before, whole := ends(base, data)
	d.From = before
	at := max(0, int64(len(data))-bytes)
	if kind == Chop {
		if err = os.Truncate(path, at); err != nil {
			return d, err
		}
		d.What = fmt.Sprintf("the last %d bytes of %s are gone", int64(len(data))-at, filepath.Base(path))
		data = data[:at]
	} else {
		at = checksummed(data, at)
		data[at] ^= 1
		d.What = fmt.Sprintf("one bit of byte %d of %s is flipped", at, filepath.Base(path))
		if err = os.WriteFile(path, data, 0o644); err != nil {
			return d, err
		}
	}
	if err = removeIfThere(osFiles{}, filepath.Join(folder, journalName)); err != nil {
		return d, err
	}
	after, left := ends(base, data)
	d.To, d.Bytes = after, whole-left
	if d.Bytes == 0 && kind == Chop {
		d.Bytes = bytes // of a batch that was torn before
	}
	return d, err
}

// ends is the offset after the last whole batch of a segment, and how many bytes are up to there.
func ends(base int64, data []byte) (end, size int64) {
	batches, _ := Split(data)
	end = base
	for _, b := range batches {
		end, size = b.End(), size+int64(len(b.Data))
	}
	return end, size
}

// checksummed is the place itself, or the next one of its batch that the batch's checksum covers.
func checksummed(data []byte, at int64) int64 {
	batches, _ := Split(data)
	from := int64(0)
	for _, b := range batches {
		if next := from + int64(len(b.Data)); at >= next {
			from = next
			continue
		}
		return max(at, from+atAttributes)
	}
	return at
}
