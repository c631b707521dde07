package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// parse reads a command line as "tidemark node" or "tidemark controller" does.
func parse(add func(*Flags, *pflag.FlagSet), args []string) (*Flags, error) {
	f, fs := &Flags{}, pflag.NewFlagSet("node", pflag.ContinueOnError)
	fs.SetOutput(discard{})
	add(f, fs)
	return f, fs.Parse(args)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

var (
	drawAddress = rapid.StringMatching(`(127\.0\.0\.1|localhost|\[::1\]|node-[a-z]{1,5}):[1-9][0-9]{0,3}`)
	drawIDs     = rapid.SliceOfNDistinct(rapid.Map(rapid.Int32Range(1, 1000), func(n int32) control.NodeID { return control.NodeID(n) }), 1, 5, rapid.ID)
)

// drawRules draws a protocol and changes rules of it, as far as they are not refused.
func drawRules(t *rapid.T) rules.Set {
	s := rules.Of(rapid.SampledFrom(rules.Protocols()).Draw(t, "protocol"))
	words := []string{"truncation=" + rapid.SampledFrom([]string{"hw", "kip101", "kip279"}).Draw(t, "truncation"),
		"registration=" + rapid.SampledFrom([]string{"zk", "kraft"}).Draw(t, "registration")}
	for _, r := range rules.Rules() {
		words = append(words, r.Name+"="+rapid.SampledFrom([]string{"on", "off"}).Draw(t, r.Name))
	}
	for _, w := range words {
		if changed, err := s.With(nil, []string{w}); err == nil && rapid.Bool().Draw(t, "change "+w) {
			s = changed
		}
	}
	return s
}

func drawTopics(t *rapid.T, brokers []control.NodeID) []Topic {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9_][A-Za-z0-9._-]{0,10}`), 0, 3, rapid.ID).Draw(t, "topics")
	var topics []Topic
	for _, name := range names {
		topic := Topic{Name: name}
		for range rapid.IntRange(1, 4).Draw(t, "partitions") {
			n := rapid.IntRange(1, len(brokers)).Draw(t, "replicas")
			topic.Partitions = append(topic.Partitions, rapid.Permutation(brokers).Draw(t, "assignment")[:n])
		}
		topics = append(topics, topic)
	}
	return topics
}

func drawSettings(t *rapid.T) Settings {
	ms := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 1<<30).Draw(t, name)) * time.Millisecond
	}
	return Settings{MinISR: rapid.IntRange(1, 5).Draw(t, "min isr"), Unclean: rapid.Bool().Draw(t, "unclean"), SessionTimeout: ms("session"),
		HeartbeatInterval: ms("heartbeat"), LagMax: ms("lag"), FetchWait: ms("wait"), FetchMaxBytes: rapid.IntRange(1, 1<<30).Draw(t, "bytes"),
		RequestTimeout: ms("request"), Backoff: ms("backoff"), CheckpointInterval: ms("checkpoint"), FlushInterval: ms("flush"),
		SegmentBytes: rapid.Int64Range(1024, 1<<30).Draw(t, "segment")}
}

func drawPeers(t *rapid.T, brokers []control.NodeID) map[control.NodeID]string {
	peers := map[control.NodeID]string{}
	for _, n := range brokers {
		if rapid.Bool().Draw(t, "peer") {
			peers[n] = drawAddress.Draw(t, "address")
		}
	}
	return peers
}

func TestABrokersCommandLineSaysItsWholeConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := drawIDs.Draw(t, "brokers")
		maybe := rapid.OneOf(rapid.Just(""), drawAddress)
		c := BrokerConfig{ID: rapid.SampledFrom(brokers).Draw(t, "id"), Listen: drawAddress.Draw(t, "listen"), Advertise: maybe.Draw(t, "advertise"),
			Controller: drawAddress.Draw(t, "controller"), Peers: drawPeers(t, brokers), Dir: "/data/" + rapid.StringMatching(`[a-z =,+:]{1,10}`).Draw(t, "dir"),
			Control: maybe.Draw(t, "control"), Hold: rapid.Bool().Draw(t, "hold"), NoJournal: rapid.Bool().Draw(t, "no journal"), Rules: drawRules(t), Topics: drawTopics(t, brokers),
			Settings: drawSettings(t), Start: rapid.Int32Range(1, 1000).Draw(t, "start")}
		if rapid.Bool().Draw(t, "power failed") {
			c.PowerCut = map[string]replica.LogCut{}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{EveryLog, "orders-0", "orders-11", "a-b-2"}), rapid.ID).Draw(t, "cuts") {
				c.PowerCut[name] = replica.LogCut{Keep: rapid.IntRange(0, 99).Draw(t, "keep"), Torn: rapid.IntRange(0, 99).Draw(t, "torn")}
			}
		}
		f, err := parse((*Flags).AddBroker, c.Args(brokers))
		require.NoError(t, err)
		require.True(t, f.WithParent, "a node that the harness starts ends with it")
		got, err := f.Broker(nil, nil)
		require.NoError(t, err)
		require.Equal(t, c, got)
	})
}

func TestTheControllersCommandLineSaysItsWholeConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := drawIDs.Draw(t, "brokers")
		c := ControllerConfig{Listen: drawAddress.Draw(t, "listen"), Brokers: brokers, Peers: drawPeers(t, brokers), Dir: "/data",
			Control: rapid.OneOf(rapid.Just(""), drawAddress).Draw(t, "control"), Hold: rapid.Bool().Draw(t, "hold"), NoJournal: rapid.Bool().Draw(t, "no journal"), Rules: drawRules(t),
			Topics: drawTopics(t, brokers), Settings: drawSettings(t)}
		f, err := parse((*Flags).AddController, c.Args())
		require.NoError(t, err)
		got, err := f.ControllerConfig(nil, nil)
		require.NoError(t, err)
		require.Equal(t, c, got)
	})
}

func TestAWrongCommandLineIsRefusedByFlagAndValue(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no folder", []string{"--dir", ""}, "--dir is missing"},
		{"an id that is none", []string{"--id", "0"}, "--id 0: want 1 or more"},
		{"an id that is nobody's", []string{"--id", "4"}, "--id 4: not one of --brokers [1 2 3]"},
		{"a broker twice", []string{"--brokers", "1"}, "--brokers [1 2 3 1]: want different ids"},
		{"a broker that is none", []string{"--brokers", "-2"}, "--brokers [1 2 3 -2]: want different ids of 1 or more"},
		{"an address without a port", []string{"--listen", "localhost"}, `--listen "localhost": want host:port`},
		{"a port that is none", []string{"--listen", "localhost:http"}, `--listen "localhost:http": want host:port`},
		{"a controller without a port", []string{"--controller", "localhost"}, `--controller "localhost": want host:port`},
		{"an advertised port that is too high", []string{"--advertise", "localhost:65536"}, `--advertise "localhost:65536": want host:port`},
		{"a control address that is none", []string{"--control", "here"}, `--control "here": want host:port`},
		{"a peer without an address", []string{"--peer", "2"}, `--peer "2": want ID=host:port`},
		{"a peer without an id", []string{"--peer", "two=localhost:1"}, `--peer "two=localhost:1": want ID=host:port`},
		{"a peer that is nobody", []string{"--peer", "7=localhost:1"}, `--peer "7=localhost:1": broker 7 is not one of --brokers [1 2 3]`},
		{"a peer twice", []string{"--peer", "2=localhost:1", "--peer", "2=localhost:2"}, `--peer "2=localhost:2": broker 2 is given twice`},
		{"a protocol that is none", []string{"--protocol", "kip1"}, `"kip1"`},
		{"a rule that is none", []string{"--without", "fencing"}, `"fencing"`},
		{"a rule with a value that is none", []string{"--rule", "truncation=never"}, "truncation"},
		{"rules that contradict each other", []string{"--protocol", "kip966", "--rule", "registration=zk"}, "elr"},
		{"a defect that is none", []string{"--defect", "Z99", "--control", "localhost:1"}, `unknown defect "Z99": there are Z1`},
		{"a defect that nobody watches", []string{"--defect", "Z11"}, "--defect Z11 without --control: a broken node is for a harness that watches it"},
		{"a rule taken away as a defect that nobody watches", []string{"--defect", "z2"}, "--defect Z2 without --control"},
		{"a defect by another name that nobody watches", []string{"--rule", "defect=Z11"}, "--defect Z11 without --control"},
		{"a topic that is none", []string{"--topic", "orders"}, `topic "orders": want NAME:PARTITIONS:REPLICAS`},
		{"a topic twice", []string{"--topic", "a:1:1", "--topic", "a=1"}, `--topic "a=1": the topic a is given twice`},
		{"a topic on nobody", []string{"--topic", "a=1,9"}, `--topic "a=1,9": replica 9 is not one of --brokers [1 2 3]`},
		{"a setting that is none", []string{"--config", "log.retention.ms=5"}, `unknown setting "log.retention.ms": there are min.insync.replicas`},
		{"a setting without a value", []string{"--config", "min.insync.replicas"}, `setting "min.insync.replicas": want name=value`},
		{"damage that is none", []string{"--damaged", "rust"}, `--damaged "rust": want flip, chop or forget`},
		{"a power cut that is none", []string{"--power-cut", "orders-0"}, `--power-cut "orders-0": want PARTITION=KEEP[+TORN]`},
		{"a power cut of no log", []string{"--power-cut", "orders=1"}, `--power-cut "orders=1": want`},
		{"a power cut by a word", []string{"--power-cut", "orders-0=all"}, `--power-cut "orders-0=all": want`},
		{"a power cut below nothing", []string{"--power-cut", "*=-1"}, `--power-cut "*=-1": want`},
		{"a journal that is neither on nor off", []string{"--journal", "maybe"}, `--journal "maybe": want on or off`},
		{"a start before the first", []string{"--start", "0"}, "--start 0: want 1 or more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := parse((*Flags).AddBroker, append([]string{"--dir", "/data", "--brokers", "1,2,3"}, tc.args...))
			require.NoError(t, err)
			_, err = f.Broker(nil, nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
	f, err := parse((*Flags).AddController, []string{"--brokers", "1,2"})
	require.NoError(t, err)
	_, err = f.ControllerConfig(nil, nil)
	require.ErrorContains(t, err, "--dir is missing")
}

func TestNothingSurvivesAPowerCutOfNone(t *testing.T) {
	f, err := parse((*Flags).AddBroker, []string{"--dir", "/data", "--power-cut", "none"})
	require.NoError(t, err)
	c, err := f.Broker(nil, nil)
	require.NoError(t, err)
	assert.NotNil(t, c.PowerCut, "it failed")
	assert.Empty(t, c.PowerCut, "and left nothing")

	f, err = parse((*Flags).AddBroker, []string{"--dir", "/data"})
	require.NoError(t, err)
	c, err = f.Broker(nil, nil)
	require.NoError(t, err)
	assert.Nil(t, c.PowerCut, "it did not fail")
}

func TestTopicsAreAssignedInTurnOrAsTheyAreWritten(t *testing.T) {
	brokers := []control.NodeID{1, 2, 3}
	for _, tc := range []struct{ text, want string }{
		{"orders:1:3", "orders=1,2,3"},
		{"orders:4:2", "orders=1,2/2,3/3,1/1,2"},
		{"a.b_c-d=3,1/2", "a.b_c-d=3,1/2"},
	} {
		topic, err := ParseTopic(tc.text, brokers)
		require.NoError(t, err)
		assert.Equal(t, tc.want, topic.String())
		again, err := ParseTopic(topic.String(), brokers)
		require.NoError(t, err)
		assert.Equal(t, topic, again)
	}
	for _, tc := range []struct{ text, want string }{
		{"", "want NAME:PARTITIONS:REPLICAS"},
		{"orders:1", "want NAME:PARTITIONS:REPLICAS"},
		{"orders:1:1:1", "want NAME:PARTITIONS:REPLICAS"},
		{"or ders:1:1", `the name "or ders" may have letters`},
		{":1:1", `the name "" may have letters`},
		{"..=1", `the name ".." may have letters`},
		{"../x:1:1", `the name "../x" may have letters`},
		{"orders:0:1", `partitions "0": want a number of 1 or more`},
		{"orders:many:1", `partitions "many"`},
		{"orders:1:-1", `replicas "-1"`},
		{"orders:1:4", "4 replicas need as many brokers, there are 3"},
		{"orders=", `"" is no broker`},
		{"orders=1,0", `"0" is no broker`},
		{"orders=1,2/2,2", `broker 2 stands twice in "2,2"`},
	} {
		_, err := ParseTopic(tc.text, brokers)
		assert.ErrorContains(t, err, fmt.Sprintf("topic %q: ", tc.text))
		assert.ErrorContains(t, err, tc.want, tc.text)
	}
}

func TestSettingsAreReadBackAndWrongValuesRefused(t *testing.T) {
	defaults := Defaults()
	var again Settings
	var names []string
	for _, word := range defaults.Words() {
		require.NoError(t, again.Set(word))
		names = append(names, word)
	}
	require.Equal(t, defaults, again)
	require.Len(t, names, len(slices.Compact(slices.Clone(names))))

	for _, word := range []string{"min.insync.replicas=0", "min.insync.replicas=two", "unclean.leader.election.enable=perhaps",
		"broker.session.timeout.ms=-1", "broker.session.timeout.ms=1s", "replica.fetch.max.bytes=0", "log.segment.bytes=1023",
		"log.segment.bytes=16MiB", "log.flush.interval.ms=99999999999"} {
		s := Defaults()
		assert.ErrorContains(t, s.Set(word), "setting "+word+": want")
		assert.Equal(t, defaults, s, "what is refused changes nothing")
	}
}
