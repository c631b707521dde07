package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tidemark/node/replica"
)

// Kafka's names of the checkpoint files.
const (
	offsetCheckpoint = "replication-offset-checkpoint" // high watermarks, one file a disk
	epochCheckpoint  = "leader-epoch-checkpoint"       // the epoch cache, one file a log
	cleanMarker      = ".kafka_cleanshutdown"          // that the broker stopped cleanly, and which incarnation (KIP-966)
)

// checkpointVersion is the first line of Kafka's checkpoint files.
const checkpointVersion = "0"

// writeLines is the content of a checkpoint file: version, number of entries, and each on a line.
func writeLines(lines []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%d\n", checkpointVersion, len(lines))
	for _, line := range lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// readLines takes a checkpoint file apart. It calls entry with the words of each line, which must be want in number.
// A file that is not there has no entries. Anything else that is not as it should be is an error with its line: the
// file is written atomically, so it was not a crash.
func readLines(fs fileSystem, path string, want int, entry func(words []string) error) error {
	data, err := readFile(fs, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	broken := func(line int, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %w; without the file the broker starts as if nothing was checkpointed",
			path, line, fmt.Errorf(format, args...))
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != checkpointVersion {
		return broken(1, "version %q, want %s", lines[0], checkpointVersion)
	}
	if len(lines) < 2 {
		return broken(2, "the number of entries is missing")
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return broken(2, "number of entries %q, but %d follow", lines[1], len(lines)-2)
	}
	for i, line := range lines[2:] {
		words := strings.Fields(line)
		if len(words) != want {
			return broken(i+3, "%q has %d words, want %d", line, len(words), want)
		}
		if err := entry(words); err != nil {
			return broken(i+3, "%q: %w", line, err)
		}
	}
	return nil
}

// readOffsets reads a replication-offset-checkpoint: "topic partition offset".
func readOffsets(fs fileSystem, dir string) (map[replica.Partition]int64, error) {
	offsets := map[replica.Partition]int64{}
	err := readLines(fs, filepath.Join(dir, offsetCheckpoint), 3, func(words []string) error {
		index, err := number(words[1], 32, "partition")
		if err != nil {
			return err
		}
		offset, err := number(words[2], 64, "offset")
		offsets[replica.Partition{Topic: words[0], Index: int32(index)}] = offset
		return err
	})
	return offsets, err
}

func writeOffsets(fs fileSystem, dir string, offsets map[replica.Partition]int64) error {
	var lines []string
	for _, p := range sorted(offsets) {
		lines = append(lines, fmt.Sprintf("%s %d %d", p.Topic, p.Index, offsets[p]))
	}
	return replace(fs, dir, filepath.Join(dir, offsetCheckpoint), writeLines(lines))
}

// readEpochs reads a leader-epoch-checkpoint: "epoch start-offset".
func readEpochs(fs fileSystem, dir string) ([]replica.EpochStart, error) {
	var epochs []replica.EpochStart
	err := readLines(fs, filepath.Join(dir, epochCheckpoint), 2, func(words []string) error {
		epoch, err := number(words[0], 32, "epoch")
		if err != nil {
			return err
		}
		start, err := number(words[1], 64, "start offset")
		epochs = append(epochs, replica.EpochStart{Epoch: int32(epoch), Start: start})
		return err
	})
	return epochs, err
}

func writeEpochs(fs fileSystem, dir string, epochs []replica.EpochStart) error {
	var lines []string
	for _, e := range epochs {
		lines = append(lines, fmt.Sprintf("%d %d", e.Epoch, e.Start))
	}
	return replace(fs, dir, filepath.Join(dir, epochCheckpoint), writeLines(lines))
}

// number is a field that cannot be negative.
func number(s string, bits int, what string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %q, want a number from 0 on", what, s)
	}
	return n, nil
}

// cleanShutdown is the content of the marker.
type cleanShutdown struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"`
}

func writeMarker(fs fileSystem, dir string, brokerEpoch int64) error {
	content, err := json.Marshal(cleanShutdown{BrokerEpoch: brokerEpoch})
	if err != nil {
		return err
	}
	return replace(fs, dir, filepath.Join(dir, cleanMarker), content)
}

// takeMarker removes the marker before it says what was in it, so that the next start cannot find it again. One that
// nobody can read is no marker: the broker counts as stopped uncleanly, which is always safe, as in Kafka.
func takeMarker(fs fileSystem, dir string) (brokerEpoch int64, ok bool, err error) {
	path := filepath.Join(dir, cleanMarker)
	content, err := readFile(fs, path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if err := fs.remove(path); err != nil {
		return 0, false, err
	}
	if err := fs.syncDir(dir); err != nil {
		return 0, false, err
	}
	var m cleanShutdown
	if json.Unmarshal(content, &m) != nil || m.Version != 0 {
		return 0, false, nil
	}
	return m.BrokerEpoch, true, nil
}
