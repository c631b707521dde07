package checker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"tidemark/checker/history"
)

// Result is what a history comes to.
type Result struct {
	Verdict Verdict `json:"verdict"`
	// Reasons are why it is allowed or inconclusive, or what is to be named beside a pass; sorted. A violation has none.
	Reasons []Reason `json:"reasons,omitempty"`
	// Details say more of each reason, a line each.
	Details []string `json:"details,omitempty"`
	// Contract is what was judged by, with its defaults filled in.
	Contract Contract `json:"contract"`
	// Findings are all anomalies that clients saw at or below the bar, and divergence; by partition, name and offset.
	Findings     []Finding     `json:"findings,omitempty"`
	Observations []Observation `json:"observations,omitempty"`
	Partitions   []Partition   `json:"partitions"`
	// Slices are the rejections cut down to a few operations each, judged anew by porcupine.
	Slices []Slice `json:"slices,omitempty"`
	// Porcupine is its verdict on the whole history: Illegal if it is on any partition, else NotRun if it did not judge all.
	Porcupine Outcome  `json:"porcupine"`
	Evidence  Evidence `json:"evidence"`
	// Torn: the history breaks off; it was judged up to there.
	Torn bool `json:"torn,omitempty"`
}

// Contract is a history's contract with all defaults filled in, as it was judged by.
type Contract struct {
	Acks        string              `json:"acks"`
	MinISR      int                 `json:"min.insync.replicas"`
	Unclean     bool                `json:"unclean.leader.election.enable"`
	Protocol    string              `json:"protocol,omitempty"`
	CrashBudget history.CrashBudget `json:"crash-budget"`
	Bar         Level               `json:"bar"`
}

// Partition is what was decided of one partition.
type Partition struct {
	Name       string `json:"name"`
	Operations int    `json:"operations"`
	// Level is the strongest that holds.
	Level Level `json:"level"`
	// End is where the final reads say that the log ends; -1 if there are none.
	End       int64   `json:"end"`
	Porcupine Outcome `json:"porcupine"`
	// PorcupineWhy says why porcupine did not judge.
	PorcupineWhy string `json:"porcupine_why,omitempty"`
	// Replayed: the order that explains the operations at Level was replayed by package replay, which shares no code with the check.
	Replayed bool `json:"replayed,omitempty"`
}

// Evidence is how much happened. A verdict without it is worth nothing.
type Evidence struct {
	// Acked counts produces with an offset, Reads answered fetches and ends that are not final, Unknown and Failed operations of any
	// kind.
	Acked      int `json:"acked"`
	Reads      int `json:"reads"`
	FinalReads int `json:"final_reads"`
	Unknown    int `json:"unknown"`
	Failed     int `json:"failed"`
	// LeaderChanges are elections of a leader after a partition's first; Truncations those that cut something.
	LeaderChanges int `json:"leader_changes"`
	Truncations   int `json:"truncations"`
	// ISRChanges are those that came without an election.
	ISRChanges  int   `json:"isr_changes"`
	PowerLosses int   `json:"power_losses"`
	BytesLost   int64 `json:"bytes_lost"`
	// Faults are counted by verb, in the order of verbs.
	Faults []FaultCount `json:"faults,omitempty"`
}

// FaultCount is how often a fault was played and how often it was shown to take effect.
type FaultCount struct {
	Verb   string `json:"verb"`
	Count  int    `json:"count"`
	Proven int    `json:"proven"`
}

func (e *Evidence) fault(verb string) *FaultCount {
	i, ok := slices.BinarySearchFunc(e.Faults, verb, func(f FaultCount, v string) int {
		switch {
		case f.Verb < v:
			return -1
		case f.Verb > v:
			return 1
		}
		return 0
	})
	if !ok {
		e.Faults = slices.Insert(e.Faults, i, FaultCount{Verb: verb})
	}
	return &e.Faults[i]
}

// Check judges a history. An error is never a verdict: the history cannot be read ([history.LineError]) or contradicts itself
// ([ErrInvalid]), the contract cannot be understood ([ErrContract]), the context is done, or the two checkers disagree
// ([*DisagreementError]; then the result is returned beside it).
func Check(ctx context.Context, src Source, o Options) (*Result, error) {
	contract := src.Header().Contract
	if o.Contract != nil {
		contract = *o.Contract
	}
	contract, bar, err := complete(contract)
	if err != nil {
		return nil, err
	}
	in, err := take(ctx, src, o.Progress)
	if err != nil {
		return nil, err
	}
	j := &judge{in: in, bar: bar, limits: o.Porcupine.withDefaults(), uncertified: o.Uncertified, court: court{in, contract}}
	j.res = &Result{Torn: in.torn, Porcupine: Ok, Contract: Contract{Acks: contract.Acks, MinISR: contract.MinISR, Unclean: contract.Unclean,
		Protocol: contract.Protocol, CrashBudget: contract.CrashBudget, Bar: bar}}
	var disagreement error
	for _, p := range in.sorted() {
		if o.Progress != nil {
			o.Progress(Progress{Events: int64(in.place), Partition: p.name, Operations: int(p.ops.len())})
		}
		err := j.partition(ctx, p)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if disagreement == nil {
			disagreement = err
		}
	}
	sortFindings(j.res.Findings)
	j.evidence()
	j.ended()
	j.enough(o.Enough)
	j.verdict()
	return j.res, disagreement
}

