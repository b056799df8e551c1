/** Client of a Hence sidecar: `fetch` and nothing else. */
import { BadRequest, HenceError, Problem, ToolFailed, Unavailable, problem, refused, type Fields } from './errors.js'
import { keyIn, signer, type Signer } from './sign.js'
import type { Decision, Effects, Offer, Planned, Receipt, Shard, Written } from './shapes.js'

export * from './errors.js'
export type { Decision, Effects, Offer, Planned, Receipt, Shard, Written } from './shapes.js'
export type * as shapes from './shapes.js'

/** A tool as the agent's plan knew it: with another signature at the commit the transaction is refused. */
export interface Pin {
  server?: string
  name: string
  signature: string
}

/** How long one request waits for a decision, in ms; the sidecar's own bound is 30 s. */
const waitMs = 25_000

/** Settings. What is not given is read from HENCE_URL, HENCE_TOKEN, HENCE_KEY_FILE and HENCE_WORKSPACE. */
export interface Options {
  url?: string
  token?: string
  /** A private key in PEM, which signs requests in place of the token. */
  key?: string
  workspace?: string
  /** The conversation: reads outside of transactions bind its next write. */
  session?: string
  /** Whose requests they are, where a sidecar serves any agent. */
  agent?: string
  /** How long a request is tried while the sidecar does not answer, in ms. */
  patienceMs?: number
  /** How often refused work is done, at most. */
  attempts?: number
  fetch?: typeof fetch
}

/** How a transaction begins. */
export interface Begin {
  mode?: 'optimistic' | 'ordered' | 'locked'
  observe?: boolean
  levels?: string
  deadline_ms?: number
}

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

interface Ask {
  body?: unknown
  key?: string | undefined
  query?: Record<string, string | number | boolean | undefined>
  patienceMs?: number
  timeoutMs?: number
}

export class Client {
  readonly url: string
  readonly workspace: string
  readonly attempts: number
  readonly #token: string
  #signer: Promise<Signer> | undefined
  readonly #headers: Record<string, string>
  readonly #patience: number
  readonly #fetch: typeof fetch

  constructor(options: Options = {}) {
    const env = globalThis.process?.env ?? {}
    const url = options.url || env['HENCE_URL']
    if (!url) {
      throw new HenceError('no sidecar is named: run the program with `hence run -- COMMAND`, or set HENCE_URL')
    }
    if (!/^https?:\/\/[^/]/.test(url)) throw new HenceError(`HENCE_URL is ${url}: give an address such as http://127.0.0.1:7420`)
    this.url = url.replace(/\/+$/, '')
    this.#token = options.token || env['HENCE_TOKEN'] || ''
    this.workspace = options.workspace || env['HENCE_WORKSPACE'] || 'default'
    this.attempts = options.attempts ?? 10
    if (!(this.attempts >= 1)) throw new HenceError(`attempts is ${this.attempts}: give a number from 1`)
    this.#patience = options.patienceMs ?? 60_000
    this.#fetch = options.fetch ?? globalThis.fetch
    this.#headers = {}
    const file = options.token ? '' : env['HENCE_KEY_FILE']
    if (options.key) this.#signer = signer(options.key)
    else if (file) this.#signer = keyIn(file).then(signer)
    this.#signer?.catch(() => {}) // the first request says it
    if (this.#token && !this.#signer) this.#headers['Authorization'] = 'Bearer ' + this.#token
    if (options.session) this.#headers['Hence-Session'] = options.session
    if (options.agent) this.#headers['Hence-Agent'] = options.agent
  }

  /** Asks until the sidecar answers. All tries carry one Idempotency-Key, so together they count once. */
  async ask<T>(method: string, path: string, { body, key, query, patienceMs, timeoutMs = 40_000 }: Ask = {}): Promise<T> {
    const headers: Record<string, string> = { Accept: 'application/json', ...this.#headers }
    if (method !== 'GET') headers['Idempotency-Key'] = key || crypto.randomUUID()
    if (body !== undefined) headers['Content-Type'] = 'application/json'
    const target = this.url + path + queryOf(query)
    const until = performance.now() + (patienceMs ?? this.#patience)
    for (let pause = 50; ; pause = Math.min(2 * pause, 3_000)) {
      let why: Problem
      try {
        const text = body === undefined ? undefined : JSON.stringify(body)
        const answer = await this.#fetch(target, { method, headers: await this.#signed(method, target, headers, text),
          body: text ?? null, signal: AbortSignal.timeout(timeoutMs) })
        const said = await answer.text()
        if (answer.ok) return (said ? JSON.parse(said) : {}) as T
        why = problem(fieldsOf(answer.status, said))
        if (!sentAgain(why)) throw why
      } catch (e) {
        if (e instanceof HenceError) throw e // a problem, or a key that cannot sign
        why = silent(this.url, e) // the connection broke; the key makes a further try safe
      }
      if (performance.now() >= until) throw why // a caller is told rather than left waiting for ever
      await sleep(pause * (0.5 + Math.random() / 2))
    }
  }

  /** The headers of one try: a sidecar takes a signature once. */
  async #signed(method: string, target: string, headers: Record<string, string>, body?: string) {
    return this.#signer ? (await this.#signer).sign(method, target, headers, body) : headers
  }

