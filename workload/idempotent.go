package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"tidemark/checker/history"
)

const (
	// sharedBy is how many processes append by way of one idempotent producer, so that it has several batches under way at a time:
	// what happens to those behind the one that is lost is the hard part of idempotence.
	sharedBy = 4
	// deliveryTimeouts is how many timeouts of single attempts a record may take, retries included, before its outcome counts as unknown.
	deliveryTimeouts = 10
	// fetchWait is how long a broker may hold a fetch of the consumers. A fetch that was given up holds up the next one for as
	// long as this.
	fetchWait = 100 * time.Millisecond
	// clientLeast is the shortest timeout that kgo accepts.
	clientLeast = 100 * time.Millisecond
)

// RunIdempotent asks a cluster by way of an ordinary client, franz-go's kgo, with what is its default: idempotence, acks=all and
// retries without end. Every second client appends, the others read one partition each, from the beginning on. It ends
// as [Run] does, except that records that are under way then may take as long as retries need.
//
// One produce of the history is one record, however often the client had to send it, and its outcome is the final one. It is unknown
// if the client gives up, or if it takes longer than ten times Timeout. That a record is in the log twice is a fault, which
// idempotence promises to prevent (KIP-98). A fetch begins before the request for it can have left; one without any record
// to read has failed.
//
// Of the configuration it uses Topics, Clients, Rate, Time, Acks ("all" only), Seed, ValueSize, Timeout, ProduceTimeout, FirstProcess and
// Stats.
func RunIdempotent(ctx context.Context, c Config, d Dialer, sink history.Sink) (*Stats, error) {
	c = c.withDefaults()
	c.Mix, c.BatchShare = Mix{Produce: 1}, 0
	if err := c.check(); err != nil {
		return c.Stats, err
	}
	switch {
	case c.Acks != "all":
		return c.Stats, wrong("acks", strconv.Quote(c.Acks), `idempotence needs "all"`)
	case c.Timeout < clientLeast:
		return c.Stats, wrong("timeout", c.Timeout, "an ordinary client needs at least 100ms")
	case c.ProduceTimeout < clientLeast:
		return c.Stats, wrong("produce timeout", c.ProduceTimeout, "an ordinary client needs at least 100ms")
	}
	r := newRoutes(d, c.partitions(), c.Stats)
	if err := ready(ctx, &c, r); err != nil {
		return c.Stats, err
	}
	group, running := errgroup.WithContext(ctx)
	finder := newFinder(running, &c, r)
	defer finder.client.close()
	var clients []*kgo.Client
	defer func() {
		for _, cl := range clients {
			cl.Close()
		}
	}()

	start := time.Now()
	for i := range c.Clients {
		w := ordinary{worker: newWorker(running, &c, r, sink, i, start), finder: finder}
		if i%2 == 1 {
			w.partition = i / 2 % len(r.partitions)
			group.Go(w.consume)
			continue
		}
		if i/2%sharedBy == 0 {
			cl, err := finder.kgo("tidemark-producer-"+strconv.Itoa(len(clients)),
				kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
				kgo.ProduceRequestTimeout(c.ProduceTimeout), kgo.UnknownTopicRetries(-1))
			if err != nil {
				return c.Stats, err
			}
			clients = append(clients, cl)
		}
		w.producer = clients[len(clients)-1]
		group.Go(w.produce)
	}
	return c.Stats, watched(c.Stats, start, group.Wait)
}

// finder lets ordinary clients, which know brokers by their addresses, connect by way of a [Dialer], which knows them by their ids.
type finder struct {
	config *Config
	routes *routes
	client *client // used under the routes' lock only
}

func newFinder(ctx context.Context, c *Config, r *routes) *finder {
	f := &finder{config: c, routes: r, client: newClient(ctx, c, r)}
	f.client.become(c.FirstProcess)
	return f
}

// kgo makes an ordinary client.
func (f *finder) kgo(id string, options ...kgo.Opt) (*kgo.Client, error) {
	seeds := slices.Sorted(maps.Keys(f.routes.now.Load().addresses))
	cl, err := kgo.NewClient(append(options,
		kgo.SeedBrokers(seeds...), kgo.ClientID(id), kgo.Dialer(f.dial),
		kgo.DialTimeout(f.config.Timeout), kgo.RequestTimeoutOverhead(f.config.Timeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return lastPause }), kgo.MetadataMinAge(lastPause))...)
	if err != nil {
		return nil, fmt.Errorf("make client %s: %w", id, err)
	}
	return cl, nil
}