// judge gathers the result.
type judge struct {
	in     *intake
	bar    Level
	limits Limits
	court  court
	res    *Result
	// doubts are reasons for being inconclusive.
	doubts []Reason
	// uncertified: nobody confirms what was decided.
	uncertified bool
}

// decide runs the exact check on one partition: the strongest level that holds, and every anomaly.
func (p *partition) decide() (Level, resolved, swept) {
	r := p.resolve()
	s := p.sweep(p.survives)
	level := Linearizable
	for _, l := range s.late {
		level = min(level, l.breaks-1)
	}
	for _, t := range s.torn {
		level = min(level, t.breaks-1)
	}
	if !r.agrees {
		level = Broken
	}
	return level, r, s
}

// partition judges one partition and returns a disagreement, if there is one.
func (j *judge) partition(ctx context.Context, p *partition) error {
	p.settle()
	level, r, s := p.decide()
	report := Partition{Name: p.name, Operations: int(p.ops.len()), Level: level, End: none}
	if p.ended {
		report.End = p.end
	}
	t := &teller{p: p, x: j.in.index(p.name), faults: j.in.faults}
	told := map[Anomaly]int{}
	above := observations(nil)
	clues := p.clues(r, s)
	for i := range clues {
		c := clues[i]
		told[c.anomaly]++
		short := told[c.anomaly] > maxTold
		if c.breaks > j.bar {
			if told[c.anomaly] == 1 {
				above.add(c.anomaly, p.name, t.sentence(&c, excuse{}, false))
			} else {
				above.add(c.anomaly, p.name, "")
			}
			continue
		}
		e := j.excuse(p, &c)
		f := Finding{Anomaly: c.anomaly, Partition: p.name, Offset: c.offset, Breaks: c.breaks, Because: e.because, Cause: t.cause(&c),
			Sentence: t.sentence(&c, e, short)}
		for _, v := range c.values {
			f.Values = append(f.Values, p.text(v))
		}
		for _, id := range c.ops {
			f.Witness = append(f.Witness, p.witness(id))
		}
		j.res.Findings = append(j.res.Findings, f)
	}
	for _, d := range p.diverged(t.x) {
		f := Finding{Anomaly: Diverged, Partition: p.name, Offset: d.from, Breaks: Agreement, Sentence: t.diverged(&d) + "."}
		for _, s := range d.sides {
			if s.record != nil {
				f.Values = append(f.Values, s.record.Value)
			}
		}
		j.res.Findings = append(j.res.Findings, f)
	}
	j.res.Observations = append(append(j.res.Observations, above...), j.in.observe(p)...)
	if r.limit {
		j.doubt(BecauseCheckerLimit, fmt.Sprintf("%s: the search for produces of unknown outcome that fill the holes of the log was given up after "+
			"%d steps", p.name, maxTilingSteps))
	}

	heard := p.ask(ctx, j.bar, r.short, j.limits)
	report.Porcupine, report.PorcupineWhy = heard.outcome, heard.why
	j.res.Partitions = append(j.res.Partitions, report)
	switch {
	case heard.outcome == Illegal, heard.outcome == NotRun && j.res.Porcupine == Ok:
		j.res.Porcupine = heard.outcome
	}
	if heard.outcome != NotRun && !r.limit && (heard.outcome == Ok) != (level >= j.bar) {
		return &DisagreementError{Partition: p.name, Level: j.bar, Exact: level >= j.bar, Porcupine: heard.outcome == Ok, By: "porcupine", p: p}
	}
	if j.uncertified {
		return nil
	}
	return j.certify(ctx, p, level, r.limit, clues)
}

// certify has others confirm what was decided: the kernel what holds, and porcupine, on slices, what does not.
func (j *judge) certify(ctx context.Context, p *partition, level Level, limit bool, clues []clue) error {
	if level >= Agreement && !limit {
		if err := p.certify(level); err != nil {
			return &DisagreementError{Partition: p.name, Level: level, Exact: true, By: "the kernel that replays its order", Detail: err.Error(), p: p}
		}
		j.res.Partitions[len(j.res.Partitions)-1].Replayed = true
	}
	return j.cutSlices(ctx, p, clues)
}

// excuse asks the contract about a clue that is a loss; nothing else is ever excused.
func (j *judge) excuse(p *partition, c *clue) excuse {
	switch {
	case c.lost != none:
		return j.court.excuseFor(p.lossOf(c.lost))
	case c.prover != none && c.breaks == CommittedLog:
		return j.court.excuseFor(p.lossAt(c.offset, c.prover))
	}
	return excuse{}
}

