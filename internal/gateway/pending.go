package gateway

import (
	"context"
	"fmt"

	"mcp-gateway/internal/control"
)

var errPending = &control.Error{Code: control.Unimplemented, Message: "this gateway cannot do that yet"}

func (g *gateway) Sandbox() string                     { return "" }
func (g *gateway) Gateway() (control.Gateway, error)   { return control.Gateway{}, errPending }
func (g *gateway) Changed() <-chan struct{}            { return nil }
func (g *gateway) Report() control.ConfigurationReport { return control.ConfigurationReport{} }
func (g *gateway) Definition(name string) (control.Definition, error) {
	for _, server := range g.o.Servers {
		if server.Name == name {
			return define(server, g.o.Paths.Servers()), nil
		}
	}
	return control.Definition{}, &control.Error{Code: control.NotFound, Message: fmt.Sprintf("there is no server %q", name)}
}
func (g *gateway) StartGateway(context.Context, control.StartRequest) (control.Gateway, error) {
	return control.Gateway{}, errPending
}
func (g *gateway) StopGateway(context.Context) error { return errPending }
func (g *gateway) AddServer(context.Context, control.AddRequest) (control.ServerRef, error) {
	return control.ServerRef{}, errPending
}
func (g *gateway) RemoveServer(context.Context, string) error  { return errPending }
func (g *gateway) RestartServer(context.Context, string) error { return errPending }
func (g *gateway) Authorize(context.Context, string, string, control.AuthorizeRequest) (control.Authorization, error) {
	return control.Authorization{}, errPending
}
func (g *gateway) Authorization(string) (control.Authorization, error) {
	return control.Authorization{}, errPending
}
func (g *gateway) SubmitCode(context.Context, string, control.CodeRequest) (control.Authorization, error) {
	return control.Authorization{}, errPending
}
