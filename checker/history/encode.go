package history

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The encoder is written by hand because it runs inside the clients' own loop: a reflecting one costs several times as much as
// sending the request does.

func appendHeader(b []byte, h *Header) []byte {
	b = append(b, `{"tidemark-history":`...)
	b = strconv.AppendInt(b, Version, 10)
	if c := h.Contract; c != (Contract{}) {
		b = append(b, `,"contract":{`...)
		mark := len(b)
		if c.Acks != "" {
			b = appendText(b, `,"acks":`, c.Acks)
		}
		if c.MinISR != 0 {
			b = appendInt(b, `,"min.insync.replicas":`, int64(c.MinISR))
		}
		if c.Unclean {
			b = append(b, `,"unclean.leader.election.enable":true`...)
		}
		if c.Protocol != "" {
			b = appendText(b, `,"protocol":`, c.Protocol)
		}
		if c.CrashBudget != "" {
			b = appendText(b, `,"crash-budget":`, string(c.CrashBudget))
		}
		if c.Bar != "" {
			b = appendText(b, `,"bar":`, c.Bar)
		}
		b = append(dropComma(b, mark), '}')
	}
	if len(h.Topics) > 0 {
		b = append(b, `,"topics":[`...)
		for i, t := range h.Topics {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, `{"name":`, t.Name)
			b = appendInt(b, `,"partitions":`, int64(t.Partitions))
			b = appendInt(b, `,"replicas":`, int64(t.Replicas))
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	if len(h.Meta) > 0 {
		b = append(b, `,"meta":{`...)
		keys := make([]string, 0, len(h.Meta))
		for k := range h.Meta {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, k)
			b = appendText(b, ":", h.Meta[k])
		}
		b = append(b, '}')
	}
	return append(b, '}', '\n')
}

func appendEvent(b []byte, e *Event) ([]byte, error) {
	b = appendInt(b, `{"seq":`, e.Seq)
	b = appendInt(b, `,"time":`, e.Time)
	b = append(b, `,"kind":"`...)
	b = append(b, e.Kind.String()...)
	b = append(b, '"')
	var err error
	switch e.Kind {
	case Invoke, OK, Fail, Info:
		b, err = appendOp(b, e)
	case KindFault:
		if e.Fault == nil {
			return nil, missing(e.Kind)
		}
		b, err = appendFault(b, e.Fault)
	case KindNode:
		if e.Node == nil {
			return nil, missing(e.Kind)
		}
		b, err = appendNode(b, e.Node)
	case KindReplica:
		if e.Replica == nil {
			return nil, missing(e.Kind)
		}
		b, err = appendReplica(b, e.Replica)
	case KindSettled:
		if e.Settled == nil {
			return nil, missing(e.Kind)
		}
		b, err = appendSettled(b, e.Settled)
	default:
		return nil, fmt.Errorf("event kind %d is not a kind of history event", e.Kind)
	}
	if err != nil {
		return nil, err
	}
	return append(b, '}', '\n'), nil
}

func missing(k Kind) error { return fmt.Errorf("%s event without its %s field", k, k) }

func appendOp(b []byte, e *Event) ([]byte, error) {
	op := &e.Op
	if op.Type < Produce || op.Type > End {
		return nil, fmt.Errorf("operation type %d is none of produce, fetch, end", op.Type)
	}
	if err := checkText("partition", op.Partition); err != nil {
		return nil, err
	}
	b = appendInt(b, `,"process":`, e.Process)
	b = append(b, `,"op":"`...)
	b = append(b, op.Type.String()...)
	b = append(b, '"')
	b = appendText(b, `,"partition":`, op.Partition)
	switch {
	case e.Kind == Invoke && op.Type == Produce:
		b = append(b, `,"values":[`...)
		for i, v := range op.Values {
			if err := checkText("values", v); err != nil {
				return nil, err
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, v)
		}
		b = append(b, ']')
		b = appendInt(b, `,"acks":`, int64(op.Acks))
	case e.Kind == Invoke && op.Type == Fetch:
		b = appendInt(b, `,"from":`, op.From)
		b = appendInt(b, `,"node":`, int64(op.Node))
	case e.Kind == Invoke:
		b = appendInt(b, `,"node":`, int64(op.Node))
	case e.Kind != OK:
		if op.Error != "" {
			if err := checkText("error", op.Error); err != nil {
				return nil, err
			}
			b = appendText(b, `,"error":`, op.Error)
		}
		return b, nil
	case op.Type == Produce:
		return appendInt(b, `,"offset":`, op.Offset), nil
	case op.Type == End:
		b = appendInt(b, `,"offset":`, op.Offset)
		b = appendInt(b, `,"node":`, int64(op.Node))
	default:
		var err error
		if b, err = appendRecords(b, `,"records":[`, "records", op.Records); err != nil {
			return nil, err
		}
		b = appendInt(b, `,"hw":`, op.HighWatermark)
		b = appendInt(b, `,"node":`, int64(op.Node))
	}
	if op.Final && op.Type != Produce {
		b = append(b, `,"final":true`...)
	}
	return b, nil
}

func appendRecords(b []byte, key, field string, rs []Record) ([]byte, error) {
	b = append(b, key...)
	for i := range rs {
		if err := checkText(field, rs[i].Value); err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, "[", rs[i].Offset)
		b = appendInt(b, ",", int64(rs[i].Epoch))
		b = appendText(b, ",", rs[i].Value)
		b = append(b, ']')
	}
	return append(b, ']'), nil
}