  /** Begins a transaction. With a key, a program that was started again gets the same one. */
  async begin(options: Begin & { key?: string; pins?: Pin[] } = {}): Promise<Tx> {
    const { key, pins, ...body } = options
    const d = await this.ask<Decision>('POST', `/v1/workspaces/${encodeURIComponent(this.workspace)}/tx`, { body, key })
    return new Tx(this, d.tx, pins)
  }

  /** Runs work to a commit, again on a fresh transaction after each refusal that may be tried again. */
  async transaction<T>(work: (tx: Tx) => Promise<T> | T, options: Begin & { attempts?: number; key?: string } = {}): Promise<T> {
    const { attempts = this.attempts, ...begin } = options
    let tx = await this.begin(begin)
    for (let attempt = 0; ; attempt++) {
      try {
        const result = await work(tx)
        await tx.commit()
        return result
      } catch (e) {
        const own = e instanceof Problem && e.decision.tx === tx.id
        if (!own) await tx.abort(String(e))
        if (!own || !e.again || attempt + 1 >= attempts) throw e
        const told = e.decision.backoff_ms ?? Math.min(50 * 2 ** attempt, 2_000)
        await sleep(told * (0.5 + Math.random() / 2))
        tx = new Tx(this, (await this.ask<Decision>('POST', `/v1/tx/${tx.id}/retry`, { body: {} })).tx)
      }
    }
  }

  /** What the policy offers to agents: names, arguments as JSON Schema, classes. */
  async tools(): Promise<Offer[]> {
    try {
      return (await this.ask<{ tools: Offer[] }>('GET', '/v1/tools')).tools
    } catch (e) {
      if (e instanceof BadRequest && e.code === 'no_policy') return [] // without a policy there are no tools
      throw e
    }
  }

  /** Every decision as it comes, each once, as a CloudEvent with its seq in `id`. Reconnects where the stream was cut. */
  async *decisions(filters: { after?: number; signal?: AbortSignal } & Record<string, unknown> = {}):
    AsyncGenerator<{ kind: string; id: string; data: Record<string, unknown> }> {
    const { signal, ...query } = filters
    let last = ''
    let until = performance.now() + this.#patience
    for (let pause = 50; !signal?.aborted; pause = Math.min(2 * pause, 3_000)) {
      try {
        const headers: Record<string, string> = { Accept: 'text/event-stream', ...this.#headers }
        if (last) headers['Last-Event-ID'] = last
        const path = `/v1/workspaces/${encodeURIComponent(this.workspace)}/decisions`
        const target = this.url + path + queryOf(query as Ask['query'])
        const answer = await this.#fetch(target, { headers: await this.#signed('GET', target, headers), signal: signal ?? null })
        if (!answer.ok || !answer.body) throw problem(fieldsOf(answer.status, await answer.text()))
        for await (const e of events(answer.body as unknown as AsyncIterable<Uint8Array>)) {
          last = e.id || last
          pause = 50
          until = performance.now() + this.#patience
          if (e.data) yield { kind: e.event, ...JSON.parse(e.data) }
        }
      } catch (e) {
        if (signal?.aborted) return
        const why = e instanceof Problem ? e : silent(this.url, e)
        if (e instanceof Problem && !sentAgain(e) || performance.now() >= until) throw why
      }
      await sleep(pause)
    }
  }
}

/** One transaction: reads and writes by name, calls of tools, and one commit of all of it. */
export class Tx {
  /** Once it is over: the decision. */
  decision: Decision | undefined
  #over = false

  constructor(readonly client: Client, readonly id: string, readonly pins: Pin[] = []) {}

  #ask<T>(method: string, what: string, ask: Ask = {}): Promise<T> {
    return this.client.ask<T>(method, `/v1/tx/${this.id}${what}`, ask)
  }

  /** Reads a shard, with its version. What was read must still hold at the commit, also that nothing was there. */
  read(name: string, more: { limit?: number; announce?: boolean; for_update?: boolean } = {}): Promise<Shard> {
    return this.#ask('POST', '/reads', { body: { scope: scopeOf(name), ...more } })
  }

  /** The JSON value, the text or the bytes of a shard; undefined: nothing is there. */
  async get<T = Json | Uint8Array>(name: string): Promise<T | undefined> {
    const shard = await this.read(name)
    return shard.exists ? (valueOf(shard) as T) : undefined
  }

  /** Writes a shard: bytes as they are, a text as text, anything else as JSON. */
  set(name: string, value: Json | Uint8Array, more: { if_version?: number; op?: string } = {}): Promise<Written> {
    return this.#ask('POST', '/writes', { body: { ...contentOf(value), scope: scopeOf(name), ...more } })
  }

  /** Says the order of calls, by ids of your own, before they are made side by side. */
  plan(calls: string[]): Promise<Planned> {
    return this.#ask('POST', '/plan', { body: { calls } })
  }

