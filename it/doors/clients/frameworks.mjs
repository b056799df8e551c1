// One read and one held call through each framework's own MCP client: node frameworks.mjs FILE.
import fs from 'node:fs'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { MCPServerStreamableHttp } from '@openai/agents'

const { url, token, read, held } = JSON.parse(fs.readFileSync(process.argv[2]))
const headers = { Authorization: 'Bearer ' + token }
const say = (client, tools, first, second) =>
  console.log(JSON.stringify({ client, tools, read: JSON.stringify(first), held: JSON.stringify(second) }))

const langchain = new MultiServerMCPClient({ mcpServers: { hence: { url, headers } } })
const tools = await langchain.getTools()
const named = (name) => tools.find((t) => t.name.endsWith(name))
say('@langchain/mcp-adapters', tools.length, await named(read.tool).invoke(read.args), await named(held.tool).invoke(held.args))
await langchain.close()

const openai = new MCPServerStreamableHttp({ url, name: 'hence', requestInit: { headers } })
await openai.connect()
say('@openai/agents', (await openai.listTools()).length, await openai.callTool(read.tool, read.args),
  await openai.callTool(held.tool, held.args))
await openai.close()