// dial connects to the broker that advertises an address.
func (f *finder) dial(ctx context.Context, _, address string) (net.Conn, error) {
	seen := f.routes.now.Load()
	node, ok := seen.addresses[address]
	if !ok {
		if err := f.routes.refresh(f.client, seen); err != nil {
			return nil, err
		}
		if node, ok = f.routes.now.Load().addresses[address]; !ok {
			return nil, fmt.Errorf("no broker advertises %s", address)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	return f.routes.dial.Dial(ctx, node)
}

// ordinary is a worker with an ordinary client.
type ordinary struct {
	*worker
	finder    *finder
	producer  *kgo.Client
	partition int // that it reads
}

// produce appends record after record.
func (w *ordinary) produce() error {
	defer w.client.close()
	ctx := w.client.ctx
	for w.pace.wait(ctx, w.until) {
		op := w.generator.Next()
		p := &w.client.partitions[op.Partition]
		if err := w.record.invoke(asked(&op, p, history.Unknown, acksAll)); err != nil {
			return err
		}
		start := time.Now()
		a := w.deliver(&op, p)
		w.config.Stats.count(op.Type, 1, &a, time.Since(start))
		retired, err := w.record.returned(a.Kind, answered(&op, p, history.Unknown, &a))
		if err != nil {
			return err
		}
		if retired {
			w.become()
			w.pause.longer(ctx)
		} else {
			w.generator.Learn(op, a)
			w.pause.reset()
		}
	}
	return nil
}

// deliver hands a record to the producer and waits for what comes of it.
func (w *ordinary) deliver(op *Operation, p *partition) Answer {
	type outcome struct {
		offset int64
		err    error
	}
	done := make(chan outcome, 1)
	r := &kgo.Record{Topic: p.topic, Partition: p.index, Value: []byte(pad(op.Values[0], w.config.ValueSize))}
	// The client gets a context that does not end: to break a record off is to leave its sequence number open.
	w.producer.Produce(context.WithoutCancel(w.client.ctx), r, func(r *kgo.Record, err error) { done <- outcome{r.Offset, err} })
	late := time.NewTimer(deliveryTimeouts * w.config.Timeout)
	defer late.Stop()
	select {
	case o := <-done:
		if o.err != nil {
			// Whatever the last error says, an attempt before it may have gone through.
			return Answer{Kind: history.Info, Error: errorName(o.err)}
		}
		return Answer{Kind: history.OK, Offset: max(o.offset, history.Unknown)}
	case <-late.C:
		return Answer{Kind: history.Info, Error: WhyTimeout}
	case <-w.client.ctx.Done():
		return Answer{Kind: history.Info, Error: whyCanceled}
	}
}

// consume reads a partition from the beginning on.
func (w *ordinary) consume() error {
	defer w.client.close()
	ctx, p := w.client.ctx, &w.client.partitions[w.partition]
	var consumer *kgo.Client
	defer func() {
		if consumer != nil {
			consumer.Close()
		}
	}()
	at := kgo.EpochOffset{Epoch: -1}
	for w.pace.wait(ctx, w.until) {
		op := Operation{Type: history.Fetch, Partition: w.partition, From: at.Offset}
		if err := w.record.invoke(asked(&op, p, history.Unknown, 0)); err != nil {
			return err
		}
		start := time.Now()
		if consumer == nil {
			var err error
			if consumer, err = w.newConsumer(p, at.Offset); err != nil {
				return err
			}
		} else {
			// This throws away what the client has fetched on its own since the last poll, so that what it gives was asked for after
			// the invoke.
			consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.topic: {p.index: at}})
		}
		a := w.poll(consumer, p, &at)
		w.config.Stats.count(op.Type, 0, &a, time.Since(start))
		if _, err := w.record.returned(a.Kind, answered(&op, p, history.Unknown, &a)); err != nil {
			return err
		}
		if a.Kind == history.OK {
			w.pause.reset()
		} else {
			w.pause.longer(ctx)
		}
	}
	return nil
}

func (w *ordinary) newConsumer(p *partition, from int64) (*kgo.Client, error) {
	return w.finder.kgo("tidemark-consumer-"+strconv.FormatInt(w.record.process, 10),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {p.index: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// No fetch but while somebody polls, one at a time: its records and its high watermark are of one answer.
		kgo.MaxConcurrentFetches(0), kgo.FetchMaxWait(fetchWait), kgo.FetchMaxPartitionBytes(wholeLog))
}

// poll waits for records from an offset on, and moves the offset behind them; or to where the client went because the log has
// lost what was read.
func (w *ordinary) poll(consumer *kgo.Client, p *partition, at *kgo.EpochOffset) Answer {
	ctx, cancel := context.WithTimeout(w.client.ctx, w.config.Timeout)
	defer cancel()
	a := Answer{Kind: history.Fail, Error: "no records"}
	var first kgo.FetchPartition // with records: one operation is one answer, and what else there is will be asked for again
	fetches := consumer.PollFetches(ctx)
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if len(first.Records) == 0 && f.Topic == p.topic && f.Partition == p.index {
			first = f.FetchPartition
		}
	})
	switch loss, err := pollError(fetches); {
	case loss != nil:
		// Records may have come with it already, from where the log goes on now. They are asked for again.
		a.Error = fmt.Sprintf("log has lost offsets %d to %d", loss.ResetTo, loss.ConsumedTo)
		*at = kgo.EpochOffset{Epoch: loss.ResetToEpoch, Offset: loss.ResetTo}
	case len(first.Records) > 0:
		last := first.Records[len(first.Records)-1]
		*at = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		a = Answer{Kind: history.OK, HighWatermark: first.HighWatermark, Records: make([]history.Record, len(first.Records))}
		for i, r := range first.Records {
			a.Records[i] = history.Record{Offset: r.Offset, Epoch: r.LeaderEpoch, Value: unpad(r.Value, w.config.ValueSize)}
		}
	case w.client.ctx.Err() != nil:
		a.Error = whyCanceled
	case err != nil && ctx.Err() == nil:
		a.Error = errorName(err)
	}
	return a
}

// pollError is the last error of a poll, and the loss of data among its errors, if there is one.
func pollError(fetches kgo.Fetches) (loss *kgo.ErrDataLoss, last error) {
	fetches.EachError(func(_ string, _ int32, err error) {
		last = err
		if l, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
			loss = l
		}
	})
	return loss, last
}

// errorName is an error of an ordinary client as a history has it.
func errorName(err error) string {
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return codeName(ke.Code)
	}
	return err.Error()
}
