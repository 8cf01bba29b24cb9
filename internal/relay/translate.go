package relay

import (
	"bytes"
	"fmt"
	"strconv"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// metaPrefix begins the keys of _meta that belong to the protocol.
var metaPrefix = []byte("io.modelcontextprotocol/")

// modernMeta are those that only requests of 2026-07-28 have.
var modernMeta = []string{downstream.MetaVersion, downstream.MetaCapabilities, downstream.MetaClientInfo, downstream.MetaLogLevel}

// outgoing makes a request's params fit the server's era.
func (l *link) outgoing(x *downstream.Exchange, params []byte) []byte {
	switch {
	case x.Modern() && !l.modern.Load():
		return toLegacy(params)
	case !x.Modern() && l.modern.Load():
		changes := []wire.Change{
			{Key: downstream.MetaVersion, Value: wire.Quote(upstream.Modern)},
			{Key: downstream.MetaClientInfo, Value: orEmpty(x.Session.ClientInfo, l.r.identity().ClientInfo)},
			{Key: downstream.MetaCapabilities, Value: orEmpty(x.Session.Capabilities, []byte("{}"))},
		}
		if n := stateOf(x.Session).rank(); n >= 0 { // there is no logging/setLevel any more
			changes = append(changes, wire.Change{Key: downstream.MetaLogLevel, Value: wire.Quote(levels[n])})
		}
		return wire.Edit(params, wire.Change{Key: "_meta", Value: wire.Edit(wire.Get(params, "_meta"), changes...)})
	}
	return params
}

func orEmpty(v, otherwise []byte) []byte {
	if wire.Kind(v) != '{' {
		return otherwise
	}
	return v
}

// toLegacy takes out what only 2026-07-28 has.
func toLegacy(params []byte) []byte {
	changes := []wire.Change{{Key: "requestState"}, {Key: "inputResponses"}}
	if meta := wire.Get(params, "_meta"); bytes.Contains(meta, metaPrefix) {
		var drop []wire.Change
		for _, key := range modernMeta {
			drop = append(drop, wire.Change{Key: key})
		}
		change := wire.Change{Key: "_meta"}
		if left := wire.Edit(meta, drop...); !isEmpty(left) {
			change.Value = left
		}
		changes = append(changes, change)
	}
	return wire.Edit(params, changes...)
}

// isEmpty tells an object without members.
func isEmpty(object []byte) bool {
	for range wire.Members(object) {
		return false
	}
	return true
}

// cacheable are the methods whose results carry ttlMs and cacheScope in 2026-07-28.
func cacheable(method string) bool { return method == "resources/read" }

// renames tells whether a result may hold URIs to be exchanged.
func (l *link) renames(x *downstream.Exchange, result []byte) bool {
	return l.r.tables[era(x)].Load().mayRename(l.m.Name, x.Msg.Method, result)
}

// incoming makes a response fit the client's era and exchanges URIs that are exposed under others.
func (l *link) incoming(x *downstream.Exchange, m wire.Msg) {
	if result := l.urlInput(x, m.Err); result != nil {
		x.Result(result)
		return
	}
	if m.Err != nil {
		x.FailRaw(l.errorFor(x, m.Err))
		return
	}
	x.Result(l.resultFor(x, m.Result))
}

// errorFor exchanges a code that the client's era does not have. 2026-07-28 has given up some of the older
// ones, and keeps a range for its own, of which a client of the older revisions knows none.
func (l *link) errorFor(x *downstream.Exchange, object []byte) []byte {
	if x.Modern() == l.modern.Load() {
		return object
	}
	code, err := strconv.Atoi(string(wire.Get(object, "code")))
	if err != nil {
		return object
	}
	other := code
	switch {
	case x.Modern():
		switch code {
		case wire.CodeNotFound:
			other = wire.CodeInvalidParams
		case wire.CodeURLElicitation: // the client cannot be asked, see urlInput
			other = wire.CodeMissingCapability
			object = wire.Edit(object, wire.Change{Key: "data", Value: []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)})
		}
	case code == wire.CodeInvalidParams && x.Msg.Method == "resources/read" && wire.Get(wire.Get(object, "data"), "uri") != nil:
		other = wire.CodeNotFound
	case code == wire.CodeMissingCapability: // as for a request that is not made as a task and must be
		other = wire.CodeInvalidRequest
	case code == wire.CodeHeaderMismatch || code == wire.CodeUnsupportedVersion: // between us and the server
		other = wire.CodeInternal
	}
	if other == code {
		return object
	}
	return wire.Edit(object, wire.Change{Key: "code", Value: strconv.AppendInt(nil, int64(other), 10)})
}

// urlInput turns the error of 2025-11-25 that wants elicitations by URL before the request is made again
// into the answer of 2026-07-28 that does; nil where it is not that, or the client cannot be asked.
func (l *link) urlInput(x *downstream.Exchange, object []byte) []byte {
	if object == nil || !x.Modern() || l.modern.Load() || !holdable(x.Msg.Method) || string(wire.Get(object, "code")) != strconv.Itoa(wire.CodeURLElicitation) {
		return nil
	}
	var requests []byte
	number := 0
	capabilities := wire.Get(x.Msg.Meta, downstream.MetaCapabilities)
	for e := range wire.Elements(wire.Get(wire.Get(object, "data"), "elicitations")) {
		params := wire.Edit(e, wire.Change{Key: "mode", Value: []byte(`"url"`)}, wire.Change{Key: "elicitationId"})
		if lacking(capabilities, "elicitation", wire.Msg{Method: "elicitation/create", Params: params}) != nil {
			return nil
		}
		number++
		requests = wire.Edit(requests, wire.Change{
			Key: fmt.Sprint("url-", number), Value: fmt.Appendf(nil, `{"method":"elicitation/create","params":%s}`, params),
		})
	}
	if requests == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":%s}`, requests)
}

func (l *link) resultFor(x *downstream.Exchange, result []byte) []byte {
	if l.renames(x, result) {
		result = l.r.tables[era(x)].Load().exposeLinks(l.m.Name, x.Msg.Method, result)
	}
	if x.Modern() && !l.modern.Load() && wire.Kind(result) == '{' {
		var add []wire.Change
		if wire.Get(result, "resultType") == nil {
			add = append(add, wire.Change{Key: "resultType", Value: []byte(`"complete"`)})
		}
		if cacheable(x.Msg.Method) {
			add = append(add, wire.Change{Key: "ttlMs", Value: []byte("0")}, wire.Change{Key: "cacheScope", Value: []byte(`"private"`)})
		}
		result = wire.Edit(result, add...)
	}
	return result
}
