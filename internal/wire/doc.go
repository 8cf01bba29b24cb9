// Package wire reads and writes JSON-RPC 2.0 messages as the bytes that they are. A gateway relays:
// only what routing needs (id, method, a few members of params) is looked at, all else passes as it
// came, so big integers, key order, unknown fields and odd spellings survive. The package holds no
// state and does no I/O beyond the reader and writer that it is given. It is the only importer of
// jsontext, whose API becomes encoding/json/jsontext of the standard library.
package wire
