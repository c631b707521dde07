package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/cluster"
)

// answers asks a broker for its API versions, over a connection of its own: nil if there is an answer, whatever it says.
func (k *Cluster) answers(ctx context.Context, b broker, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", b.address())
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	question := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark-harness")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	if _, err = conn.Write(question); err == nil {
		_, err = io.ReadFull(conn, make([]byte, 4)) // its size says enough
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // the connection was closed from here
	}
	return err
}

// isDown waits until nobody is behind a broker's address, and says how that shows.
func (k *Cluster) isDown(ctx context.Context, b broker) cluster.Evidence {
	how := "it still answers"
	err := cluster.WaitFor(ctx, shownWithin, func(ctx context.Context) error {
		switch err := k.answers(ctx, b, silenceOfPause); {
		case err == nil:
			how = "it still answers"
			return errors.New(how)
		case errors.Is(err, syscall.ECONNREFUSED):
			how = "connection refused"
		case silent(err):
			how = fmt.Sprintf("no answer in %s", silenceOfPause) // frozen, or far away: that is not down
			return err
		case ctx.Err() != nil:
			return ctx.Err() // nobody waits any more
		default:
			how = "connection closed"
		}
		return nil
	})
	return cluster.Evidence{Measured: []history.Measurement{{Name: b.address(), Value: how}}, Proven: err == nil}
}

// isFrozen says whether a broker leaves a question unanswered.
func (k *Cluster) isFrozen(ctx context.Context, b broker) cluster.Evidence {
	err := k.answers(ctx, b, silenceOfPause)
	e := cluster.Evidence{Measured: []history.Measurement{{Name: b.address(), Value: fmt.Sprintf("no answer in %s", silenceOfPause)}}, Proven: silent(err)}
	switch {
	case err == nil:
		e.Measured[0].Value = "it still answers"
	case !e.Proven:
		e.Measured[0].Value = err.Error()
	}
	return e
}

func silent(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
