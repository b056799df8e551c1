/** LangGraph: a ToolNode whose turns are transactions, and a store that loses no update. */
import { createHash } from 'node:crypto'
import { ToolMessage, isAIMessage, isBaseMessage, type BaseMessage } from '@langchain/core/messages'
import type { ToolCall } from '@langchain/core/messages/tool'
import { BaseStore, type GetOperation, type Item, type ListNamespacesOperation, type Operation, type OperationResults,
  type PutOperation, type SearchOperation } from '@langchain/langgraph'
import { ToolNode, type ToolNodeOptions } from '@langchain/langgraph/prebuilt'
import { Client, HenceError, Problem, Refused, refused, valueOf, type Decision, type Receipt, type Shard } from './index.js'
import { UnknownLocalTool, abort, declared, policyNames, settle, told } from './turns.js'

export { UnknownLocalTool, acts, reads } from './turns.js'

type Tool = ToolNode['tools'][number]
type SearchItem = Item & { score?: number }

/** One turn of a model: its transaction, and the local tools that act, each behind the one before it. */
interface Turn {
  tx: string
  key: string
  before: Map<string, Promise<void>>
  through: Map<string, () => void>
  acted: boolean
}

/**
 * A ToolNode whose calls settle as one transaction. A tool that the policy knows is called by the sidecar, under the turn's
 * plan, so that calls leave in the order in which the model asked for them. Another one has to be declared by reads or acts.
 */
export class HenceToolNode extends ToolNode {
  readonly #client: Client
  #policy: Map<string, string> | undefined
  readonly #turns = new Map<string, Turn>()

  constructor(tools: Tool[], options: ToolNodeOptions & { client?: Client } = {}) {
    super(tools, options)
    this.#client = options.client ?? new Client({ session: 'langgraph-' + crypto.randomUUID() })
  }

