/** OpenAI Agents SDK: each turn of a model is a transaction. */
import { OpenAIProvider, type FunctionTool, type Model, type ModelProvider, type ModelRequest } from '@openai/agents'
import { Client, Problem, Refused, type Decision, type Receipt } from './index.js'
import { UnknownLocalTool, abort, declared, policyNames, settle, told } from './turns.js'

export { UnknownLocalTool, acts, reads } from './turns.js'

type Tool = FunctionTool<any, any, any>
type Invoke = Tool['invoke']

interface Call {
  id: string
  name: string
}

/** A turn of a model: its calls, in the order in which it asked for them. */
class Turn {
  tx: Promise<string> | undefined
  sealed = false
  readonly left: Set<string>
  readonly through = new Map<string, { done: Promise<void>; end: () => void }>()

  constructor(readonly calls: Call[]) {
    this.left = new Set(calls.map((call) => call.id))
    for (const call of calls) {
      let end = () => {}
      const done = new Promise<void>((resolve) => { end = resolve })
      this.through.set(call.id, { done, end })
    }
  }
}

/**
 * The tools of an agent, and what stands before its model so that the calls of one answer are known as one turn:
 *
 *     const door = new Door()
 *     const agent = new Agent({ name: 'shop', tools: door.tools([mail, look]) })
 *     await new Runner({ modelProvider: door.provider() }).run(agent, '...')
 *
 * Without provider or model each call is a transaction of its own.
 */
export class Door {
  readonly client: Client
  /** Of the last turn that has settled. */
  decision: Decision | undefined
  #policy: Promise<Map<string, string>> | undefined
  readonly #declared = new Map<string, 'reads' | 'acts' | undefined>()
  /** Invariant: a turn is listed under each of its calls until it is settled. */
  readonly #turns = new Map<string, Turn>()

  constructor({ client }: { client?: Client } = {}) {
    this.client = client ?? new Client({ session: 'agents-' + crypto.randomUUID() })
  }

  /** The tools as they are to be given to the agent: called by the sidecar where the policy knows their name. */
  tools<T extends Tool>(tools: T[]): T[] {
    return tools.map((tool) => {
      this.#declared.set(tool.name, declared(tool))
      const invoke: Invoke = (context, input, details) => {
        const id = details?.toolCall?.callId ?? crypto.randomUUID()
        const turn = this.#turns.get(id) ?? new Turn([{ id, name: tool.name }]) // else its turn was not announced
        return this.#call(turn, id, tool, input, () => tool.invoke(context, input, details))
      }
      return { ...tool, invoke }
    })
  }

  /** A provider of models whose answers are turns. */
  provider(inner: ModelProvider = new OpenAIProvider()): ModelProvider {
    return { getModel: async (name) => this.model(await inner.getModel(name)) }
  }

  /** A model whose answers are turns. */
  model(inner: Model): Model {
    const before = (request: ModelRequest) => this.#rest(request)
    const answered = (output: readonly unknown[]) => this.#answered(output)
    return new Proxy(inner, {
      get(target, name) {
        if (name === 'getResponse') {
          return async (request: ModelRequest) => {
            await before(request)
            const out = await target.getResponse(request)
            answered(out.output)
            return out
          }
        }
        if (name === 'getStreamedResponse') {
          return async function* (request: ModelRequest) {
            await before(request)
            for await (const event of target.getStreamedResponse(request)) {
              if (event.type === 'response_done') answered(event.response.output)
              yield event
            }
          }
        }
        const value = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  /** The model has answered: its calls are a turn. */
  #answered(output: readonly any[]): void {
    const calls = output.filter((item) => item?.type === 'function_call' && this.#declared.has(item.name))
    if (calls.length === 0) return
    const turn = new Turn(calls.map((item) => ({ id: item.callId, name: item.name })))
    for (const call of turn.calls) this.#turns.set(call.id, turn)
  }

  /** The model is asked again: a turn that it is told of is over, also where a guard kept one of its calls from coming. */
  async #rest(request: ModelRequest): Promise<void> {
    const items: any[] = Array.isArray(request.input) ? request.input : []
    const over = new Set(items.map((item) => this.#turns.get(item?.callId)))
    for (const turn of over) if (turn) await this.#settle(turn)
  }

  /** Begins the turn's transaction and its plan, once, at its first call. */
  #begun(turn: Turn): Promise<string> {
    turn.tx ??= (async () => {
      const policy = await this.#known()
      const tx = (await this.client.begin({ key: 'agents/' + crypto.randomUUID() })).id
      const planned = turn.calls.filter((call) => policy.has(call.name)).map((call) => call.id)
      if (planned.length) await this.client.ask('POST', `/v1/tx/${tx}/plan`, { body: { calls: planned } })
      return tx
    })()
    return turn.tx
  }

  #known(): Promise<Map<string, string>> {
    this.#policy ??= this.client.tools().then(policyNames)
    this.#policy.catch(() => { this.#policy = undefined }) // the next call asks again
    return this.#policy
  }

  async #call(turn: Turn, id: string, tool: Tool, input: string, local: () => Promise<unknown>): Promise<any> {
    let tx = ''
    let out: unknown
    try {
      tx = await this.#begun(turn)
      const policy = await this.#known()
      const known = policy.get(tool.name)
      if (known) out = await this.#effect(tx, known, id, input)
      else if (this.#declared.get(tool.name)) out = await this.#local(turn, id, tool.name, policy, local)
      else throw new UnknownLocalTool(tool.name)
    } catch (e) {
      this.#forget(turn)
      if (tx && !turn.sealed) {
        turn.sealed = true
        await abort(this.client, tx, String(e))
      }
      if (e instanceof Refused && e.decision.tx === tx) return told(e)
      throw e
    } finally {
      turn.through.get(id)?.end()
    }
    turn.left.delete(id)
    if (turn.left.size) return out
    try {
      await this.#settle(turn)
    } catch (e) { // the last answer of the turn tells the model that nothing of it counts
      if (e instanceof Refused) return told(e)
      throw e
    }
    return out
  }

  async #effect(tx: string, name: string, id: string, input: string): Promise<unknown> {
    const body = { tool: name, args: JSON.parse(input || '{}'), call: id }
    const receipt = await this.client.ask<Receipt>('POST', `/v1/tx/${tx}/effects`, { body })
    if (receipt.state === 'failed') return `Failed: ${receipt.detail ?? 'the tool refused'}`
    return receipt.result ?? receipt.note ?? receipt.state
  }

  async #local(turn: Turn, id: string, name: string, policy: Map<string, string>, run: () => Promise<unknown>): Promise<unknown> {
    if (this.#declared.get(name) === 'acts') {
      for (const earlier of turn.calls) { // local tools that act go one after another, as they were asked for
        if (earlier.id === id) break
        const acting = this.#declared.get(earlier.name) === 'acts' && !policy.has(earlier.name)
        if (acting) await turn.through.get(earlier.id)!.done
      }
    }
    return run()
  }

  async #settle(turn: Turn): Promise<void> {
    this.#forget(turn)
    if (!turn.tx || turn.sealed) return
    turn.sealed = true
    this.decision = await settle(this.client, await turn.tx)
  }

  #forget(turn: Turn): void {
    for (const call of turn.calls) this.#turns.delete(call.id)
  }
}
