package rules_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/rules"
)

func TestEveryProtocolContainsTheOneBeforeIt(t *testing.T) {
	protocols := rules.Protocols()
	for i, p := range protocols[1:] {
		older, newer := rules.Of(protocols[i]), rules.Of(p)
		assert.GreaterOrEqual(t, newer.Truncation, older.Truncation, "%s goes back behind %s", p, protocols[i])
		assert.NotEqual(t, older, newer, "%s is no step from %s", p, protocols[i])
		for _, r := range rules.Rules() {
			assert.False(t, r.Has(older) && !r.Has(newer), "%s has %s, %s has lost it", protocols[i], r.Name, p)
		}
	}
	for _, r := range rules.Rules() {
		assert.True(t, r.Has(rules.Of(rules.KIP966)), "the newest protocol has every rule, and %s is one", r.Name)
		assert.False(t, r.Has(rules.Of(rules.HW)), "the oldest protocol has no rule, and %s is one", r.Name)
	}
}

func TestEveryRuleComesWithTheProtocolThatItNames(t *testing.T) {
	for _, r := range rules.Rules() {
		for _, p := range rules.Protocols() {
			want := p.Index() >= r.Since.Index()
			assert.Equal(t, want, r.Has(rules.Of(p)), "%s since %s, under %s", r.Name, r.Since, p)
		}
		assert.NotEmpty(t, r.Source, r.Name)
		assert.NotEmpty(t, r.Says, r.Name)
	}
}

// The truncation of each protocol, and the rules that KIP-320's release brought beside it (protocol.md, section 7).
func TestTheProtocolsAreThoseOfHistory(t *testing.T) {
	kip320 := rules.Set{Truncation: rules.ToCommonEpoch, FetchFencing: true, EpochAtElection: true, TruncateEveryEpoch: true,
		IsrFromEpochStart: true, OffsetNotAvailable: true}
	kip966 := kip320
	kip966.HWNeedsMinISR, kip966.ELR, kip966.BrokerEpoch = true, true, true
	for p, want := range map[rules.Protocol]rules.Set{
		rules.HW:     {},
		rules.KIP101: {Truncation: rules.ToEpochEnd},
		rules.KIP279: {Truncation: rules.ToCommonEpoch},
		rules.KIP320: kip320,
		rules.KIP966: kip966,
	} {
		assert.Equal(t, want, rules.Of(p), p)
		assert.NoError(t, rules.Of(p).Validate(), p)
	}
}

func TestParseTakesRulesAwayAndSetsThem(t *testing.T) {
	kip320 := rules.Of(rules.KIP320)
	unfenced := kip320
	unfenced.FetchFencing = false
	seeded := kip320
	seeded.Truncation, seeded.Registration, seeded.HWNeedsMinISR = rules.ToEpochEnd, rules.ZK, true
	blind := kip320
	blind.Truncation = rules.ToHighWatermark
	for _, c := range []struct {
		name     string
		without  []string
		settings []string
		want     rules.Set
	}{
		{"a protocol as it was", nil, nil, kip320},
		{"a rule is taken away", []string{"fetch-fencing"}, nil, unfenced},
		{"taking truncation away leaves the oldest way of it", []string{"truncation"}, nil, blind},
		{"rules are set one by one", nil, []string{"truncation=kip101", "registration=zk", "hw-needs-min-isr=on"}, seeded},
		{"the later setting wins", []string{"fetch-fencing"}, []string{"fetch-fencing=off", "fetch-fencing=on"}, kip320},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rules.Parse(rules.KIP320, c.without, c.settings)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	const names = "truncation, registration, fetch-fencing, epoch-at-election, truncate-every-epoch, isr-from-epoch-start, " +
		"offset-not-available, hw-needs-min-isr, elr, broker-epoch"
	for _, c := range []struct {
		name     string
		protocol rules.Protocol
		without  []string
		settings []string
		want     string
	}{
		{"a protocol that never was", "kip102", nil, nil, `unknown protocol "kip102": want one of hw, kip101, kip279, kip320, kip966`},
		{"no protocol at all", "", nil, nil, `unknown protocol "": want one of hw, kip101, kip279, kip320, kip966`},
		{"a rule that never was, taken away", rules.HW, []string{"fencing"}, nil, `unknown rule "fencing": want one of ` + names},
		{"a rule that never was, set", rules.HW, nil, []string{"fencing=on"}, `unknown rule "fencing": want one of ` + names},
		{"a setting without a value", rules.HW, nil, []string{"elr"}, `rule "elr": want name=value, for example truncation=kip101`},
		{"a switch that is neither on nor off", rules.HW, nil, []string{"fetch-fencing=true"}, "rule fetch-fencing=true: want on or off"},
		{"a way of truncation that never was", rules.HW, nil, []string{"truncation=kip320"}, "rule truncation=kip320: want hw, kip101, kip279, on-fetch"},
		{"a registration that never was", rules.HW, nil, []string{"registration=raft"}, "rule registration=raft: want zk or kraft"},
		{"registration cannot be taken away", rules.HW, []string{"registration"}, nil, "rule registration=off: want zk or kraft"},
		{"eligible leader replicas with ZooKeeper's sessions", rules.KIP966, nil, []string{"registration=zk"},
			"elr with zk registration: eligibility ends at an unclean restart, which zk registration does not notice; use registration=kraft or take elr away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := rules.Parse(c.protocol, c.without, c.settings)
			assert.EqualError(t, err, c.want)
		})
	}
	_, err := rules.ParseProtocol("kip")
	assert.EqualError(t, err, `unknown protocol "kip": want one of hw, kip101, kip279, kip320, kip966`)
	assert.Equal(t, -1, rules.Protocol("kip").Index())
}

