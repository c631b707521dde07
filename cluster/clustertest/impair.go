package clustertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/cluster"
)

// from has what a broker is sent by clients impaired.
func from(n cluster.NodeID, i cluster.Impair) []cluster.Link {
	return []cluster.Link{{From: cluster.ClientsID, To: n, Impair: i}}
}

func impaired(t *testing.T, open Open) {
	f := start(t, open)
	leader := f.leader()
	connection := f.dial(leader)
	f.arrives(connection.send(metadataRequest()))
	// met sends until a fault of links has met something, and wants all of it to have arrived.
	met := func(links []cluster.Link, value string) cluster.Evidence {
		t.Helper()
		_, err := f.Links(f.ctx, links)
		require.NoError(t, err)
		var e cluster.Evidence
		f.eventually("the fault of the link meets something", func() error {
			if err := refusal(f.arrives(connection.send(produceRequest(1, value)))); err != nil {
				return err
			}
			// Asking once more says what was met and changes nothing.
			if e, err = f.Links(f.ctx, links); err == nil && !e.Proven {
				err = fmt.Errorf("%+v", e)
			}
			return err
		})
		require.Len(t, e.Measured, len(links))
		require.Positive(t, cluster.Counted(e.Measured[0]), "%+v", e)
		require.Contains(t, e.Measured[0].Name, fmt.Sprintf("from clients to %d", leader))
		return e
	}

	// A part of what is sent is lost, sent again, and arrives.
	met(from(leader, cluster.Impair{Kind: cluster.Loss, Percent: 50}), "m0")

	// No more than so much arrives in a second. All of this is sent at once, and is more than a second's worth and a burst.
	met(from(leader, cluster.Impair{Kind: cluster.Rate, Rate: 50_000}), strings.Repeat("m", 150_000))

	// Everything arrives later, though not where packets cannot be kept.
	late := from(leader, cluster.Impair{Kind: cluster.Delay, Delay: 100 * time.Millisecond})
	if _, err := f.Links(f.ctx, late); errors.Is(err, cluster.ErrUnsupported) {
		require.ErrorContains(t, err, "delay")
	} else {
		require.NoError(t, err)
		began := time.Now()
		e := met(late, "m1")
		require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
		require.Contains(t, e.Measured[0].Value, "by 100ms")
	}

	// Two faults of one link are both in force, and each has its own count.
	both := append(from(leader, cluster.Impair{Kind: cluster.Loss, Percent: 30}), cluster.Link{From: leader, To: cluster.ClientsID})
	_, err := f.Links(f.ctx, both)
	require.NoError(t, err)
	waiting := connection.send(produceRequest(1, "m2"))
	f.eventually("the answer is lost", func() error {
		e, err := f.Links(f.ctx, both)
		if err == nil && cluster.Counted(e.Measured[1]) == 0 {
			err = fmt.Errorf("%+v", e)
		}
		return err
	})
	f.silent(waiting, "answers are lost")
	e, err := f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	require.NoError(t, refusal(f.arrives(waiting)))

	// The connection over which something is sent breaks; the next one after healing works.
	broken := from(leader, cluster.Impair{Kind: cluster.Reset})
	_, err = f.Links(f.ctx, broken)
	require.NoError(t, err)
	select {
	case a := <-connection.send(metadataRequest()):
		require.Error(t, a.err)
	case <-time.After(patience):
		require.FailNow(t, "the connection does not break")
	}
	e, err = f.Links(f.ctx, nil)
	require.NoError(t, err)
	f.proved(e)
	resp, err := f.try(leader, metadataRequest())
	require.NoError(t, err)
	require.Len(t, resp.(*kmsg.MetadataResponse).Brokers, len(f.brokers))

	// What makes no sense changes nothing.
	for _, i := range []cluster.Impair{{Kind: "fog"}, {Kind: cluster.Loss}, {Kind: cluster.Loss, Percent: 100}, {Kind: cluster.Rate}, {Percent: 5}, {Kind: cluster.Reset, Rate: 1}} {
		_, err = f.Links(f.ctx, from(leader, i))
		require.Error(t, err, "%+v", i)
	}
	f.produce("m3")
	f.inSync()
}
