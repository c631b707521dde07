package workload

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/checker/history"
	"tidemark/node/kafka"
)

func TestTheMarkIsTheOneThatBrokersWrite(t *testing.T) {
	assert.Equal(t, kafka.RefusedBeforeAppend, refusedBeforeAppend)
}

const (
	ok      = history.OK
	failed  = history.Fail
	unknown = history.Info
)

func TestWhatAnErrorSaysOfAProduce(t *testing.T) {
	marked := kmsg.StringPtr(kafka.RefusedBeforeAppend + ": somebody else leads")
	other := kmsg.StringPtr("somebody else leads")
	for _, tc := range []struct {
		code        *kerr.Error
		all, leader history.Kind // with acks=all and acks=1, without the mark
	}{
		{kerr.UnknownServerError, unknown, unknown},
		{kerr.OffsetOutOfRange, unknown, unknown},
		{kerr.CorruptMessage, failed, failed},
		{kerr.UnknownTopicOrPartition, unknown, failed},
		{kerr.LeaderNotAvailable, unknown, unknown},
		{kerr.NotLeaderForPartition, unknown, failed},
		{kerr.RequestTimedOut, unknown, unknown},
		{kerr.MessageTooLarge, failed, failed},
		{kerr.NetworkException, unknown, unknown},
		{kerr.InvalidTopicException, failed, failed},
		{kerr.RecordListTooLarge, failed, failed},
		{kerr.NotEnoughReplicas, failed, failed},
		{kerr.NotEnoughReplicasAfterAppend, unknown, unknown},
		{kerr.InvalidRequiredAcks, failed, failed},
		{kerr.TopicAuthorizationFailed, failed, failed},
		{kerr.ClusterAuthorizationFailed, failed, failed},
		{kerr.InvalidTimestamp, failed, failed},
		{kerr.UnsupportedVersion, failed, failed},
		{kerr.InvalidRequest, failed, failed},
		{kerr.UnsupportedForMessageFormat, failed, failed},
		{kerr.PolicyViolation, failed, failed},
		{kerr.OutOfOrderSequenceNumber, unknown, unknown},
		{kerr.DuplicateSequenceNumber, unknown, unknown},
		{kerr.KafkaStorageError, unknown, unknown},
		{kerr.FencedLeaderEpoch, unknown, unknown},
		{kerr.UnknownLeaderEpoch, unknown, unknown},
		{kerr.UnsupportedCompressionType, failed, failed},
		{kerr.InvalidRecord, failed, failed},
		{&kerr.Error{Message: "error code 999", Code: 999}, unknown, unknown},
	} {
		t.Run(tc.code.Message, func(t *testing.T) {
			answer := func(message *string, acks int16) Answer {
				p := kmsg.NewProduceResponseTopicPartition()
				p.ErrorCode, p.ErrorMessage, p.BaseOffset = tc.code.Code, message, -1
				return produced(&p, acks)
			}
			assert.Equal(t, tc.all, answer(nil, -1).Kind, "acks=all")
			assert.Equal(t, tc.leader, answer(nil, 1).Kind, "acks=1")
			assert.Equal(t, tc.all, answer(other, -1).Kind, "a message that says something else")
			assert.Equal(t, failed, answer(marked, -1).Kind, "the broker says so")
			assert.Contains(t, answer(marked, -1).Error, ", refused before append")
			assert.Equal(t, codeName(tc.code.Code), answer(nil, -1).Error)
		})
	}
	assert.Equal(t, "NOT_LEADER_OR_FOLLOWER", codeName(6), "not its old name")
}

// onlyAsk answers every request but the question for versions as f says.
func onlyAsk(f func(p *peer, r *request)) func(*peer) {
	return func(p *peer) {
		if !p.greet(nil) {
			return
		}
		if r := p.next(); r != nil {
			f(p, r)
		}
	}
}

// hang waits until the client goes away.
func hang(p *peer) {
	for p.next() != nil {
	}
}

