package catalog

import (
	"encoding/json"

	"mcp-gateway/internal/catalog/document"
	"mcp-gateway/internal/secret"
)

// Launch checks the properties against the entry's types and fills the placeholders with them.
// Properties that the entry does not declare are passed over. With any problem the plan is empty.
func (e *Entry) Launch(props map[string]json.RawMessage) (Launch, []Problem) {
	if e.Runs == None {
		return Launch{}, []Problem{{Entry: e.Name, Message: "cannot be run here: " + e.Reason}}
	}
	set, problems := e.read(props)
	launch := e.plan(set)
	if e.Runs == Remote && len(problems) == 0 {
		problems = append(problems, e.reach(set, &launch)...)
	}
	if len(problems) > 0 {
		return Launch{}, problems
	}
	return launch, nil
}

// Bare is the plan without any property given: what installing the server needs, and no more.
// Variables and arguments that name a property without a default are left out.
func (e *Entry) Bare() Launch {
	set, _ := e.read(nil)
	return e.plan(set)
}

// plan fills all templates but those of a remote server's URL.
func (e *Entry) plan(set values) Launch {
	launch := Launch{
		Kind:       e.Runs,
		Package:    e.Package,
		Version:    e.Version,
		Bin:        e.Bin,
		With:       e.With,
		Repository: e.Repository,
		Commit:     e.Commit,
		Subdir:     e.Subdir,
		Program:    e.Run,
		Command:    e.Command,
		Steps:      e.Install,
		Needs:      e.Needs,
		Args:       set.fillGroups(e.Args),
		Env:        set.fillMap(e.Env),
		Headers:    set.fillMap(e.Headers),
		Secrets:    e.secrets(set),
	}
	launch.Dir, _ = set.fill(e.Cwd, nil)
	return launch
}

// read checks all properties and returns those that are set, defaults among them.
func (e *Entry) read(props map[string]json.RawMessage) (values, []Problem) {
	set := values{}
	var problems []Problem
	for _, name := range sortedKeys(e.Properties) {
		property := e.Properties[name]
		raw := props[name]
		given := !document.IsNull(raw)
		if !given {
			raw = property.Default
		}
		if document.IsNull(raw) {
			if property.Required {
				problems = append(problems, Problem{Entry: e.Name, Field: name, Message: "is missing, must be " + property.Allowed()})
			}
			continue
		}
		v, problem := property.read(raw)
		if problem != nil {
			problem.Entry, problem.Field = e.Name, name+problem.Field
			problems = append(problems, *problem)
			continue
		}
		if !v.list || len(v.texts) > 0 {
			v.given = given
			set[name] = v
		}
	}
	return set, problems
}

// reach fills in what a remote server is reached with.
func (e *Entry) reach(set values, launch *Launch) []Problem {
	var problems []Problem
	launch.URL, _ = set.fillURL(e.URL)
	if e.Transport != streamableHTTP {
		launch.Transport = e.Transport
	}
	if message := CheckURL(launch.URL); message != "" {
		problems = append(problems, Problem{Entry: e.Name, Field: "url", Message: message})
	}
	for _, name := range sortedKeys(launch.Headers) {
		if message := CheckHeader(name, launch.Headers[name].Reveal()); message != "" {
			problems = append(problems, Problem{Entry: e.Name, Field: document.Field("headers", name), Message: message})
		}
	}
	return problems
}

// secrets lists the values of secret properties, which may stand in arguments and URLs too.
func (e *Entry) secrets(set values) []secret.Value {
	var found []secret.Value
	for _, name := range sortedKeys(set) {
		if e.Properties[name].Secret {
			for _, text := range set[name].texts {
				found = append(found, secret.Value(text))
			}
		}
	}
	return found
}