  /** Calls a tool. A held call's receipt has the state `held`: it leaves after the commit, do not make it again. */
  async call(tool: string, args: object = {}, more: { call?: string; key?: string } = {}): Promise<Receipt> {
    const receipt = await this.#ask<Receipt>('POST', '/effects', { body: { tool, args, ...more } })
    if (receipt.state === 'failed') {
      throw new ToolFailed({ code: 'tool_failed', status: 409, tool, title: 'the tool refused',
        detail: `${tool}: ${receipt.detail ?? ''}` }, receipt)
    }
    return receipt
  }

  /** The calls of this transaction, as they stand. */
  effects(): Promise<Effects> {
    return this.#ask('GET', '/effects')
  }

  /** Settles it, and waits for the decision. Until that is known the transaction may commit, so it is asked on. */
  async commit(): Promise<Decision> {
    let d: Decision
    try {
      d = await this.#ask('POST', '/seal', { body: this.pins.length ? { pins: this.pins } : {}, query: { wait_ms: waitMs } })
    } catch (e) {
      if (!(e instanceof Problem) || e.decision.state !== 'aborted') throw e
      d = e.decision as Decision
    }
    while (d.state === 'sealed') d = await this.#ask('GET', '', { query: { wait_ms: waitMs } })
    this.decision = d
    this.#over = true
    if (d.state !== 'committed') throw refused(d)
    return d
  }

  /** Ends it: what was done is taken back, what is held never leaves. It is tried for a moment: else its deadline does. */
  async abort(reason = ''): Promise<void> {
    this.#over = true
    try {
      this.decision = await this.#ask('POST', '/abort', { body: { reason: reason.slice(0, 128) }, patienceMs: 500, timeoutMs: 2_000 })
    } catch (e) {
      if (!(e instanceof Problem)) throw e // else it is over already
    }
  }

  /** For `await using`: aborts it unless it was committed. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#over) await this.abort('it was left without a commit')
  }
}

/** orders/1 is the shard /orders/1, and what has a type keeps it. */
export function scopeOf(name: string): string {
  if (!name) throw new HenceError('a scope is a text such as "orders/1"')
  return name.split('/', 1)[0]!.includes(':') ? name : 'shard:/' + name.replace(/^\/+/, '')
}

function contentOf(value: Json | Uint8Array): object {
  if (value instanceof Uint8Array) {
    return { content_base64: Buffer.from(value).toString('base64'), media_type: 'application/octet-stream' }
  }
  if (typeof value === 'string') return { content: value, media_type: 'text/plain' }
  if (value === undefined) throw new HenceError('a shard cannot be undefined: write null, or delete nothing')
  return { value }
}

/** What a shard has: the JSON value, the text, or the bytes. */
export function valueOf(shard: Shard): Json | Uint8Array {
  if (shard.value !== undefined) return shard.value as Json
  if (shard.content_base64 !== undefined) return new Uint8Array(Buffer.from(shard.content_base64, 'base64'))
  const media = (shard.media_type ?? '').split(';', 1)[0]!.trim()
  const text = shard.content ?? ''
  if (media === 'application/octet-stream') return new TextEncoder().encode(text)
  return media === 'application/json' ? (JSON.parse(text) as Json) : text
}

function queryOf(query: Ask['query'] = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== undefined)
  return set.length ? '?' + new URLSearchParams(set.map(([name, value]) => [name, String(value)])) : ''
}

/** The same request is sent again: while its first try is in flight, or the sidecar cannot serve it for now. */
function sentAgain(p: Problem): boolean {
  if (['idempotency_key_in_flight', 'signature_time', 'signature_seen'].includes(p.code)) return true // each try is signed separately
  return p.retryable && p.safeToRetryWithSameKey && (p.status === 429 || p.status === 503)
}

function fieldsOf(status: number, text: string): Fields {
  try {
    const fields = JSON.parse(text)
    if (fields && typeof fields === 'object' && 'code' in fields) return { status, ...fields }
  } catch {
    // no JSON: it is not a sidecar's
  }
  return { status, code: 'foreign_answer', detail: "the answer is not a sidecar's: is something else at HENCE_URL?" }
}

function silent(url: string, e: unknown): Unavailable {
  return new Unavailable({ code: 'no_sidecar_answers', retryable: true, safe_to_retry_with_same_key: true,
    detail: `${url}: ${e instanceof Error ? (e.cause instanceof Error ? e.cause.message : e.message) : e}` })
}

const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms))

/** The server-sent events of a stream, each once it is whole. */
export async function* events(body: AsyncIterable<Uint8Array>): AsyncGenerator<{ id: string; event: string; data: string }> {
  const decoder = new TextDecoder()
  let rest = ''
  let id = ''
  let event = ''
  let data: string[] = []
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const raw of lines) {
      const line = raw.replace(/\r$/, '')
      if (line === '') {
        yield { id, event, data: data.join('\n') }
        event = ''
        data = []
      } else if (!line.startsWith(':')) {
        const at = line.indexOf(':')
        const name = at < 0 ? line : line.slice(0, at)
        const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '')
        if (name === 'id') id = value
        else if (name === 'event') event = value
        else if (name === 'data') data.push(value)
      }
    }
  }
}
