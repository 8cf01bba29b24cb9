package control

import _ "embed"

// description is the API as an OpenAPI 3.1 document.
//
//go:embed openapi.json
var description []byte
