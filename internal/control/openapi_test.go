package control

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// openAPI is what is read of openapi.json.
type openAPI struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		OperationID string                     `json:"operationId"`
		Parameters  []reference                `json:"parameters"`
		RequestBody json.RawMessage            `json:"requestBody"`
		Responses   map[string]json.RawMessage `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
			Closed     *bool                      `json:"additionalProperties"`
		} `json:"schemas"`
	} `json:"components"`
}

type reference struct {
	Ref string `json:"$ref"`
}

func readDocument(t *testing.T) openAPI {
	t.Helper()
	var d openAPI
	if err := json.Unmarshal(description, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Every route is described, and nothing that is no route.
func TestOpenAPI_DescribesEveryRoute(t *testing.T) {
	d := readDocument(t)
	var served, described, ids []string
	for _, r := range routes {
		served = append(served, r.path+" "+r.method)
	}
	for path, operations := range d.Paths {
		for method, o := range operations {
			name := path + " " + strings.ToUpper(method)
			described = append(described, name)
			if slices.Contains(ids, o.OperationID) || o.OperationID == "" {
				t.Errorf("%s: operationId %q", name, o.OperationID)
			}
			ids = append(ids, o.OperationID)
			for _, status := range []string{"401", "403", "default"} {
				if o.Responses[status] == nil {
					t.Errorf("%s: answer %s is not described", name, status)
				}
			}
			for _, variable := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				if !slices.Contains(o.Parameters, reference{"#/components/parameters/" + variable[1]}) {
					t.Errorf("%s: %s is not described", name, variable[0])
				}
			}
			if hasBody := o.RequestBody != nil; hasBody != (method == "post") {
				t.Errorf("%s: body described: %t", name, hasBody)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served    %v\ndescribed %v", served, described)
	}
}

// Every field of a resource is described, and required there where it is always written.
func TestOpenAPI_DescribesEveryField(t *testing.T) {
	d := readDocument(t)
	for name, v := range map[string]any{
		"McpGateway": Gateway{}, "McpServer": ServerRef{}, "StartMcpGatewayRequest": StartRequest{}, "AddMcpGatewayServerRequest": AddRequest{},
		"AddMcpGatewayServerResponse": added{}, "ListMcpGatewayServersResponse": serverList{}, "LiveServer": LiveServer{}, "ServerDefinition": Definition{},
		"McpConfiguredServer": ConfiguredServer{}, "AuthorizeMcpServerRequest": AuthorizeRequest{}, "McpAuthorization": Authorization{},
		"SubmitMcpAuthorizationCodeRequest": CodeRequest{}, "Error": Error{}, "Status": Status{}, "Tool": Tool{},
		"McpConfigurationReport": struct {
			Type string `json:"@type,omitempty"` // where it is a detail
			ConfigurationReport
		}{},
	} {
		schema := d.Components.Schemas[name]
		var fields, always []string
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			tag := strings.Split(field.Tag.Get("json"), ",")
			if field.Anonymous || tag[0] == "-" {
				continue
			}
			fields = append(fields, tag[0])
			if len(tag) == 1 {
				always = append(always, tag[0])
			}
		}
		var described []string
		for property := range schema.Properties {
			described = append(described, property)
		}
		slices.Sort(fields)
		slices.Sort(described)
		if !slices.Equal(fields, described) {
			t.Errorf("%s has %v, described are %v", name, fields, described)
		}
		slices.Sort(always)
		slices.Sort(schema.Required)
		if !slices.Equal(always, schema.Required) {
			t.Errorf("%s always has %v, required are %v", name, always, schema.Required)
		}
		if request := strings.HasSuffix(name, "Request"); request != (schema.Closed != nil && !*schema.Closed) {
			t.Errorf("%s: requests refuse unknown fields, and nothing else does", name)
		}
	}
}

// Every reference leads somewhere, and every part of the document is referred to.
func TestOpenAPI_References(t *testing.T) {
	var whole map[string]any
	if err := json.Unmarshal(description, &whole); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, match := range regexp.MustCompile(`"\$ref": "#/components/(\w+/\w+)"`).FindAllSubmatch(description, -1) {
		used[string(match[1])] = true
	}
	for kind, parts := range whole["components"].(map[string]any) {
		for name := range parts.(map[string]any) {
			if part := kind + "/" + name; !used[part] && kind != "securitySchemes" && part != "schemas/McpConfigurationReport" {
				t.Errorf("%s is not used", part)
			}
			delete(used, kind+"/"+name)
		}
	}
	for part := range used {
		t.Errorf("%s is not there", part)
	}
}

// Every code that is answered is named.
func TestOpenAPI_NamesEveryCode(t *testing.T) {
	for code := range statuses {
		if !strings.Contains(string(description), "`"+string(code)+"`") {
			t.Errorf("%s is not named", code)
		}
	}
}
