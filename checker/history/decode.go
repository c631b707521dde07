package history

import (
	"errors"
	"fmt"
)

// fieldError is an error in one field of a line; the reader adds the line's number.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return fmt.Sprintf("field %q: %v", e.field, e.err) }
func (e *fieldError) Unwrap() error { return e.err }

// raw holds the fields of a line until all are known: they may come in any order.
type raw struct {
	seen fields
	e    Event
	f    FaultEvent
	n    NodeEvent
	r    Replica
	s    Settled
	node int32
	hw   int64
	from int64
	part string
	why  string
}

type decoder struct {
	scan scanner
	raw  raw
	// words keeps one copy of texts that come again and again: partitions, names of errors, reasons.
	words map[string]string
	// parts, values and fetched are the quick decoder's: partitions by their last byte, and the buffers of shared events.
	parts   [16]string
	values  []string
	fetched []Record
	// follows is, for each field, the index of the one that followed it last: a writer puts its keys in the same order each time,
	// so the guess spares most look-ups.
	follows [len(fieldNames) + 1]uint8
}

// index finds a key among the fields; after is the index of the field before it plus one. It returns -1 for an unknown key.
func (d *decoder) index(key []byte, after int) int {
	guess := int(d.follows[after])
	if string(key) == fieldNames[guess] {
		return guess
	}
	i, ok := fieldByName[string(key)]
	if !ok {
		return -1
	}
	d.follows[after] = uint8(i)
	return i
}

// maxWords bounds what a history with ever new words can make the decoder keep.
const maxWords = 1 << 12

func (d *decoder) word(b []byte) string {
	if w, ok := d.words[string(b)]; ok {
		return w
	}
	w := string(b)
	if len(d.words) < maxWords {
		if d.words == nil {
			d.words = map[string]string{}
		}
		d.words[w] = w
	}
	return w
}