  protected override async run(input: unknown, config: any): Promise<any> {
    const { calls, message, at } = turnOf(input)
    if (calls.length === 0) return super.run(input, config)
    const key = turnKey(config, calls, message, at)
    for (let attempt = 0; ; attempt++) {
      const turn = await this.#begin(calls, `${key}/${attempt}`)
      for (const call of calls) this.#turns.set(call.id!, turn)
      try {
        const out = await super.run(input, config)
        await settle(this.#client, turn.tx)
        return out
      } catch (e) {
        if (!(e instanceof Problem) || e.decision.tx !== turn.tx) {
          await abort(this.#client, turn.tx, String(e))
          throw e
        }
        // The same calls are made again where only the order stood in the way; a stale ground is the model's to see.
        const stood = ['conflict', 'wounded', 'deadline', 'lease_expired', 'rules_changed'].includes(e.code)
        if (stood && !turn.acted && e.again && attempt + 1 < this.#client.attempts) continue
        if (!(e instanceof Refused)) throw e
        const messages = calls.map((call) => toolMessage(call, told(e), 'error'))
        return Array.isArray(input) ? messages : { messages }
      } finally {
        for (const call of calls) this.#turns.delete(call.id!)
      }
    }
  }

  protected override async runTool(call: ToolCall, config: any, state: unknown): Promise<any> {
    const turn = this.#turns.get(call.id!)
    if (!turn) return super.runTool(call, config, state)
    const known = this.#policy!.get(call.name)
    if (known) {
      const body = { tool: known, args: call.args, call: call.id }
      const receipt = await this.#client.ask<Receipt>('POST', `/v1/tx/${turn.tx}/effects`, { body, key: `${turn.key}/${call.id}` })
      if (receipt.state === 'failed') return toolMessage(call, receipt.detail ?? 'the tool refused', 'error')
      const said = receipt.result ?? receipt.note ?? receipt.state
      return toolMessage(call, typeof said === 'string' ? said : JSON.stringify(said), 'success')
    }
    try {
      await turn.before.get(call.id!)
      turn.acted ||= turn.through.has(call.id!)
      return await super.runTool(call, config, state)
    } finally {
      turn.through.get(call.id!)?.()
    }
  }

  /** Begins the turn's transaction. A replayed checkpoint gets the same one, unless that was aborted. */
  async #begin(calls: ToolCall[], key: string): Promise<Turn> {
    this.#policy ??= policyNames(await this.#client.tools())
    for (const tool of this.tools) {
      if (!this.#policy.has(tool.name!) && !declared(tool)) throw new UnknownLocalTool(tool.name)
    }
    let tx = ''
    let n = 0
    for (; n < this.#client.attempts; n++) {
      tx = (await this.#client.begin({ key: `${key}/${n}` })).id
      const d = await this.#client.ask<Decision>('GET', `/v1/tx/${tx}`)
      if (d.state !== 'aborted') break // open, or committed: then each call is answered as it was
    }
    const planned = calls.filter((call) => this.#policy!.has(call.name)).map((call) => call.id)
    if (planned.length) await this.#client.ask('POST', `/v1/tx/${tx}/plan`, { body: { calls: planned }, key: `${key}/${n}/plan` })
    const turn: Turn = { tx, key: `${key}/${n}`, before: new Map(), through: new Map(), acted: false }
    let last: Promise<void> = Promise.resolve()
    for (const call of calls) {
      const tool = this.tools.find((t) => t.name === call.name)
      if (!tool || declared(tool) !== 'acts' || this.#policy.has(call.name)) continue
      turn.before.set(call.id!, last)
      last = new Promise((done) => turn.through.set(call.id!, done))
    }
    return turn
  }
}

function toolMessage(call: ToolCall, content: string, status: 'success' | 'error'): ToolMessage {
  return new ToolMessage({ content, status, name: call.name, tool_call_id: call.id ?? '' })
}

/** The calls that the node is to make, as ToolNode itself picks them. */
function turnOf(input: any): { calls: ToolCall[]; message: BaseMessage | undefined; at: number } {
  if (input && typeof input === 'object' && 'lg_tool_call' in input) {
    return { calls: [input.lg_tool_call], message: undefined, at: -1 }
  }
  const messages: BaseMessage[] = Array.isArray(input) ? input : (input?.messages ?? [])
  const answered = new Set(messages.filter((m) => isBaseMessage(m) && m.getType() === 'tool').map((m) => (m as ToolMessage).tool_call_id))
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at]!
    if (isBaseMessage(message) && isAIMessage(message)) {
      return { calls: (message.tool_calls ?? []).filter((call) => call.id && !answered.has(call.id)), message, at }
    }
  }
  return { calls: [], message: undefined, at: -1 }
}

/**
 * Idempotency-Key of a turn: of its thread, its node, and the model's message as the checkpoint has it. The checkpoint's own
 * id would not do: a replay of a checkpoint forks it, and the fork has another id.
 */
function turnKey(config: any, calls: ToolCall[], message: BaseMessage | undefined, at: number): string {
  const c = config?.configurable ?? {}
  if (!c.thread_id || !message?.id) return 'langgraph/' + crypto.randomUUID() // nothing names the turn
  const nodes = String(c.checkpoint_ns ?? '').split('|').map((part) => part.split(':')[0])
  const parts = [c.thread_id, nodes, at, message.id, calls.map((call) => [call.id, call.name, call.args])]
  return 'langgraph/' + createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/**
 * A LangGraph store over shards. What a thread of work has read and then builds on must still hold at its put: if it was
 * overwritten since, the put is refused with StaleRead, and update(namespace, key, work) reads, works and puts again. Give each
 * worker a store of its own: a store is one conversation.
 */
export class HenceStore extends BaseStore {
  readonly #client: Client
  readonly #prefix: string
  /** What was read since the last put that settled, with the versions it had. */
  #seen = new Map<string, number>()

  constructor({ client, prefix = 'store' }: { client?: Client; prefix?: string } = {}) {
    super()
    this.#client = client ?? new Client({ session: 'store-' + crypto.randomUUID() })
    this.#prefix = prefix.replace(/^\/+|\/+$/g, '')
  }

  /** Carries out operations: reads in their order, then all puts in one transaction. */
  async batch<Op extends readonly Operation[]>(ops: Op): Promise<OperationResults<Op>> {
    const out: unknown[] = []
    const puts: PutOperation[] = []
    for (const op of ops) {
      if ('value' in op) {
        puts.push(op as PutOperation)
        out.push(undefined)
      } else if ('namespacePrefix' in op) out.push(await this.#search(op as SearchOperation))
      else if ('key' in op) out.push(await this.#get(op as GetOperation))
      else out.push(await this.#namespaces(op as ListNamespacesOperation))
    }
    if (puts.length) await this.#put(puts)
    return out as OperationResults<Op>
  }

  /** Puts work(value) over the value, undefined if absent; does it again on the new value while another was faster. */
  async update<T extends Record<string, any>>(namespace: string[], key: string, work: (value: T | undefined) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      const value = await work((await this.get(namespace, key))?.value as T | undefined)
      try {
        await this.put(namespace, key, value)
        return value
      } catch (e) {
        // After any other error the put may have counted: work would be done twice.
        if (!(e instanceof Refused) || !e.retryable || attempt + 1 >= this.#client.attempts) throw e
        await new Promise((done) => setTimeout(done, (e.decision.backoff_ms ?? Math.min(50 * 2 ** attempt, 2_000)) * (0.5 + Math.random() / 2)))
      }
    }
  }

  #scope(namespace: string[], key: string): string {
    return 'shard:/' + [this.#prefix, ...namespace, key].map(encodeURIComponent).join('/')
  }

  get #workspace(): string {
    return `/v1/workspaces/${encodeURIComponent(this.#client.workspace)}`
  }

  async #read(scope: string): Promise<Shard> {
    const { items } = await this.#client.ask<{ items: Shard[] }>('POST', this.#workspace + '/reads', { body: { scopes: [scope] } })
    // The first version that was seen counts: what was thought since rests on it.
    for (const item of items) if (!this.#seen.has(item.scope)) this.#seen.set(item.scope, item.version ?? 0)
    return items[0]!
  }

  async #get({ namespace, key }: GetOperation): Promise<Item | null> {
    const shard = await this.#read(this.#scope(namespace, key))
    const kept = shard.exists ? (valueOf(shard) as any) : null
    if (!kept?.value) return null
    return { value: kept.value, key, namespace, createdAt: new Date(kept.created_at), updatedAt: new Date(kept.updated_at) }
  }

  async #put(puts: PutOperation[]): Promise<void> {
    const now = new Date().toISOString()
    const writes = new Map<string, object>()
    for (const { namespace, key, value } of puts) {
      const scope = this.#scope(namespace, key)
      writes.set(scope, { scope, value: value === null ? null : { value, created_at: now, updated_at: now } })
    }
    const seen = [...this.#seen].map(([scope, version]) => ({ scope, version }))
    this.#seen = new Map()
    let d = await this.#client.ask<Decision>('POST', this.#workspace + '/commit',
      { body: { reads: seen, writes: [...writes.values()] }, query: { wait_ms: 25_000 } })
    while (d.state === 'sealed') d = await this.#client.ask('GET', `/v1/tx/${d.tx}`, { query: { wait_ms: 25_000 } })
    if (d.state === 'aborted') throw refused(d)
  }

  async #search(op: SearchOperation): Promise<SearchItem[]> {
    if (op.query) throw new HenceError('the store has no index of meanings: search by namespace and filter, without query')
    const found: SearchItem[] = []
    for (const [namespace, key] of await this.#listed(op.namespacePrefix)) {
      const item = await this.#get({ namespace, key })
      if (item && Object.entries(op.filter ?? {}).every(([name, want]) => item.value[name] === want)) found.push(item)
    }
    return found.slice(op.offset ?? 0, (op.offset ?? 0) + (op.limit ?? 10))
  }

  async #listed(prefix: string[]): Promise<[string[], string][]> {
    const base = 'shard:/' + [this.#prefix, ...prefix].map(encodeURIComponent).join('/')
    const out: [string[], string][] = []
    for (let after: string | undefined; ;) {
      const page = await this.#client.ask<{ items: { scope: string }[]; next?: string }>('GET', this.#workspace + '/shards',
        { query: { prefix: base, after } })
      for (const { scope } of page.items) {
        const parts = scope.replace(/^shard:\//, '').split('/').map(decodeURIComponent)
        out.push([parts.slice(1, -1), parts.at(-1)!])
      }
      if (!page.next) return out
      after = page.next
    }
  }

  async #namespaces(op: ListNamespacesOperation): Promise<string[][]> {
    const all = new Map((await this.#listed([])).map(([ns]) => {
      const cut = op.maxDepth ? ns.slice(0, op.maxDepth) : ns
      return [JSON.stringify(cut), cut] as const
    }))
    const fits = (ns: string[]) => (op.matchConditions ?? []).every(({ path, matchType }) => {
      const part = matchType === 'prefix' ? ns.slice(0, path.length) : ns.slice(-path.length)
      return ns.length >= path.length && path.every((want, i) => want === '*' || want === part[i])
    })
    return [...all.values()].filter(fits).sort().slice(op.offset ?? 0, (op.offset ?? 0) + (op.limit ?? 100))
  }
}
