package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions (key 18): what the listener speaks.
//
// Behaviour:
//   - The list is the same whatever protocol rules are in force: those choose versions between brokers only.
//   - A version newer than ours is answered in version 0 with UNSUPPORTED_VERSION and the range of this API, upon which the
//     client asks again (KIP-511). The response's header has no tagged fields in any version.
//
// Versions: 0-4.
//   - v1: throttle time
//   - v3: flexible; the client's name and version
//   - v4: no change for us (features whose least version is 0)
const (
	apiVersionsKey = 18
	apiVersionsMax = 4
)

// apiVersions makes the handler that tells of the others and of itself.
func apiVersions(others []handler) handler {
	self := handler{key: apiVersionsKey, max: apiVersionsMax, empty: func() kmsg.Request { return kmsg.NewPtrApiVersionsRequest() }}
	offered := slices.SortedFunc(slices.Values(append(others[:len(others):len(others)], self)),
		func(a, b handler) int { return cmp.Compare(a.key, b.key) })
	var keys []kmsg.ApiVersionsResponseApiKey
	for _, h := range offered {
		keys = append(keys, apiKey(h.key, h.min, h.max))
	}
	self.start = func(_ header, req kmsg.Request) (work, error) {
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		resp.ApiKeys = keys
		return finished(resp), nil
	}
	return self
}

func apiKey(key, least, most int16) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = key, least, most
	return k
}

func unsupportedAPIVersions() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, apiKey(apiVersionsKey, 0, apiVersionsMax))
	return resp
}