func (j *judge) doubt(r Reason, detail string) {
	j.doubts = append(j.doubts, r)
	j.res.Details = append(j.res.Details, fmt.Sprintf("%s: %s", r, detail))
}

// evidence completes the counts and looks for faults that nothing shows to have taken effect.
func (j *judge) evidence() {
	ev := &j.in.evidence
	for _, name := range slices.Sorted(maps.Keys(j.in.nodes)) {
		ev.LeaderChanges += j.in.nodes[name].leaderChanges()
		ev.ISRChanges += j.in.nodes[name].isrChanges()
	}
	for _, f := range j.in.faults {
		count := ev.fault(f.Verb)
		count.Count++
		switch {
		case f.Proven:
			count.Proven++
		case f.over != 0:
			j.doubt(BecauseFaultUnproven, fmt.Sprintf("nothing that was measured shows that %q (at %s) took effect", f.Asked, seconds(f.beginTime)))
		case !j.in.torn:
			j.doubt(BecauseFaultUnproven, fmt.Sprintf("%q (at %s) never ended", f.Asked, seconds(f.beginTime)))
		}
	}
	j.res.Evidence = *ev
}

// ended makes sure that the end of each partition is known: without it a lost tail cannot be seen.
func (j *judge) ended() {
	for _, p := range j.in.sorted() {
		switch {
		case p.settled != nil && !p.settled.OK:
			j.doubt(BecauseUnavailable, fmt.Sprintf("%s did not come to rest: %s", p.name, p.settled.Why))
		case !p.ended && j.in.torn && int(p.ops.len()) > 0:
			j.doubt(BecauseUnavailable, fmt.Sprintf("the history breaks off before the final read of %s", p.name))
		case !p.ended && int(p.ops.len()) > 0:
			j.doubt(BecauseUnavailable, fmt.Sprintf("there is no final read of %s", p.name))
		case p.ended:
			if hole, ok := p.unread(); ok {
				j.doubt(BecauseUnavailable, fmt.Sprintf("the final reads of %s end at %d and lack offset %d", p.name, p.end, hole))
			}
		}
	}
}

// unread is the lowest offset below the end that no final read covers.
func (p *partition) unread() (int64, bool) {
	spans := make([][2]int64, 0, len(p.finals))
	for _, id := range p.finals {
		o := p.ops.at(id)
		spans = append(spans, [2]int64{o.offset, o.offset + int64(o.count)})
	}
	slices.SortFunc(spans, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) })
	next := int64(0)
	for _, s := range spans {
		if s[0] > next {
			break
		}
		next = max(next, s[1])
	}
	return next, next < p.end
}

func (j *judge) enough(want Enough) {
	want.Acked = max(want.Acked, 1)
	ev := &j.res.Evidence
	faults := 0
	for _, f := range ev.Faults {
		faults += f.Count
	}
	for _, x := range []struct {
		what       string
		have, want int
	}{
		{"acked produces", ev.Acked, want.Acked},
		{"reads", ev.Reads, want.Reads},
		{"reads of any kind", ev.Reads + ev.FinalReads, 1},
		{"operations of unknown outcome", ev.Unknown, want.Unknown},
		{"leader changes", ev.LeaderChanges, want.LeaderChanges},
		{"truncations", ev.Truncations, want.Truncations},
		{"faults", faults, want.Faults},
	} {
		if x.have < x.want {
			j.doubt(BecauseTooLittle, fmt.Sprintf("%d %s, at least %d are needed", x.have, x.what, x.want))
		}
	}
}

func (j *judge) verdict() {
	res := j.res
	broken := false
	var allowed []Reason
	for _, f := range res.Findings {
		if f.Because == "" {
			broken = true
			continue
		}
		allowed = append(allowed, f.Because)
	}
	switch {
	case broken:
		// Nothing excuses a violation; why other findings are allowed stands beside each.
		res.Verdict = Violation
		return
	case len(j.doubts) > 0:
		res.Verdict = Inconclusive
	case len(res.Findings) > 0:
		res.Verdict = Allowed
	default:
		res.Verdict = Consistent
		j.nameRecoveries()
	}
	res.Reasons = slices.Concat(res.Reasons, allowed, j.doubts)
	slices.Sort(res.Reasons)
	res.Reasons = slices.Compact(res.Reasons)
}

// nameRecoveries names what the controller reported to have done without a guarantee, though nothing came of it.
func (j *judge) nameRecoveries() {
	for _, p := range j.in.sorted() {
		if d := j.in.index(p.name).uncleanAfter(history.Unknown, 0); d != nil && !j.court.contract.Unclean {
			j.res.Reasons = append(j.res.Reasons, BecauseUncleanRecovery)
			j.res.Details = append(j.res.Details, fmt.Sprintf("%s: the controller reported that it elected broker %d for %s in epoch %d without a "+
				"guarantee (%s)", BecauseUncleanRecovery, d.leader, p.name, d.epoch, d.why))
		}
	}
}
