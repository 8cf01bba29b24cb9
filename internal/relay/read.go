package relay

import (
	"context"
	"errors"

	"mcp-gateway/internal/downstream"
	"mcp-gateway/internal/upstream"
	"mcp-gateway/internal/wire"
)

// readResource brings a read to the server that the URI belongs to. One that nobody lists and no
// template covers is tried at each server with resources, in order of their names.
func (r *Relay) readResource(ctx context.Context, x *downstream.Exchange, t *table) {
	uri, ok := wire.String(x.Msg.URI)
	if !ok {
		r.fail(ctx, x, wire.CodeInvalidParams, `resources/read needs params with a string "uri"`)
		return
	}
	server, own, known := t.resource(uri)
	if !known {
		r.tryAll(ctx, x, t, uri)
		return
	}
	params := x.Msg.Params
	if own != uri {
		params = wire.Edit(params, wire.Change{Key: "uri", Value: wire.Quote(own)})
	}
	r.forward(ctx, x, t.members[server], params)
}

// tryAll asks each server with resources for a URI until one has it; the last one's error is the
// answer.
func (r *Relay) tryAll(ctx context.Context, x *downstream.Exchange, t *table, uri string) {
	var with []*member
	for _, l := range t.listings {
		if l.has("resources") {
			with = append(with, l.member)
		}
	}
	if len(with) == 0 {
		r.fail(ctx, x, notFoundCode(x), "resource %.200q not found: no server has resources", uri)
		return
	}
	r.aside(ctx, x, func(ctx context.Context) {
		var refused []byte
		for _, m := range with {
			var result []byte
			if result, refused = r.try(ctx, x, r.linkFor(x, m)); refused == nil {
				x.Result(result)
				return
			}
			if ctx.Err() != nil {
				return // nobody waits any more
			}
		}
		x.FailRaw(refused)
	})
}

// try sends the exchange's request to one of several servers that may know the answer.
func (r *Relay) try(ctx context.Context, x *downstream.Exchange, l *link) (result, refused []byte) {
	c, err := l.server.Conn(ctx)
	if err != nil {
		return nil, serverError(l.m.Name, err).Object()
	}
	result, err = upstream.Ask(ctx, c, x.Msg.Method, l.outgoing(x, x.Msg.Params))
	var own *upstream.ResponseError
	switch {
	case err == nil:
		return l.resultFor(x, result), nil
	case errors.As(err, &own):
		return nil, l.errorFor(x, own.Object)
	}
	return nil, serverError(l.m.Name, err).Object()
}

// aside runs f beside the exchange's own goroutine, which writes to the client and sees it leave.
func (r *Relay) aside(ctx context.Context, x *downstream.Exchange, f func(ctx context.Context)) {
	inner, cancel := context.WithCancel(r.ctx)
	x.OnAbandon(cancel)
	started := r.background.start(func() {
		defer cancel()
		f(inner)
	})
	if !started {
		cancel()
		x.Fail(&wire.Error{Code: wire.CodeInternal, Message: errStopping.Error()})
	}
	if err := x.Wait(ctx); err != nil && !errors.Is(err, downstream.ErrParked) {
		cancel()
	}
}

// notFoundCode is the code for a resource that is not there: 2026-07-28 has given up -32002.
func notFoundCode(x *downstream.Exchange) int {
	if x.Modern() {
		return wire.CodeInvalidParams
	}
	return wire.CodeNotFound
}

// complete brings a completion to the server of the prompt or resource that it is about.
func (r *Relay) complete(ctx context.Context, x *downstream.Exchange, t *table) {
	ref := wire.Get(x.Msg.Params, "ref")
	kind, _ := wire.GetString(ref, "type")
	switch kind {
	case "ref/prompt":
		name, _ := wire.GetString(ref, "name")
		if route := t.prompts[name]; route != nil {
			r.forward(ctx, x, route.member, editRef(x, ref, "name", route.name, name))
			return
		}
	case "ref/resource":
		uri, _ := wire.GetString(ref, "uri")
		for _, route := range t.templates {
			if route.exposed == uri {
				r.forward(ctx, x, route.member, editRef(x, ref, "uri", route.name, uri))
				return
			}
		}
		if server, own, known := t.resource(uri); known {
			r.forward(ctx, x, t.members[server], editRef(x, ref, "uri", own, uri))
			return
		}
	}
	if m := t.only("completions"); m != nil {
		r.forward(ctx, x, m, x.Msg.Params) // its own error says it best
		return
	}
	if !t.capable("completions") {
		r.notFound(ctx, x)
		return
	}
	r.fail(ctx, x, wire.CodeInvalidParams, "completion/complete: no prompt or resource fits the reference %.200s", ref)
}

func editRef(x *downstream.Exchange, ref []byte, key, own, exposed string) []byte {
	if own == exposed {
		return x.Msg.Params
	}
	return wire.Edit(x.Msg.Params, wire.Change{Key: "ref", Value: wire.Edit(ref, wire.Change{Key: key, Value: wire.Quote(own)})})
}
