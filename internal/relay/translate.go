package relay

import (
	"bytes"
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
	if m.Err != nil {
		x.FailRaw(l.errorFor(x, m.Err))
		return
	}
	x.Result(l.resultFor(x, m.Result))
}

// errorFor exchanges the code for a resource that is not there, which differs between the eras.
func (l *link) errorFor(x *downstream.Exchange, object []byte) []byte {
	code := string(wire.Get(object, "code"))
	if x.Modern() && !l.modern.Load() && code == strconv.Itoa(wire.CodeNotFound) {
		return wire.Edit(object, wire.Change{Key: "code", Value: strconv.AppendInt(nil, wire.CodeInvalidParams, 10)})
	}
	return object
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