// What became of an operation, by what became of its connection: each case for a produce, a fetch and an end.
func TestOutcomesOfAttempts(t *testing.T) {
	type outcome struct {
		kind  history.Kind
		error string
	}
	okAll := outcome{ok, ""}
	for _, tc := range []struct {
		name                string
		dial                func(ctx context.Context, node int32) error
		serve               func(p *peer)
		produce, fetch, end outcome
		takes               time.Duration
		keeps               bool // the connection
	}{
		{name: "an answer", serve: onlyAsk(func(p *peer, r *request) { p.answer(r, r.respond(0, nil)); hang(p) }),
			produce: okAll, fetch: okAll, end: okAll, keeps: true},
		{name: "an answer that is late but in time",
			serve: onlyAsk(func(p *peer, r *request) {
				time.Sleep(1900 * time.Millisecond)
				p.answer(r, r.respond(0, nil))
				hang(p)
			}),
			produce: okAll, fetch: okAll, end: okAll, takes: 1900 * time.Millisecond, keeps: true},
		{name: "an error", serve: onlyAsk(func(p *peer, r *request) { p.answer(r, r.respond(6, nil)); hang(p) }),
			produce: outcome{unknown, "NOT_LEADER_OR_FOLLOWER"}, fetch: outcome{failed, "NOT_LEADER_OR_FOLLOWER"},
			end: outcome{failed, "NOT_LEADER_OR_FOLLOWER"}, keeps: true},
		{name: "an error with the mark", serve: onlyAsk(func(p *peer, r *request) {
			p.answer(r, r.respond(6, kmsg.StringPtr("refused before append: NOT_LEADER_OR_FOLLOWER")))
			hang(p)
		}),
			produce: outcome{failed, "NOT_LEADER_OR_FOLLOWER, refused before append"}, fetch: outcome{failed, "NOT_LEADER_OR_FOLLOWER"},
			end: outcome{failed, "NOT_LEADER_OR_FOLLOWER"}, keeps: true},
		{name: "no connection", dial: func(context.Context, int32) error { return errRefused },
			produce: outcome{failed, "cannot connect"}, fetch: outcome{failed, "cannot connect"}, end: outcome{failed, "cannot connect"}},
		{name: "a connection that is not accepted in time",
			dial:    func(ctx context.Context, _ int32) error { <-ctx.Done(); return ctx.Err() },
			produce: outcome{failed, "cannot connect"}, fetch: outcome{failed, "cannot connect"}, end: outcome{failed, "cannot connect"},
			takes: 2 * time.Second},
		{name: "closed before anything is said", serve: func(*peer) {},
			produce: outcome{failed, "cannot connect"}, fetch: outcome{failed, "cannot connect"}, end: outcome{failed, "cannot connect"}},
		{name: "silent when asked for versions", serve: hang,
			produce: outcome{failed, "cannot connect"}, fetch: outcome{failed, "cannot connect"}, end: outcome{failed, "cannot connect"},
			takes: 2 * time.Second},
		{name: "too new for us",
			serve:   func(p *peer) { p.greet(offers{0: {13, 13}, 1: {13, 17}, 2: {10, 10}}) },
			produce: outcome{failed, "cannot connect"}, fetch: outcome{failed, "cannot connect"}, end: outcome{failed, "cannot connect"}},
		{name: "closed before the request", serve: func(p *peer) { p.greet(nil) },
			produce: outcome{failed, "connection lost"}, fetch: outcome{failed, "connection lost"}, end: outcome{failed, "connection lost"}},
		{name: "not reading the request", serve: func(p *peer) {
			p.greet(nil)
			p.stuck()
		},
			produce: outcome{failed, "timeout"}, fetch: outcome{failed, "timeout"}, end: outcome{failed, "timeout"}, takes: 2 * time.Second},
		{name: "closed within the request", serve: func(p *peer) {
			p.greet(nil)
			_, _ = p.Read(make([]byte, 5))
		},
			produce: outcome{unknown, "connection lost"}, fetch: outcome{unknown, "connection lost"}, end: outcome{unknown, "connection lost"}},
		{name: "stuck within the request", serve: func(p *peer) {
			p.greet(nil)
			_, _ = p.Read(make([]byte, 5))
			p.stuck()
		},
			produce: outcome{unknown, "timeout"}, fetch: outcome{unknown, "timeout"}, end: outcome{unknown, "timeout"}, takes: 2 * time.Second},
		{name: "closed after the request", serve: onlyAsk(func(*peer, *request) {}),
			produce: outcome{unknown, "connection lost"}, fetch: outcome{unknown, "connection lost"}, end: outcome{unknown, "connection lost"}},
		{name: "no answer", serve: onlyAsk(func(p *peer, _ *request) { hang(p) }),
			produce: outcome{unknown, "timeout"}, fetch: outcome{unknown, "timeout"}, end: outcome{unknown, "timeout"}, takes: 2 * time.Second},
		{name: "closed within the answer", serve: onlyAsk(func(p *peer, r *request) {
			frame := r.frame(r.respond(0, nil))
			_, _ = p.Write(frame[:len(frame)-1])
		}),
			produce: outcome{unknown, "connection lost"}, fetch: outcome{unknown, "connection lost"}, end: outcome{unknown, "connection lost"}},
		{name: "stuck within the answer", serve: onlyAsk(func(p *peer, r *request) {
			_, _ = p.Write(r.frame(r.respond(0, nil))[:9])
			hang(p)
		}),
			produce: outcome{unknown, "timeout"}, fetch: outcome{unknown, "timeout"}, end: outcome{unknown, "timeout"}, takes: 2 * time.Second},
		{name: "the answer to something else", serve: onlyAsk(func(p *peer, r *request) {
			r.correlation++
			p.answer(r, r.respond(0, nil))
		}),
			produce: outcome{unknown, "malformed answer"}, fetch: outcome{unknown, "malformed answer"}, end: outcome{unknown, "malformed answer"}},
		{name: "an answer that breaks off in its frame", serve: onlyAsk(func(p *peer, r *request) {
			_, _ = p.Write(append([]byte{0, 0, 0, 7}, r.frame(r.respond(0, nil))[4:11]...))
		}),
			produce: outcome{unknown, "malformed answer"}, fetch: outcome{unknown, "malformed answer"}, end: outcome{unknown, "malformed answer"}},
		{name: "not Kafka", serve: onlyAsk(func(p *peer, r *request) { _, _ = p.Write([]byte("HTTP/1.1 400 Bad Request\r\n")) }),
			produce: outcome{unknown, "malformed answer"}, fetch: outcome{unknown, "malformed answer"}, end: outcome{unknown, "malformed answer"}},
		{name: "an answer about another partition", serve: onlyAsk(func(p *peer, r *request) {
			switch req := r.Request.(type) {
			case *kmsg.ProduceRequest:
				req.Topics[0].Partitions[0].Partition = 9
			case *kmsg.FetchRequest:
				req.Topics[0].Partitions[0].Partition = 9
			case *kmsg.ListOffsetsRequest:
				req.Topics[0].Topic = "others"
			}
			p.answer(r, r.respond(0, nil))
		}),
			produce: outcome{unknown, "malformed answer"}, fetch: outcome{unknown, "malformed answer"}, end: outcome{unknown, "malformed answer"}},
	} {
		for _, op := range []struct {
			Operation
			want outcome
		}{
			{Operation{Type: history.Produce, Values: []string{"a0"}}, tc.produce},
			{Operation{Type: history.Fetch, From: 1}, tc.fetch},
			{Operation{Type: history.End}, tc.end},
		} {
			t.Run(fmt.Sprintf("%s, %s", tc.name, op.Type), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, dial: tc.dial, serve: tc.serve, over: t.Context().Done()})
					defer cl.close()
					start := time.Now()
					a, _ := cl.do(&op.Operation, 1)
					assert.Equal(t, op.want, outcome{a.Kind, a.Error})
					assert.Equal(t, tc.takes, time.Since(start))
					assert.Equal(t, tc.keeps, cl.conns[1] != nil, "connection is kept")
				})
			})
		}
	}
}

func TestAnswersAreTakenAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, serve: func(p *peer) {
			p.greet(nil)
			for r := p.next(); r != nil; r = p.next() {
				assert.Equal(t, "tidemark-p4", r.client)
				p.answer(r, r.respond(0, nil))
			}
		}})
		defer cl.close()
		a, stale := cl.do(&Operation{Type: history.Produce, Values: []string{"a0"}}, 1)
		assert.Equal(t, Answer{Kind: ok, Offset: 2}, a)
		assert.False(t, stale)
		a, _ = cl.do(&Operation{Type: history.End}, 1)
		assert.Equal(t, Answer{Kind: ok, Offset: 2}, a)
		a, _ = cl.do(&Operation{Type: history.Fetch, From: 0}, 1)
		assert.Equal(t, Answer{Kind: ok, HighWatermark: 2,
			Records: []history.Record{{Offset: 0, Epoch: -1, Value: "x0"}, {Offset: 1, Epoch: -1, Value: "x1"}}}, a)
		a, _ = cl.do(&Operation{Type: history.Fetch, From: 1}, 1)
		assert.Equal(t, []history.Record{{Offset: 1, Epoch: -1, Value: "x1"}}, a.Records, "what a batch has below the offset is dropped")
		a, _ = cl.do(&Operation{Type: history.Fetch, From: 2}, 1)
		assert.Empty(t, a.Records)
		assert.Equal(t, ok, a.Kind)
	})
}

