// Writes src/shapes.ts from the OpenAPI document, as JSON: node scripts/shapes.mjs openapi.json [--check]
import fs from 'node:fs'

const out = new URL('../src/shapes.ts', import.meta.url)
const head = '/** Shapes of the HTTP interface, written from its OpenAPI document by scripts/shapes.mjs; do not edit them here. */\n'

function kind(schema) {
  if (schema.$ref) return schema.$ref.split('/').pop()
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ')
  switch (schema.type) {
    case 'string': case 'boolean': return schema.type
    case 'integer': case 'number': return 'number'
    case 'array': return `Array<${kind(schema.items ?? {})}>`
    case 'object': return 'Record<string, unknown>'
  }
  return 'unknown'
}

const said = (schema, indent) => schema.description
  ? `${indent}/** ${schema.description.split(/\s+/).join(' ').replaceAll('*/', '* /').trim()} */\n` : ''

function shape(name, schema) {
  if (!schema.properties) return `${said(schema, '')}export type ${name} = ${kind(schema)}\n`
  const fields = Object.entries(schema.properties).map(([field, inner]) =>
    `${said(inner, '  ')}  ${field}${schema.required?.includes(field) ? '' : '?'}: ${kind(inner)}\n`)
  return `${said(schema, '')}export interface ${name} {\n${fields.join('')}}\n`
}

const [file, check] = process.argv.slice(2)
const schemas = JSON.parse(fs.readFileSync(file)).components.schemas
const text = head + Object.keys(schemas).sort().map((name) => '\n' + shape(name, schemas[name])).join('')
if (check !== '--check') fs.writeFileSync(out, text)
else if (fs.readFileSync(out, 'utf8') !== text) {
  console.error('shapes.ts is out of step with the OpenAPI document: run scripts/shapes.mjs openapi.json')
  process.exit(1)
}
