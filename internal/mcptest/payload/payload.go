// Package payload holds the exact JSON texts that the fake server sends, so that a test can
// compare what arrives at a client with what left the server, byte for byte.
package payload

// RichResult is the result of the tool "rich": every kind of content and one that no revision
// knows, unknown fields on every level, an integer of 20 digits, and keys in an order that no
// encoder would choose.
const RichResult = `{"zeta":{"b":1,"a":[]},"structuredContent":{"z":12345678901234567890,"a":1.0,"m":-0.0,"e":1E+2},` +
	`"content":[` +
	`{"text":"<b>&amp;</b> ≤ \u2028 \ud83c\udf89","type":"text","annotations":{"priority":0,"audience":["user"],"vendor":null}},` +
	`{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo=","width":1},` +
	`{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="},` +
	`{"type":"resource_link","uri":"fake://text/1","name":"one","size":12345678901234567890},` +
	`{"type":"resource","resource":{"uri":"fake://text/1","mimeType":"text/plain","text":""}},` +
	`{"type":"resource","resource":{"uri":"fake://blob","blob":"AAECAw=="}},` +
	`{"type":"hologram","frames":[1,2.50,3e0],"x-unknown":true}],` +
	`"isError":false,"_meta":{"example.com/trace":{"id":98765432109876543210}},"futureField":[null,{"k":"v"}]}`

// ContentResult is the result of the tool "content": every kind of content that the typed
// clients know, and nothing else.
const ContentResult = `{"content":[` +
	`{"type":"text","text":"plain"},` +
	`{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="},` +
	`{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="},` +
	`{"type":"resource_link","uri":"fake://text/1","name":"one"},` +
	`{"type":"resource","resource":{"uri":"fake://text/1","mimeType":"text/plain","text":"embedded"}}]}`

// RichTool is the definition of the tool "rich": every optional field and unknown ones.
const RichTool = `{"vendorField":{"z":1,"a":12345678901234567890},"name":"rich","title":"Rich","description":"Every kind of content.",` +
	`"inputSchema":{"type":"object","properties":{},"$comment":"kept"},` +
	`"outputSchema":{"type":"object","additionalProperties":true},` +
	`"annotations":{"title":"Rich","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false,"vendorHint":1},` +
	`"icons":[{"src":"data:image/png;base64,iVBORw0KGgo=","mimeType":"image/png","sizes":["1x1"],"vendor":"x"}],` +
	`"execution":{"taskSupport":"forbidden"},"_meta":{"example.com/n":1.0}}`

// ErrorAnswer is the JSON-RPC error of the tool "error".
const ErrorAnswer = `{"code":-32050,"message":"the tool \"error\" always answers like this","data":{"z":12345678901234567890,"a":[1.0,null]},"vendor":true}`

// OddTools are definitions that broke gateways or clients in the field; the flag -odd-schemas
// lists them beside the normal tools. The key is the tool's name.
var OddTools = map[string]string{
	"root_one_of":      `{"name":"root_one_of","inputSchema":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}}`,
	"refs":             `{"name":"refs","inputSchema":{"type":"object","$defs":{"leaf":{"type":"string"},"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"},"leaf":{"$ref":"#/$defs/leaf"}}}},"properties":{"root":{"$ref":"#/$defs/node"}}}}`,
	"dangling_output":  `{"name":"dangling_output","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/missing"}}}}`,
	"no_properties":    `{"name":"no_properties","inputSchema":{"type":"object"}}`,
	"null_schema":      `{"name":"null_schema","inputSchema":null}`,
	"no_schema":        `{"name":"no_schema"}`,
	"invalid_type":     `{"name":"invalid_type","inputSchema":{"type":"objekt"}}`,
	"additional":       `{"name":"additional","inputSchema":{"type":"object","additionalProperties":{}}}`,
	"additional_typed": `{"name":"additional_typed","inputSchema":{"type":"object","additionalProperties":{"type":"string"}}}`,
}
