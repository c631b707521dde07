package node

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tidemark/node/control"
	"tidemark/node/inbox"
	"tidemark/node/journal"
	"tidemark/node/replica"
	"tidemark/node/session"
)

// recover plays a power failure, if one was asked for, and opens what is on the disk.
func (b *brokerProcess) recover() ([]control.Event, error) {
	c := b.config
	hosted := b.hosted()
	var events []control.Event
	var power *journal.Power
	if c.PowerCut != nil {
		cut := replica.Cut{}
		for _, h := range hosted {
			cut[h.Partition] = c.PowerCut[EveryLog]
		}
		for name, log := range c.PowerCut {
			if name == EveryLog {
				continue
			}
			p, err := replica.ParsePartition(name)
			if err != nil {
				return nil, fmt.Errorf("power cut: %w", err)
			}
			cut[p] = log
		}
		lost, err := b.disk.Power(cut)
		if err != nil {
			return nil, err
		}
		power = &journal.Power{Lost: lost}
		for _, h := range hosted {
			l, err := b.disk.Log(h.Partition)
			if err != nil {
				return nil, err
			}
			e := control.Event{Node: c.ID, Partition: h.Partition.String(), What: "powerloss", From: -1, To: l.End()}
			if i := slices.IndexFunc(lost, func(l replica.Lost) bool { return l.Partition == h.Partition }); i >= 0 {
				e.Bytes = lost[i].Bytes
			} else {
				e.From = e.To
			}
			events = append(events, e)
			power.Cut = append(power.Cut, journal.Cut{Partition: h.Partition, LogCut: cut[h.Partition]})
		}
	}
	start := max(c.Start, 1)
	host, port, err := splitHostPort(c.Advertise)
	if err != nil {
		return nil, fmt.Errorf("advertised address: %w", err)
	}
	incarnation := uint64(start)
	if !c.Hold {
		incarnation = randomIncarnation()
	}
	first := (start-1)*RequestsPerStart + 1
	config := inbox.Config{
		Session: session.Config{Self: replica.ID(c.ID), Incarnation: incarnation, Host: host, Port: port, FirstNumber: first},
		Replica: replica.Config{Self: replica.ID(c.ID), Rules: c.Rules, FirstNumber: first, FetchMaxBytes: int32(c.Settings.FetchMaxBytes)},
		Hosted:  hosted,
	}
	if !c.Hold {
		s := c.Settings
		config.Session.Interval, config.Session.Timeout, config.Session.Backoff =
			replica.Time(s.HeartbeatInterval), replica.Time(s.RequestTimeout), replica.Time(s.Backoff)
		config.Replica.LagMax, config.Replica.FetchWait = replica.Time(s.LagMax), replica.Time(s.FetchWait)
		config.Replica.Timeout, config.Replica.Backoff = replica.Time(s.RequestTimeout), replica.Time(s.Backoff)
	}
	if err := b.open(config, power); err != nil {
		return nil, err
	}
	for _, h := range hosted {
		v, _ := b.broker.View(h.Partition)
		e := control.Event{Node: c.ID, Partition: h.Partition.String(), What: "recovered", To: v.LEO, HW: v.HW}
		if found, ok := b.disk.Recovery(h.Partition); ok {
			e.Bytes = found.Cut
			if found.Why != nil {
				e.Why = found.Why.Error()
			}
		}
		events = append(events, e)
	}
	return events, nil
}

// open makes the cores, and writes down of what.
func (b *brokerProcess) open(c inbox.Config, power *journal.Power) (err error) {
	if b.journal == nil {
		b.broker, err = inbox.Start(c, b.calls)
		return err
	}
	start := &journal.Start{Node: b.config.ID, Hold: b.config.Hold, Broker: &c, Power: power}
	for _, kind := range b.config.Damaged {
		if kind == DamageForget {
			start.Damage.Forgotten = true
		} else {
			start.Damage.Cut = true
		}
	}
	for _, h := range c.Hosted {
		l, err := b.disk.Log(h.Partition)
		if err != nil {
			return err
		}
		found, err := journal.Look(h.Partition, l)
		if err != nil {
			return err
		}
		start.Disk = append(start.Disk, found)
	}
	if err := b.journal.Start(start); err != nil {
		return err
	}
	disk := &markedDisk{Disk: b.journal.Disk(b.calls)}
	if b.broker, err = inbox.Start(c, disk); err != nil {
		disk.opened.Error = err.Error()
		return errors.Join(err, b.journal.Opened(disk.opened, nil))
	}
	return b.journal.Opened(disk.opened, func(now replica.Time) []byte { return b.broker.AppendState(now, nil) })
}

// markedDisk remembers whether there was the marker of a clean shutdown.
type markedDisk struct {
	replica.Disk
	opened journal.Opened
}

func (d *markedDisk) TakeCleanShutdown() (int64, bool, error) {
	epoch, ok, err := d.Disk.TakeCleanShutdown()
	d.opened.BrokerEpoch, d.opened.Marked = epoch, ok
	return epoch, ok, err
}

// hosted lists the partitions of which the broker has a replica.
func (b *brokerProcess) hosted() []inbox.Hosted {
	var hosted []inbox.Hosted
	for _, t := range b.config.Topics {
		for i, replicas := range t.Partitions {
			if slices.Contains(replicas, b.config.ID) {
				hosted = append(hosted, inbox.Hosted{Partition: replica.Partition{Topic: t.Name, Index: int32(i)}, MinISR: b.config.Settings.MinISR})
			}
		}
	}
	return hosted
}

func randomIncarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}
