package process

// Spec is one process to start.
type Spec struct {
	Name string   // the server it belongs to, for errors and log lines
	Argv []string // never empty; Argv[0] is looked up on the PATH of Env
	Env  []string // the whole environment, "NAME=value"
	Dir  string   // working directory; empty means the gateway's own
	User string   // run as this user; empty means as the gateway
}
