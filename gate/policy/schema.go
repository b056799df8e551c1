package policy

import _ "embed"

//go:embed policy.schema.json
var schema string

// Schema returns the JSON Schema of policy files, which docs/policy.schema.json publishes.
func Schema() []byte { return []byte(schema) }
