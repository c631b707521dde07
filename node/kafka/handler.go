package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/node/replica"
)

// handler is one API as a listener offers it: what an NN_name.go defines.
type handler struct {
	key      int16
	min, max int16
	// empty makes a request to read into.
	empty func() kmsg.Request
	// start is called by the connection's reader, request by request in the order in which they came: it puts core
	// messages in front of cores and does not wait. An error ends the connection.
	start func(h header, req kmsg.Request) (work, error)
	// weight is how many bytes the answer may take, for the connection's bound; nil: none to speak of.
	weight func(req kmsg.Request) int
}

// work is a request that was started.
type work struct {
	// finish waits for the answers and makes the response: nil if Kafka answers nothing (acks=0). Responses are finished
	// in the order of their requests, one at a time. An error ends the connection.
	finish func(ctx context.Context) (kmsg.Response, error)
	// peer says that a broker or the controller asks. Its answers go out as they come, whatever the order, because a core
	// may leave one request unanswered, or waiting, and answer the next.
	peer bool
}

// finished is work that needs nobody else.
func finished(resp kmsg.Response) work {
	return work{finish: func(context.Context) (kmsg.Response, error) { return resp, nil }}
}

// errNoAnswer ends a client's connection over a request that was dropped on its way to the core.
var errNoAnswer = errors.New("a request was dropped on its way")

// part is one core's share of a request.
type part struct {
	request replica.Message
	answer  replica.Body // nil until it is answered; set from the start if no core is to be asked
	why     string       // of a refusal, for people
}

// gathering collects the answers to the parts of one request.
type gathering struct {
	parts []part
	done  chan struct{} // closed when the last answer is there; nobody changes parts after that

	mu   sync.Mutex
	left int // how many answers are missing
}

// refuse answers a part without asking its core.
func (p *part) refuse(code replica.Code, why string) {
	if answer, ok := replica.Refuse(p.request, code); ok {
		p.answer, p.why = answer.Body, why
	}
}

// receiver is the node to which the requests of a listener go.
type receiver struct {
	Deliverer
	self replica.ID
}

// ask delivers the parts and makes work of it that joins their answers.
func (to receiver) ask(peer bool, parts []part, join func([]part) kmsg.Response) work {
	g := to.deliver(parts)
	return work{peer: peer, finish: func(ctx context.Context) (kmsg.Response, error) {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
		return join(g.parts), nil
	}}
}

// deliver puts the parts that have no answer yet in front of their cores, in order.
func (to receiver) deliver(parts []part) *gathering {
	g := &gathering{parts: parts, done: make(chan struct{})}
	open := make([]int, 0, len(parts))
	for i := range parts {
		parts[i].request.To = to.self
		if parts[i].answer == nil {
			open = append(open, i)
		}
	}
	g.left = len(open)
	if len(open) == 0 {
		close(g.done)
	}
	for _, i := range open {
		to.Deliver(parts[i].request, func(answer replica.Message) { g.answered(i, answer.Body) })
	}
	return g
}

func (g *gathering) answered(i int, body replica.Body) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts[i].answer = body
	if g.left--; g.left == 0 {
		close(g.done)
	}
}

// wait returns when every part is answered, with an error if one never will be.
func (g *gathering) wait(ctx context.Context) error {
	select {
	case <-g.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, p := range g.parts {
		if p.answer == nil {
			return fmt.Errorf("%w: %s", errNoAnswer, p.request)
		}
	}
	return nil
}
