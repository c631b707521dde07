package node

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tidemark/node/control"
	"tidemark/node/controller"
	"tidemark/node/kafka/batch"
	"tidemark/node/storage"
)

// ReadRecord reads the controller's record out of its folder, also while it runs.
func ReadRecord(dir string) ([]control.RecordView, []control.BrokerView, error) {
	data, err := os.ReadFile(filepath.Join(dir, snapshotFile))
	if err != nil {
		return nil, nil, err
	}
	views, brokers, err := controller.Peek(data)
	if err != nil {
		return nil, nil, err
	}
	records, states := control.Views(views, brokers)
	return records, states, nil
}

// DumpedRecord is one record of a log's files.
type DumpedRecord struct {
	Offset int64
	Epoch  int32
	Value  string
	CRC    uint32 // of its batch
}

// DumpedLog is a replica's files as they are: what a broker would find.
type DumpedLog struct {
	Partition     string
	Records       []DumpedRecord
	Epochs        []control.Epoch // leader-epoch-checkpoint
	HighWatermark int64           // replication-offset-checkpoint; -1: not there
	// Damage says what follows the last whole batch, "" if nothing does.
	Damage string
}

// DumpLog reads the files of one replica out of a broker's folder and changes nothing, also while the broker runs. What a power
// failure would still undo is part of it.
func DumpLog(dir, partition string) (*DumpedLog, error) {
	folder := filepath.Join(dir, partition)
	segments, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("%s: no log of %s here: %w", dir, partition, fs.ErrNotExist)
	}
	slices.Sort(segments)
	d := &DumpedLog{Partition: partition, HighWatermark: -1}
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		batches, err := storage.Split(data)
		for _, b := range batches {
			crc := uint32(b.Data[17])<<24 | uint32(b.Data[18])<<16 | uint32(b.Data[19])<<8 | uint32(b.Data[20])
			records, err := batch.Decode(b.Data)
			if err != nil {
				return nil, fmt.Errorf("%s: batch at offset %d: %w", path, b.Base, err)
			}
			for _, r := range records {
				d.Records = append(d.Records, DumpedRecord{Offset: r.Offset, Epoch: r.Epoch, Value: string(r.Value), CRC: crc})
			}
		}
		if err != nil {
			d.Damage = fmt.Sprintf("%s: %v", filepath.Base(path), err)
			break
		}
	}
	rows, err := readCheckpoint(filepath.Join(folder, "leader-epoch-checkpoint"), 2)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		epoch, err1 := strconv.ParseInt(row[0], 10, 32)
		start, err2 := strconv.ParseInt(row[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("leader-epoch-checkpoint: %w", err)
		}
		d.Epochs = append(d.Epochs, control.Epoch{Epoch: int32(epoch), Start: start})
	}
	if rows, err = readCheckpoint(filepath.Join(dir, "replication-offset-checkpoint"), 3); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row[0]+"-"+row[1] == partition {
			if d.HighWatermark, err = strconv.ParseInt(row[2], 10, 64); err != nil {
				return nil, fmt.Errorf("replication-offset-checkpoint: %w", err)
			}
		}
	}
	return d, nil
}

// readCheckpoint reads the rows of a file in Kafka's checkpoint format: a version, a count, and that many rows. A file that is not
// there has none.
func readCheckpoint(path string, words int) ([][]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows [][]string
	lines := bufio.NewScanner(f)
	for n := 0; lines.Scan(); n++ {
		row := strings.Fields(lines.Text())
		switch {
		case n < 2 || len(row) == 0:
		case len(row) != words:
			return nil, fmt.Errorf("%s:%d: %d words, want %d", path, n+1, len(row), words)
		default:
			rows = append(rows, row)
		}
	}
	return rows, lines.Err()
}
