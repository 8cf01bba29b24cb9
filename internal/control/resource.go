package control

import (
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// The resources of the control side are those of Docker Sandboxes' MCP gateways, version 1: names in
// lowerCamelCase, times in RFC 3339, errors as {code, message, details}. What goes beyond that model says so.

// GatewayState is how far a gateway has come.
type GatewayState string

// The states of a gateway resource. One that was stopped, or was never started, is not found instead.
const (
	GatewayProvisioning GatewayState = "provisioning" // its first servers are being started
	GatewayReady        GatewayState = "ready"        // it serves, and takes server operations
	GatewayFailed       GatewayState = "failed"       // its first servers could not be started
)

// Mode is how a gateway came to its servers.
type Mode string

// The modes of a gateway.
const (
	ModeDynamic  Mode = "dynamic"  // agents may find and add servers
	ModeStatic   Mode = "static"   // only the control side adds servers
	ModeAttached Mode = "attached" // it serves another gateway, read-only
)

// Gateway is the gateway of this sandbox (McpGateway).
type Gateway struct {
	Name    string       `json:"name"` // sandboxes/{sandbox}/mcp-gateway
	UID     string       `json:"uid,omitempty"`
	State   GatewayState `json:"state"`
	URL     string       `json:"url,omitempty"` // only while it is ready
	Servers []ServerRef  `json:"servers"`       // all that was asked for, not what lives
	Reused  bool         `json:"reused,omitempty"`
	// Failure is why a failed gateway failed, with a ConfigurationReport in its details (beyond the model).
	Failure *Error `json:"failure,omitempty"`
}

// ServerType is how a server is reached.
type ServerType string

// The types of servers. The model's third one, container, does not occur in a sandbox.
const (
	TypeRemote ServerType = "remote"
	TypeStdio  ServerType = "stdio"
)

// ServerRef names a server that was asked for (McpServer).
type ServerRef struct {
	Name string     `json:"name"` // its key in the configuration or the catalogue
	Type ServerType `json:"type,omitempty"`
}

// StartRequest asks for a gateway (startMcpGateway).
type StartRequest struct {
	Servers    []string `json:"servers,omitempty"`
	Static     bool     `json:"static,omitempty"`
	GatewayURL *string  `json:"gatewayUrl,omitempty"` // of a shared gateway to attach to; excludes Servers
}

// AddRequest asks for one more server (addMcpGatewayServer).
type AddRequest struct {
	Server string `json:"server"`
	// Registration defines the server: an object of that one key, as in --config. Without it the key has to
	// be known: from the configuration, from the catalogue, or from an earlier registration.
	Registration json.RawMessage `json:"registration,omitempty"`
}

// AuthorizeRequest asks for a sign-in (authorizeMcpServer).
type AuthorizeRequest struct {
	RemoteURL   *string `json:"remoteUrl,omitempty"` // ties the sign-in to this address of the server
	ForceReauth bool    `json:"forceReauth,omitempty"`
}

// AuthorizationStatus is how far a sign-in has come.
type AuthorizationStatus string

// The states of a sign-in.
const (
	AuthorizationPending    AuthorizationStatus = "pending"
	AuthorizationAuthorized AuthorizationStatus = "authorized" // the credentials are there
	AuthorizationFailed     AuthorizationStatus = "failed"
)

// Authorization is one attempt to sign in to a server (McpAuthorization). A new attempt has a new UID; the
// ETag changes whenever anything of it does.
type Authorization struct {
	Name             string              `json:"name"`   // mcp-servers/{server}/authorization
	Server           string              `json:"server"` // mcp-servers/{server}
	UID              string              `json:"uid,omitempty"`
	Status           AuthorizationStatus `json:"status"`
	AuthorizationURL string              `json:"authorizationUrl,omitempty"` // only while pending; for the user's eyes, never for a log
	CreatedAt        time.Time           `json:"createdAt,omitzero"`
	UpdatedAt        time.Time           `json:"updatedAt,omitzero"`
	ExpiresAt        time.Time           `json:"expiresAt,omitzero"` // of the pending attempt
	Failure          *Error              `json:"failure,omitempty"`
	ETag             string              `json:"etag"` // with its quotes
}

// ServerName is a server's name in the resources of sign-ins. A key with a slash is written with %2F, since
// the name has two parts.
func ServerName(server string) string { return "mcp-servers/" + url.PathEscape(server) }

// AuthorizationName is the name of a server's sign-in.
func AuthorizationName(server string) string { return ServerName(server) + "/authorization" }

// ConfiguredServer is what became of one server that was asked for (McpConfiguredServer).
type ConfiguredServer struct {
	Server  ServerRef `json:"server"`
	Outcome Outcome   `json:"outcome"`
	Reason  string    `json:"reason,omitempty"` // without secrets
}

// Outcome is what became of a server (McpConfigurationOutcome).
type Outcome string

// The outcomes. A server that waits for a sign-in is applied.
const (
	OutcomePending Outcome = "pending"
	OutcomeApplied Outcome = "applied"
	OutcomeFailed  Outcome = "failed"
)

// ConfigurationReport says what became of all servers that were asked for (McpConfigurationReport). It is a
// detail of errors.
type ConfigurationReport struct {
	Generation     string             `json:"generation"` // opaque; another one after each change of what is asked for
	Mode           Mode               `json:"mode"`
	Complete       bool               `json:"complete"` // every server is applied
	Servers        []ConfiguredServer `json:"servers"`
	DormantServers []ServerRef        `json:"dormantServers,omitempty"` // asked for before it was attached elsewhere
}

// Definition is how a server was asked for, without values of secrets, headers and variables (beyond the
// model).
type Definition struct {
	Kind    string   `json:"kind"`    // how it is reached: npm, pypi, command, shell, github, remote, …
	Runs    string   `json:"runs"`    // what is run, as a person would type it, or the URL
	Envs    []string `json:"envs"`    // the names of its own variables
	Headers []string `json:"headers"` // the names of a remote server's headers
}

// Backend is the gateway that the API is about. The context of a call ends when its caller leaves, which
// does not stop what the call has begun. Errors that callers are to tell apart are *Error.
type Backend interface {
	// Status is a snapshot; it does not wait.
	Status() Status
	// Tools lists the exposed tools by name.
	Tools() []Tool
	// Stop asks the whole program to end and returns without waiting for the end.
	Stop(ctx context.Context)

	// Sandbox is this sandbox's id, "" where it is not known; "-" always means it.
	Sandbox() string
	// Gateway returns the gateway; NotFound where none was started or it was stopped.
	Gateway() (Gateway, error)
	// Changed is closed at the next change of the gateway's state, its servers or a sign-in.
	Changed() <-chan struct{}
	// Report tells what became of the servers that were asked for.
	Report() ConfigurationReport
	// Definition tells how a server was asked for; NotFound where it was not.
	Definition(name string) (Definition, error)
	// StartGateway makes a gateway, or returns the one that there is; it returns while that is provisioning.
	StartGateway(ctx context.Context, q StartRequest) (Gateway, error)
	// StopGateway ends all servers and sessions, or detaches; also where there is nothing to end.
	StopGateway(ctx context.Context) error
	// AddServer returns when the server is ready, waits for a sign-in, or has failed.
	AddServer(ctx context.Context, q AddRequest) (ServerRef, error)
	// RemoveServer ends a server; calls in flight end with an error (beyond the model).
	RemoveServer(ctx context.Context, name string) error
	// RestartServer ends a server's process or connection and makes it ready again (beyond the model).
	RestartServer(ctx context.Context, name string) error

	// Authorize begins a sign-in or returns the one that there is. With a non-empty ifMatch, only where that
	// is its ETag.
	Authorize(ctx context.Context, server, ifMatch string, q AuthorizeRequest) (Authorization, error)
	// Authorization returns the newest attempt; NotFound where there was none.
	Authorization(server string) (Authorization, error)
	// SubmitCode finishes a pending sign-in with what the authorization server sent to the redirect address,
	// for applications that receive it themselves (beyond the model).
	SubmitCode(ctx context.Context, server string, q CodeRequest) (Authorization, error)
}

// CodeRequest is an authorization server's answer, as it came to the redirect address (RFC 6749,
// sections 4.1.2 and 4.1.2.1).
type CodeRequest struct {
	Code             string `json:"code,omitempty"`
	State            string `json:"state"`
	Issuer           string `json:"iss,omitempty"` // RFC 9207
	Error            string `json:"error,omitempty"`
	ErrorDescription string `json:"errorDescription,omitempty"`
}
