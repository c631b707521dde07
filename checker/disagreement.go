package checker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"tidemark/checker/history"
)

// DisagreementError says that the exact check and one of those that look over its shoulder came to different verdicts on one partition: one of
// them, or the translation between them, is wrong. It is never a verdict on the run.
type DisagreementError struct {
	Partition string
	Level     Level
	// Exact and Porcupine say whether the exact check, and the other judge, found the level to hold.
	Exact, Porcupine bool
	// By is the other judge: porcupine, porcupine on a slice, or the kernel that replays the order of an accepted history.
	By string
	// Detail is what the other judge said, if it said anything.
	Detail string

	p *partition
}

// Error asks for the history.
func (e *DisagreementError) Error() string {
	verb := func(ok bool) string {
		if ok {
			return "holds"
		}
		return "is broken"
	}
	s := fmt.Sprintf("checker: on %s level %s %s by the exact check and %s by %s", e.Partition, e.Level, verb(e.Exact), verb(e.Porcupine),
		cmp.Or(e.By, "porcupine"))
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s + "; keep the history and report it: this is a bug of the checker"
}

// WriteFiles writes what a report needs into a folder, which is made: the operations of the partition as a history of its own, which
// [Check] judges in the same way, and the error. It returns the names of the files.
func (e *DisagreementError) WriteFiles(dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("report a disagreement: %w", err)
	}
	about := filepath.Join(dir, "disagreement.json")
	text, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = os.WriteFile(about, append(text, '\n'), 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("report a disagreement: %w", err)
	}
	files = append(files, about)
	if e.p == nil {
		return files, nil
	}
	path := filepath.Join(dir, e.Partition+".jsonl")
	if err := e.p.write(path, history.Header{Contract: history.Contract{Bar: e.Level.String()}}); err != nil {
		return files, fmt.Errorf("report a disagreement: %w", err)
	}
	return append(files, path), nil
}

// write makes a history of a partition's operations.
func (p *partition) write(path string, h history.Header) (err error) {
	w, err := history.Create(path, h, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, e := range p.events() {
		if err := w.Append(&e); err != nil {
			return err
		}
	}
	return nil
}

// events are the operations of a partition as they were recorded. What a produce of unknown outcome told with its answer is not kept.
func (p *partition) events() []history.Event {
	var events []history.Event
	for i := range p.ops.len() {
		o := p.ops.at(i)
		op := history.Op{Type: o.kind(), Partition: p.name, Final: o.final(), Node: p.nodeOf(o)}
		call := history.Event{Seq: o.call(), Time: o.callTime, Kind: history.Invoke, Process: p.processOf(o), Op: op}
		answer := history.Event{Seq: o.ret(), Time: o.retTime(), Kind: history.OK, Process: p.processOf(o), Op: op}
		switch o.kind() {
		case history.Produce:
			call.Op.Acks, call.Op.Node, call.Op.Final = int16(o.acks()), 0, false
			answer.Op.Node, answer.Op.Final, answer.Op.Offset = 0, false, o.offset
			for v := o.first; v < o.first+o.count; v++ {
				call.Op.Values = append(call.Op.Values, p.text(v))
			}
		case history.End:
			answer.Op.Offset = o.offset
		case history.Fetch:
			call.Op.From, answer.Op.HighWatermark = o.offset, p.hw(o)
			for i, v := range p.records(o, nil) {
				answer.Op.Records = append(answer.Op.Records, history.Record{Offset: o.offset + int64(i), Epoch: p.values.at(v).epoch, Value: p.text(v)})
			}
		}
		events = append(events, call)
		switch o.out() {
		case failed:
			answer.Kind, answer.Op = history.Fail, history.Op{Type: o.kind(), Partition: p.name}
		case happened:
		default:
			continue
		}
		events = append(events, answer)
	}
	// Calls stand before returns of the same number, as they are judged.
	slices.SortStableFunc(events, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Kind, b.Kind))
	})
	return events
}