// event decodes one line. What it returns shares nothing with the line.
func (d *decoder) event(line []byte, e *Event) error {
	d.scan.reset(line)
	d.raw = raw{}
	r := &d.raw
	r.e.Op.Node = Unknown
	r.e.Op.Acks = -1
	last := 0
	err := d.scan.object(func(key []byte) error {
		i := d.index(key, last)
		if i < 0 {
			return &fieldError{string(key), errUnknownField}
		}
		last = i + 1
		f := fields(1) << i
		if r.seen&f != 0 {
			return &fieldError{f.first(), errors.New("stands twice")}
		}
		r.seen |= f
		if err := d.field(f); err != nil {
			return &fieldError{f.first(), err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.scan.end(); err != nil {
		return err
	}
	if err := r.complete(); err != nil {
		return err
	}
	r.assemble(e)
	return nil
}

func (r *raw) complete() error {
	const always = fSeq | fTime | fKind
	if lack := always &^ r.seen; lack != 0 {
		return &fieldError{lack.first(), errors.New("is missing")}
	}
	if r.e.Seq < 1 {
		return &fieldError{"seq", fmt.Errorf("%d is not positive", r.e.Seq)}
	}
	isOp := r.e.Kind <= Info
	if isOp && r.seen&fOp == 0 {
		return &fieldError{"op", errors.New("is missing")}
	}
	if r.e.Kind == KindFault && r.seen&fPhase == 0 {
		return &fieldError{"phase", errors.New("is missing")}
	}
	s := shapeOf(r.e.Kind, r.e.Op.Type, r.f.Phase)
	what := r.e.Kind.String()
	if isOp {
		what += " of " + r.e.Op.Type.String()
	}
	if lack := s.must &^ r.seen; lack != 0 {
		return &fieldError{lack.first(), fmt.Errorf("is missing from %s", what)}
	}
	if extra := r.seen &^ (s.must | s.may | always); extra != 0 {
		return &fieldError{extra.first(), fmt.Errorf("does not belong to %s", what)}
	}
	if isOp && r.part == "" {
		return &fieldError{"partition", errors.New("is empty")}
	}
	if r.e.Kind == Invoke && r.e.Op.Type == Produce && len(r.e.Op.Values) == 0 {
		return &fieldError{"values", errors.New("is empty: a produce has at least one value")}
	}
	return nil
}

func (r *raw) assemble(e *Event) {
	switch r.e.Kind {
	case Invoke, OK, Fail, Info:
		r.e.Op.Partition, r.e.Op.From, r.e.Op.HighWatermark = r.part, r.from, r.hw
		if r.seen&fNode != 0 {
			r.e.Op.Node = r.node
		}
		if r.seen&fAcks == 0 && (r.e.Kind != Invoke || r.e.Op.Type != Produce) {
			r.e.Op.Acks = 0
		}
		if r.e.Op.Type == Produce || r.e.Kind == Fail || r.e.Kind == Info {
			r.e.Op.Node = 0
		}
	case KindFault:
		f := r.f
		if len(f.Nodes) == 0 {
			f.Nodes = nil
		}
		r.e.Fault = &f
	case KindNode:
		n := r.n
		n.Node, n.Partition, n.From, n.HW, n.Why = r.node, r.part, r.from, r.hw, r.why
		r.e.Node = &n
	case KindReplica:
		p := r.r
		p.Node, p.Partition, p.HW = r.node, r.part, r.hw
		r.e.Replica = &p
	case KindSettled:
		s := r.s
		s.Partition, s.Why = r.part, r.why
		r.e.Settled = &s
	}
	if r.e.Kind > Info {
		r.e.Op = Op{}
	}
	*e = r.e
}

func (d *decoder) field(f fields) (err error) {
	s, r := &d.scan, &d.raw
	switch f {
	case fSeq:
		r.e.Seq, err = s.int64()
	case fTime:
		r.e.Time, err = s.int64()
	case fKind:
		err = oneOf(s, kindNames[:], func(i int) { r.e.Kind = Kind(i) })
	case fProcess:
		r.e.Process, err = s.int64()
	case fOp:
		err = oneOf(s, opNames[:], func(i int) { r.e.Op.Type = OpType(i) })
	case fPartition:
		r.part, err = d.wordField()
	case fValues:
		err = s.list(func() error {
			v, err := s.string()
			r.e.Op.Values = append(r.e.Op.Values, string(v))
			return err
		})
	case fAcks:
		err = d.acks()
	case fOffset:
		r.e.Op.Offset, err = s.int64()
	case fFrom:
		r.from, err = s.int64()
	case fNode:
		r.node, err = s.int32()
	case fRecords:
		r.e.Op.Records, err = d.records()
	case fHW:
		r.hw, err = s.int64()
	case fFinal:
		r.e.Op.Final, err = s.bool()
	case fError:
		r.e.Op.Error, err = d.wordField()
	case fPartitionEpoch:
		r.n.PartitionEpoch, err = s.int32()
	case fEpoch:
		r.n.Epoch, err = s.int32()
	case fTo:
		r.n.To, err = s.int64()
	case fWhat:
		var w string
		w, err = d.wordField()
		r.n.What = What(w)
	case fWhy:
		r.why, err = d.wordField()
	default:
		return d.rareField(f)
	}
	return err
}

// rareField decodes the fields that do not stand in the lines of operations and appends.
func (d *decoder) rareField(f fields) (err error) {
	s, r := &d.scan, &d.raw
	switch f {
	case fID:
		r.f.ID, err = s.int64()
	case fPhase:
		err = oneOf(s, phaseNames[:], func(i int) { r.f.Phase = Phase(i) })
	case fVerb:
		r.f.Verb, err = d.wordField()
	case fAsked:
		r.f.Asked, err = d.wordField()
	case fNodes:
		r.f.Nodes, err = d.ids()
	case fEvidence:
		err = s.list(func() error {
			var m Measurement
			err := d.tuple(func() (err error) { m.Name, err = d.wordField(); return err },
				func() error { v, err := s.string(); m.Value = string(v); return err })
			r.f.Evidence = append(r.f.Evidence, m)
			return err
		})
	case fProven:
		r.f.Proven, err = s.bool()
	case fLeader:
		r.n.Leader, err = s.int32()
	case fISR:
		r.n.ISR, err = d.ids()
	case fRole:
		r.n.Role, err = d.wordField()
	case fBroker:
		r.n.Broker, err = s.int32()
	case fBrokerEpoch:
		r.n.BrokerEpoch, err = s.int64()
	case fBytes:
		r.n.Bytes, err = s.int64()
	case fUnclean:
		r.n.Unclean, err = s.bool()
	case fLEO:
		r.r.LEO, err = s.int64()
	case fEpochs:
		err = s.list(func() error {
			var es EpochStart
			err := d.tuple(func() (err error) { es.Epoch, err = s.int32(); return err },
				func() (err error) { es.Start, err = s.int64(); return err })
			r.r.Epochs = append(r.r.Epochs, es)
			return err
		})
	case fEntries:
		r.r.Entries, err = d.records()
	case fOK:
		r.s.OK, err = s.bool()
	}
	return err
}

func (d *decoder) wordField() (string, error) {
	b, err := d.scan.string()
	if err != nil {
		return "", err
	}
	return d.word(b), nil
}

func (d *decoder) acks() error {
	v, err := d.scan.int64()
	if err == nil && (v < -1 || v > 1) {
		err = fmt.Errorf("%d is none of -1 (all), 0, 1", v)
	}
	d.raw.e.Op.Acks = int16(v)
	return err
}

func (d *decoder) records() ([]Record, error) {
	rs := []Record(nil)
	s := &d.scan
	err := s.list(func() error {
		var r Record
		err := d.tuple(func() (err error) { r.Offset, err = s.int64(); return err },
			func() (err error) { r.Epoch, err = s.int32(); return err },
			func() error { v, err := s.string(); r.Value = string(v); return err })
		rs = append(rs, r)
		return err
	})
	return rs, err
}

func (d *decoder) ids() ([]int32, error) {
	// Not nil, even if empty: an empty ISR is a statement.
	ids := []int32{}
	err := d.scan.list(func() error {
		id, err := d.scan.int32()
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// tuple reads an array of exactly these elements.
func (d *decoder) tuple(elements ...func() error) error {
	if err := d.scan.expect('['); err != nil {
		return err
	}
	for i, element := range elements {
		if i > 0 {
			if err := d.scan.expect(','); err != nil {
				return err
			}
		}
		if err := element(); err != nil {
			return err
		}
	}
	return d.scan.expect(']')
}

func oneOf(s *scanner, names []string, set func(int)) error {
	b, err := s.string()
	if err != nil {
		return err
	}
	for i, n := range names {
		if i > 0 && n == string(b) {
			set(i)
			return nil
		}
	}
	return fmt.Errorf("%q is none of %q", b, names[1:])
}
