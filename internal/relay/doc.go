// Package relay makes one MCP server of many: it merges their lists into a routing table, brings
// each request to its server and each answer back, and delivers what servers say by themselves. It
// bridges the protocol's two eras: sessions up to 2025-11-25, single requests from 2026-07-28 on.
//
// A tools/call goes through Relay.Serve (serve.go), which finds the server and the tool's own name in
// the table (table.go, names.go), and Relay.send (call.go), which makes a call of it, puts it on the
// server's connection and waits. The call is the sink of what comes back: Progress and Done run in the
// connection's reading goroutine and put bytes on the client's exchange, which Relay.send's goroutine
// writes. Where the client's era is not the server's, translate.go changes the few members that differ.
//
// What a server says by itself arrives at its link: Notified (notify.go) and Asked (asks.go). Whose it
// is, where nothing in the message says so, is decided in owners.go. A client of 2026-07-28 is asked by
// holding its call (held.go), an older client of a server of 2026-07-28 in rounds (rounds.go).
//
// The servers may change at any time (roster.go): roster and table are replaced whole, and a table leads to
// the members themselves, so that a call which has found its way before its server is removed still ends
// well. A server that wants a sign-in is in signin.go, the gateway's own tools in builtin.go.
//
// A link is one line to a server, whatever connection is behind it at the moment: shared by all clients,
// by those of one era, or a session's own (relay.go, session.go). What it must do at each new connection
// is in lists.go and in attend (watch.go).
package relay