func TestReadsThatMakeNoSenseFail(t *testing.T) {
	for _, tc := range []struct {
		name  string
		op    Operation
		spoil func(resp kmsg.Response)
		want  string
	}{
		{"a fetch without a high watermark", Operation{Type: history.Fetch},
			func(r kmsg.Response) { r.(*kmsg.FetchResponse).Topics[0].Partitions[0].HighWatermark = -1 }, "no high watermark in the answer"},
		{"a fetch that fails as a whole", Operation{Type: history.Fetch},
			func(r kmsg.Response) { r.(*kmsg.FetchResponse).ErrorCode = 70 }, "FETCH_SESSION_ID_NOT_FOUND"},
		{"a damaged batch", Operation{Type: history.Fetch},
			func(r kmsg.Response) { r.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches[70] ^= 1 }, "corrupt record batch"},
		{"an end without an offset", Operation{Type: history.End},
			func(r kmsg.Response) { r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].Offset = -1 }, "no offset in the answer"},
		{"an offset that is gone", Operation{Type: history.Fetch},
			func(r kmsg.Response) { r.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode = 1 }, "OFFSET_OUT_OF_RANGE"},
		{"an end that is not known yet", Operation{Type: history.End},
			func(r kmsg.Response) { r.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode = 78 }, "OFFSET_NOT_AVAILABLE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, serve: onlyAsk(func(p *peer, r *request) {
					resp := r.respond(0, nil)
					tc.spoil(resp)
					p.answer(r, resp)
				})})
				defer cl.close()
				a, _ := cl.do(&tc.op, 1)
				assert.Equal(t, failed, a.Kind)
				assert.Contains(t, a.Error, tc.want)
				assert.Equal(t, tc.want == "OFFSET_OUT_OF_RANGE", a.OutOfRange)
			})
		})
	}
}

func TestNobodyIsAskedWithoutALeader(t *testing.T) {
	cl := clientOf(t, t.Context(), &scripted{})
	a, stale := cl.do(&Operation{Type: history.End}, nobody)
	assert.Equal(t, Answer{Kind: failed, Error: "no leader known"}, a)
	assert.True(t, stale)
}

func TestACanceledOperationIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cl := clientOf(t, ctx, &scripted{brokers: []int32{1}, serve: onlyAsk(func(p *peer, _ *request) {
			cancel()
			hang(p)
		})})
		defer cl.close()
		start := time.Now()
		a, _ := cl.do(&Operation{Type: history.Produce, Values: []string{"a0"}}, 1)
		assert.Equal(t, Answer{Kind: unknown, Error: "canceled"}, a)
		assert.Zero(t, time.Since(start), "it does not wait for its timeout")
	})
}

func TestVersionsAreTheNewestThatBothKnow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		offer offers
		want  []int16 // Produce, Fetch, ListOffsets
	}{
		{"a broker newer than us", nil, []int16{9, 12, 6}},
		{"a broker of long ago", offers{0: {0, 3}, 1: {0, 4}, 2: {0, 1}}, []int16{3, 4, 1}},
		{"a broker in between", offers{0: {0, 8}, 1: {0, 11}, 2: {0, 5}}, []int16{8, 11, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []int16
				cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, serve: func(p *peer) {
					p.greet(tc.offer)
					for r := p.next(); r != nil; r = p.next() {
						got = append(got, r.GetVersion())
						p.answer(r, r.respond(0, nil))
					}
				}})
				defer cl.close()
				for _, op := range []Operation{{Type: history.Produce, Values: []string{"a0"}}, {Type: history.Fetch}, {Type: history.End}} {
					a, _ := cl.do(&op, 1)
					require.Equal(t, ok, a.Kind, a.Error)
				}
				assert.Equal(t, tc.want, got)
			})
		})
	}
}

func TestAcksZeroHasNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, serve: func(p *peer) {
			p.greet(nil)
			assert.EqualValues(t, 0, p.next().Request.(*kmsg.ProduceRequest).Acks)
			r := p.next()
			p.answer(r, r.respond(0, nil))
			hang(p)
		}}, func(c *Config) { c.Acks = "0" })
		defer cl.close()
		a, _ := cl.do(&Operation{Type: history.Produce, Values: []string{"a0"}}, 1)
		assert.Equal(t, Answer{Kind: ok, Offset: history.Unknown}, a)
		a, _ = cl.do(&Operation{Type: history.End}, 1)
		assert.Equal(t, ok, a.Kind, "the next request's answer is its own")
	})
}

func TestWhatAProduceAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := clientOf(t, t.Context(), &scripted{brokers: []int32{1}, serve: onlyAsk(func(p *peer, r *request) {
			req := r.Request.(*kmsg.ProduceRequest)
			assert.EqualValues(t, -1, req.Acks)
			assert.EqualValues(t, 1000, req.TimeoutMillis)
			var b kmsg.RecordBatch
			assert.NoError(t, b.ReadFrom(req.Topics[0].Partitions[0].Records))
			assert.EqualValues(t, 2, b.NumRecords)
			assert.Contains(t, string(b.Records), "a0......")
			p.answer(r, r.respond(0, nil))
		})}, func(c *Config) { c.ValueSize = 8 })
		defer cl.close()
		a, _ := cl.do(&Operation{Type: history.Produce, Values: []string{"a0", "a1"}}, 1)
		assert.Equal(t, ok, a.Kind)
	})
}