func appendFault(b []byte, f *FaultEvent) ([]byte, error) {
	if f.Phase != Begin && f.Phase != Over {
		return nil, fmt.Errorf("fault phase %d is neither begin nor end", f.Phase)
	}
	if err := checkTexts("verb", f.Verb, "asked", f.Asked); err != nil {
		return nil, err
	}
	b = appendInt(b, `,"id":`, f.ID)
	b = append(b, `,"phase":"`...)
	b = append(b, f.Phase.String()...)
	b = append(b, '"')
	b = appendText(b, `,"verb":`, f.Verb)
	b = appendText(b, `,"asked":`, f.Asked)
	b = appendIDs(b, `,"nodes":[`, f.Nodes)
	if f.Phase == Begin {
		return b, nil
	}
	b = append(b, `,"evidence":[`...)
	for i, m := range f.Evidence {
		if err := checkTexts("evidence", m.Name, "evidence", m.Value); err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, "[", m.Name)
		b = appendText(b, ",", m.Value)
		b = append(b, ']')
	}
	b = append(b, `],"proven":`...)
	return strconv.AppendBool(b, f.Proven), nil
}

// nodeFields says which fields are written even when they are zero, so that a line shows everything that belongs to it.
var nodeFields = map[What]fields{
	Append:      fEpoch | fFrom | fTo,
	HW:          fEpoch | fFrom | fTo,
	Truncated:   fEpoch | fFrom | fTo | fHW | fLeader | fWhy,
	RoleChanged: fEpoch | fPartitionEpoch | fRole | fLeader,
	ISRChanged:  fEpoch | fPartitionEpoch,
	Elected:     fEpoch | fPartitionEpoch | fLeader | fWhy,
	Ack:         fEpoch | fPartitionEpoch | fFrom | fTo,
	Recovered:   fTo | fHW,
	PowerLoss:   fFrom | fTo | fBytes,
	Registered:  fBroker | fBrokerEpoch,
	Fenced:      fBroker,
	Unfenced:    fBroker,
}

func appendNode(b []byte, n *NodeEvent) ([]byte, error) {
	if err := checkTexts("what", string(n.What), "partition", n.Partition, "role", n.Role, "why", n.Why); err != nil {
		return nil, err
	}
	always := nodeFields[n.What]
	num := func(f fields, key string, v int64) {
		if v != 0 || always&f != 0 {
			b = appendInt(b, key, v)
		}
	}
	text := func(f fields, key, v string) {
		if v != "" || always&f != 0 {
			b = appendText(b, key, v)
		}
	}
	b = appendInt(b, `,"node":`, int64(n.Node))
	b = appendText(b, `,"what":`, string(n.What))
	text(0, `,"partition":`, n.Partition)
	num(fEpoch, `,"epoch":`, int64(n.Epoch))
	num(fPartitionEpoch, `,"partition-epoch":`, int64(n.PartitionEpoch))
	num(fFrom, `,"from":`, n.From)
	num(fTo, `,"to":`, n.To)
	num(fHW, `,"hw":`, n.HW)
	num(fLeader, `,"leader":`, int64(n.Leader))
	if n.ISR != nil {
		b = appendIDs(b, `,"isr":[`, n.ISR)
	}
	text(fRole, `,"role":`, n.Role)
	num(fBroker, `,"broker":`, int64(n.Broker))
	num(fBrokerEpoch, `,"broker-epoch":`, n.BrokerEpoch)
	num(fBytes, `,"bytes":`, n.Bytes)
	if n.Unclean {
		b = append(b, `,"unclean":true`...)
	}
	text(fWhy, `,"why":`, n.Why)
	return b, nil
}

func appendReplica(b []byte, r *Replica) ([]byte, error) {
	if err := checkText("partition", r.Partition); err != nil {
		return nil, err
	}
	b = appendInt(b, `,"node":`, int64(r.Node))
	b = appendText(b, `,"partition":`, r.Partition)
	b = appendInt(b, `,"hw":`, r.HW)
	b = appendInt(b, `,"leo":`, r.LEO)
	b = append(b, `,"epochs":[`...)
	for i, s := range r.Epochs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInt(b, "[", int64(s.Epoch))
		b = appendInt(b, ",", s.Start)
		b = append(b, ']')
	}
	b = append(b, ']')
	return appendRecords(b, `,"entries":[`, "entries", r.Entries)
}

func appendSettled(b []byte, s *Settled) ([]byte, error) {
	if err := checkTexts("partition", s.Partition, "why", s.Why); err != nil {
		return nil, err
	}
	b = appendText(b, `,"partition":`, s.Partition)
	b = append(b, `,"ok":`...)
	b = strconv.AppendBool(b, s.OK)
	if s.Why != "" {
		b = appendText(b, `,"why":`, s.Why)
	}
	return b, nil
}

func dropComma(b []byte, mark int) []byte {
	if len(b) > mark && b[mark] == ',' {
		return slices.Delete(b, mark, mark+1)
	}
	return b
}

func appendInt(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(b, key...), v, 10)
}

func appendText(b []byte, key, v string) []byte { return appendString(append(b, key...), v) }

func appendIDs(b []byte, key string, ids []int32) []byte {
	b = append(b, key...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return append(b, ']')
}

// checkText refuses what JSON cannot hold. Replacing it, as encoding/json does, could make two different values one.
func checkText(field, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("field %q: %q is not UTF-8", field, s)
	}
	return nil
}

func checkTexts(fieldAndText ...string) error {
	for i := 0; i < len(fieldAndText); i += 2 {
		if err := checkText(fieldAndText[i], fieldAndText[i+1]); err != nil {
			return err
		}
	}
	return nil
}

const hexDigits = "0123456789abcdef"

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}