func TestZooKeeperSessionsAreForSetsWithoutEligibleLeaderReplicas(t *testing.T) {
	got, err := rules.Parse(rules.KIP966, []string{"elr"}, []string{"registration=zk"})
	require.NoError(t, err)
	assert.Equal(t, rules.ZK, got.Registration)
	assert.False(t, got.ELR)
	assert.True(t, got.BrokerEpoch, "nothing else was taken away")
}

// A process hands its rules to another as words: nothing is lost on the way, whatever the other would begin with.
func TestSettingsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := set(t)
		if s.Validate() != nil {
			s.Registration = rules.KRaft
		}
		s.Defect.LocalShrink, s.Defect.HWBeforeCut = rapid.Bool().Draw(t, "Z11"), rapid.Bool().Draw(t, "Z14")
		from := rapid.SampledFrom(rules.Protocols()).Draw(t, "protocol")
		got, err := rules.Parse(from, nil, s.Settings())
		require.NoError(t, err)
		require.Equal(t, s, got)
		require.Len(t, s.Settings(), len(s.Defects())+len(rules.Rules())+1, "every defect, every rule, and registration")
	})
}

func set(t *rapid.T) rules.Set {
	on := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return rules.Set{
		Truncation:   rapid.SampledFrom([]rules.Truncation{rules.ToHighWatermark, rules.ToEpochEnd, rules.ToCommonEpoch}).Draw(t, "truncation"),
		Registration: rapid.SampledFrom([]rules.Registration{rules.KRaft, rules.ZK}).Draw(t, "registration"),
		FetchFencing: on("fetch-fencing"), EpochAtElection: on("epoch-at-election"), TruncateEveryEpoch: on("truncate-every-epoch"),
		IsrFromEpochStart: on("isr-from-epoch-start"), OffsetNotAvailable: on("offset-not-available"),
		HWNeedsMinISR: on("hw-needs-min-isr"), ELR: on("elr"), BrokerEpoch: on("broker-epoch"),
	}
}

func TestNamesOfRulesAreUniqueAndTruncationHasWordsForAll(t *testing.T) {
	var names []string
	for _, r := range rules.Rules() {
		assert.False(t, slices.Contains(names, r.Name), "%s stands there twice", r.Name)
		names = append(names, r.Name)
	}
	assert.Equal(t, "hw", rules.ToHighWatermark.String())
	assert.Equal(t, "kip101", rules.ToEpochEnd.String())
	assert.Equal(t, "kip279", rules.ToCommonEpoch.String())
	assert.Equal(t, "truncation(7)", rules.Truncation(7).String())
}
