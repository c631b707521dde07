package tidemark_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark"
)

func TestOrdinaryClientsWorkAgainstUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := tidemark.Up(ctx, tidemark.RunConfig{Root: t.TempDir(), Topics: []string{"orders:4:3"}}, func(bootstrap []string, _ string) {
		defer cancel()
		for partition, client := range []struct {
			name    string
			produce func(t *testing.T, bootstrap []string, partition int, values []string)
			consume func(t *testing.T, bootstrap []string, partition int, values int) []string
		}{
			{"franz-go, idempotent", franzProduce(), franzConsume},
			{"franz-go, not idempotent", franzProduce(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks())), franzConsume},
			{"kcat, idempotent", kcatProduce("enable.idempotence=true"), kcatConsume},
			{"kcat, not idempotent", kcatProduce("acks=all"), kcatConsume},
		} {
			t.Run(client.name, func(t *testing.T) {
				var values []string
				for i := range 100 {
					values = append(values, fmt.Sprintf("%s %d", client.name, i))
				}
				client.produce(t, bootstrap, partition, values)
				assert.Equal(t, values, client.consume(t, bootstrap, partition, len(values)))
			})
		}
	})
	require.NoError(t, err)
}

func franzProduce(options ...kgo.Opt) func(*testing.T, []string, int, []string) {
	return func(t *testing.T, bootstrap []string, partition int, values []string) {
		cl, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		require.NoError(t, err)
		defer cl.Close()
		var records []*kgo.Record
		for _, v := range values {
			records = append(records, &kgo.Record{Topic: "orders", Partition: int32(partition), Value: []byte(v)})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, cl.ProduceSync(ctx, records...).FirstErr())
	}
}

func franzConsume(t *testing.T, bootstrap []string, partition, values int) []string {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {int32(partition): kgo.NewOffset().AtStart()}}))
	require.NoError(t, err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for len(got) < values {
		fetches := cl.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	return got
}

// kcat runs kcat, a client over librdkafka, with something on its standard input.
func kcat(t *testing.T, input string, args ...string) string {
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Skip("kcat is not installed")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(input)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &errs)
	return string(out)
}

func kcatProduce(setting string) func(*testing.T, []string, int, []string) {
	return func(t *testing.T, bootstrap []string, partition int, values []string) {
		kcat(t, strings.Join(values, "\n"), "-P", "-b", strings.Join(bootstrap, ","), "-t", "orders", "-p", fmt.Sprint(partition), "-X", setting)
	}
}

func kcatConsume(t *testing.T, bootstrap []string, partition, _ int) []string {
	out := kcat(t, "", "-C", "-q", "-e", "-b", strings.Join(bootstrap, ","), "-t", "orders", "-p", fmt.Sprint(partition), "-o", "beginning")
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

func TestUpServesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := t.TempDir()
	var addresses []string
	err := tidemark.Up(ctx, tidemark.RunConfig{Root: root, Brokers: 2}, func(bootstrap []string, folder string) {
		addresses = bootstrap
		assert.Equal(t, root, filepath.Dir(folder))
		assert.Len(t, processesIn(t, folder), 3)
		cancel()
	})
	require.NoError(t, err)
	assert.Len(t, addresses, 2)
	assert.Empty(t, processesIn(t, root))
}
