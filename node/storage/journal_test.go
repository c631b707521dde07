package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/replica"
	"tidemark/node/storage/memory"
)

var journalRecords = []record{
	{offset: 104120, first: 17},
	{kind: memory.Append, segment: 104120, at: 300, length: 78},
	{kind: memory.Append, segment: 104121, length: 1 << 20, created: true},
	{kind: memory.Truncate, segment: 3, at: 200, removed: []int64{5, 104120}, offset: 4, tail: []byte("cut off")},
	{kind: memory.Truncate, tail: []byte{}},
	{kind: memory.Reset, segment: 9, removed: []int64{0}, offset: 9, tail: []byte{}},
}

func TestJournalRecordsAreReadAsTheyWereWritten(t *testing.T) {
	for _, want := range journalRecords {
		data := want.append([]byte("before"))[len("before"):]
		payload, err := unframe(append(data, "behind"...))
		require.NoError(t, err)
		got, err := parseRecord(payload)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		for cut := range data {
			_, err := unframe(data[:cut])
			require.ErrorIs(t, err, errTorn, "cut at byte %d", cut)
		}
		data[len(data)-1]++
		_, err = unframe(data)
		require.ErrorIs(t, err, errTorn)
	}
}

func TestAnAppendTakesFewBytesOfTheJournal(t *testing.T) {
	assert.LessOrEqual(t, len(journalRecords[1].append(nil)), 20)
}

// Whatever a journal claims, a broker starts with a log and a journal that is in order.
func TestAnyJournalLeadsToALog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, remove := manyFiles(t)
		defer remove()
		start := func() (*Files, replica.Log) {
			disk, err := openFiles(&faulty{}, dir, small)
			require.NoError(t, err)
			return disk, openLog(t, disk, orders)
		}
		disk, l := start()
		write(t, l, 1, 5)
		require.NoError(t, disk.Close())

		number := rapid.SampledFrom([]int64{0, 1, 3, 5, 78, 156, 234, 1 << 40})
		records := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) record {
			return record{
				kind:    memory.Kind(rapid.IntRange(0, 4).Draw(t, "kind")),
				segment: number.Draw(t, "segment"), at: number.Draw(t, "at"), length: number.Draw(t, "length"),
				created: rapid.Bool().Draw(t, "created"), removed: rapid.SliceOfN(number, 0, 3).Draw(t, "removed"),
				offset: number.Draw(t, "offset"), first: uint64(number.Draw(t, "first")),
				tail: rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "tail"),
			}
		}), 0, 5).Draw(t, "records")
		var data []byte
		if rapid.Bool().Draw(t, "with a beginning") {
			data = record{first: 3}.append(nil)
		}
		for _, r := range records {
			data = r.append(data)
		}
		data = append(data, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "torn")...)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "orders-0", journalName), data, 0o644))

		disk, l = start()
		write(t, l, 2, 1)
		require.NoError(t, disk.Close())
		disk, l = start()
		write(t, l, 2, 1)
		_, err := disk.Power(nil)
		require.NoError(t, err)
		write(t, openLog(t, disk, orders), 2, 1)
		require.NoError(t, disk.Close())
	})
}
