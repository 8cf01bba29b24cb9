// Package mcpgateway holds what belongs to the module as a whole: the catalogue of known servers.
package mcpgateway

import _ "embed"

// Catalog is the embedded catalogue, in the format that package internal/catalog describes.
//
//go:embed catalog.json
var Catalog []byte
