package storage

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// brokerFolder tells a process of this test binary that it is to be the broker that is killed, and where its disk is.
const brokerFolder = "TIDEMARK_STORAGE_TEST_BROKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(brokerFolder); dir != "" {
		fmt.Fprintln(os.Stderr, beKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beKilled appends, cuts and flushes until somebody ends it, and says what is certain after every round: how many batches
// were appended, and how many of them flushed.
func beKilled(dir string) error {
	f, err := Open(dir, Options{SegmentBytes: 4000})
	if err != nil {
		return err
	}
	l, err := f.Log(orders)
	if err != nil {
		return err
	}
	flushed := int64(0)
	for round := 0; ; round++ {
		for range 10 {
			if err := l.Append(produced(l.End(), 1, 1, 100)); err != nil {
				return err
			}
		}
		if err := l.TruncateTo(l.End() - 3); err != nil {
			return err
		}
		if round%7 == 3 {
			if err := f.Flush(orders); err != nil {
				return err
			}
			flushed = l.End()
		}
		fmt.Println(l.End(), flushed)
	}
}

func TestAProcessThatIsReallyKilled(t *testing.T) {
	dir := t.TempDir()
	for kill := range 4 {
		broker := exec.Command(os.Args[0])
		broker.Env = append(os.Environ(), brokerFolder+"="+dir)
		broker.Stderr = os.Stderr
		out, err := broker.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, broker.Start())
		lines := bufio.NewScanner(out)
		for range 50 + 13*kill {
			require.True(t, lines.Scan(), "the broker goes on until it is killed")
		}
		require.NoError(t, broker.Process.Kill())
		last := lines.Text()
		for lines.Scan() { // what it still said before it died
			last = lines.Text()
		}
		require.Error(t, broker.Wait())
		var appended, flushed int64
		_, err = fmt.Sscan(last, &appended, &flushed)
		require.NoError(t, err, strconv.Quote(last))

		f := openDisk(t, osFiles{}, dir, Options{SegmentBytes: 4000})
		l := openLog(t, f, orders)
		require.GreaterOrEqual(t, l.End(), appended, "a kill loses nothing")
		require.LessOrEqual(t, l.End(), appended+10, "and makes nothing up")
		require.Len(t, epochs(t, l), int(l.End()))

		if kill%2 == 1 {
			_, err := f.Power(nil)
			require.NoError(t, err)
			l = openLog(t, f, orders)
			// The round in which it died may have flushed; and a truncation that was not may come back.
			require.GreaterOrEqual(t, l.End(), flushed)
			require.LessOrEqual(t, l.End(), appended+10)
		}
		batches, err := l.Read(0, 1<<30)
		require.NoError(t, err)
		for i, b := range batches {
			want := produced(int64(i), 1, 1, 100)
			require.Equal(t, want.Data[patched:], b.Data[patched:])
			require.NoError(t, Verify(b.Data))
		}
		require.NoError(t, f.Close())
	}
}
