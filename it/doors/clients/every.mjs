// Calls tools of one MCP server with the reference SDK, and prints one line of JSON for each: node every.mjs FILE. FILE has
// {"url", "token"} or {"command", "args", "env"}, and {"calls": [{"tool", "args"}]}.
import fs from 'node:fs'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const job = JSON.parse(fs.readFileSync(process.argv[2]))
const transport = job.url
  ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: { Authorization: 'Bearer ' + job.token } } })
  : new StdioClientTransport({ command: job.command, args: job.args, env: { ...process.env, ...job.env }, stderr: 'inherit' })
const client = new Client({ name: 'doors', version: '1' })
await client.connect(transport)
const say = (line) => console.log(JSON.stringify(line))
say({ tools: (await client.listTools()).tools.map((t) => t.name) })
for (const { tool, args } of job.calls) {
  const began = performance.now()
  try { // callTool holds a result against the tool's outputSchema, as strict clients do
    const r = await client.callTool({ name: tool, arguments: args })
    say({ tool, content: r.content, structured: r.structuredContent, isError: r.isError ?? false, ms: performance.now() - began })
  } catch (e) {
    say({ tool, code: e.code, message: String(e.message), ms: performance.now() - began })
  }
}
if (job.held) { // in a transaction: the receipt must fit the schema, too
  const { tx } = (await client.callTool({ name: 'tx_begin', arguments: {} })).structuredContent
  const r = await client.callTool({ name: job.held.tool, arguments: job.held.args, _meta: { 'hence/tx': tx } })
  const d = await client.callTool({ name: 'tx_commit', arguments: { tx } })
  say({ held: r.structuredContent, text: r.content[0].text, decision: d.structuredContent.state })
}
await client.close()
