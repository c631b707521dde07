package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// InitProducerId (key 22): an identity for an idempotent producer (KIP-98).
//
// Behaviour:
//   - Every request gets a new id, also one that names the id it had: without a transactional id Kafka does the same, since
//     a new id is as good as a new epoch.
//   - A broker that is no member of the cluster yet has no ids to give: COORDINATOR_LOAD_IN_PROGRESS, as Kafka answers until
//     the controller has given it a block of them. Clients try again.
//   - A transactional id is refused with INVALID_REQUEST. Clients do not come that far: they look for a coordinator first,
//     and FindCoordinator is not offered.
//
// Versions: 0-4.
//   - v2: flexible
//   - v3: the current id and epoch (KIP-360)
//   - v4: PRODUCER_FENCED, which only transactions have
const (
	initProducerIDKey = 22
	initProducerIDMax = 4
)

func initProducerIDHandler(next func() (id int64, epoch int16)) handler {
	return handler{
		key: initProducerIDKey, max: initProducerIDMax,
		empty: func() kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() },
		start: func(_ header, req kmsg.Request) (work, error) {
			r := req.(*kmsg.InitProducerIDRequest)
			resp := r.ResponseKind().(*kmsg.InitProducerIDResponse)
			if r.TransactionalID != nil {
				resp.ErrorCode = int16(replica.InvalidRequest)
				resp.ProducerID, resp.ProducerEpoch = replica.NoProducer, -1
			} else if resp.ProducerID, resp.ProducerEpoch = next(); resp.ProducerID == replica.NoProducer {
				resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
			}
			return finished(resp), nil
		},
	}
}
