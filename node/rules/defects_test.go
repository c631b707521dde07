package rules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/node/rules"
)

func TestEveryDefectIsSeededOrSaysWhyNot(t *testing.T) {
	ids := map[string]bool{}
	for _, d := range rules.Defects() {
		assert.False(t, ids[strings.ToLower(d.ID)], "%s stands there twice", d.ID)
		ids[strings.ToLower(d.ID)] = true
		assert.NotEmpty(t, d.Source, d.ID)
		assert.NotEmpty(t, d.Says, d.ID)
		assert.NotEmpty(t, d.Seen, d.ID)
		found, err := rules.FindDefect(strings.ToLower(d.ID))
		require.NoError(t, err)
		assert.Equal(t, d.ID, found.ID)
		if d.Unseeded != "" {
			assert.ErrorContains(t, d.Seedable(), d.Unseeded)
			assert.Empty(t, d.Protocol, "%s lives nowhere", d.ID)
			continue
		}
		sound, err := d.Sound()
		require.NoError(t, err, d.ID)
		if d.Control {
			assert.ErrorContains(t, d.Seedable(), "the control", d.ID)
			continue
		}
		require.NoError(t, d.Seedable(), d.ID)
		seeded, err := d.Set()
		require.NoError(t, err, d.ID)
		assert.NotEqual(t, sound, seeded, "%s changes nothing", d.ID)
	}
}

// Each switch is one defect's, so that whoever reads the cores finds its entry, and a defect is a rule of history or a switch.
func TestEverySwitchIsOneDefects(t *testing.T) {
	of := map[string]string{}
	for _, d := range rules.Defects() {
		if d.Seedable() != nil {
			continue
		}
		set, err := d.Set()
		require.NoError(t, err)
		on := reflect.ValueOf(set.Defect)
		for i := range on.NumField() {
			if name := on.Type().Field(i).Name; on.Field(i).Bool() {
				assert.Empty(t, of[name], "%s and %s have the switch %s", d.ID, of[name], name)
				of[name] = d.ID
				assert.Empty(t, d.Changes, "%s is a switch and a rule of history", d.ID)
				assert.Equal(t, []string{d.ID}, idsOf(set.Defects()))
			}
		}
		if len(d.Changes) > 0 {
			assert.Empty(t, set.Defects(), "%s is a rule taken away", d.ID)
		}
	}
	assert.Len(t, of, reflect.TypeFor[rules.Seeded]().NumField(), "a switch belongs to nothing")
}

func TestADefectIsASettingAndBringsWhatItNeeds(t *testing.T) {
	with := func(p rules.Protocol, settings ...string) rules.Set {
		s, err := rules.Parse(p, nil, settings)
		require.NoError(t, err)
		return s
	}
	shrinks := rules.Of(rules.KIP966)
	shrinks.Defect.LocalShrink = true
	assert.Equal(t, shrinks, with(rules.KIP966, "defect=Z11"))
	assert.Equal(t, rules.Of(rules.KIP966), with(rules.KIP966, "defect=Z11", "defect=none"))
	assert.Equal(t, rules.OnFetch, with(rules.KIP966, "defect=Z14").Truncation)
	assert.Equal(t, rules.ZK, with(rules.KIP320, "defect=Z24").Registration)
	assert.Equal(t, with(rules.KIP966, "truncation=kip101"), with(rules.KIP966, "defect=Z2"))
	assert.Equal(t, "defect=Z11", shrinks.Settings()[0])

	for settings, want := range map[string]string{
		"defect=Z99": `unknown defect "Z99": there are Z1, Z2`,
		"defect=Z34": "defect Z34 is not seeded: costs availability only",
		"defect=Z32": "defect Z32 is the control and changes no rule: set unclean.leader.election.enable=true",
		"defect=Z24": "elr with zk registration",
	} {
		_, err := rules.Parse(rules.KIP966, nil, []string{settings})
		assert.ErrorContains(t, err, want)
	}
}

func idsOf(defects []rules.Defect) []string {
	var ids []string
	for _, d := range defects {
		ids = append(ids, d.ID)
	}
	return ids
}
