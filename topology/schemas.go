package topology

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

//go:embed asyncapi.yaml
var asyncAPI string

// Schemas are the JSON Schemas (draft 2020-12) of all records, one file a record: decision.json is what a record of
// hence.decisions holds; the others describe MessagePack records as the arrays that they are.
func Schemas() fs.FS {
	files, err := fs.Sub(schemaFiles, "schemas")
	if err != nil {
		panic(fmt.Sprintf("topology: the embedded schemas: %v", err))
	}
	return files
}

// AsyncAPI is the AsyncAPI 3.0 document of all topics and subjects, in YAML; it refers to the files of Schemas.
func AsyncAPI() []byte { return []byte(asyncAPI) }
