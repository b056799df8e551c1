/** What the middleware of each framework needs of a turn: how it ends, and what its tools are declared to do. */
import { Client, HenceError, Problem, refused, type Decision } from './index.js'

const declarations = new WeakMap<object, 'reads' | 'acts'>()

/** A local tool that only looks. */
export function reads<T extends object>(tool: T): T {
  declarations.set(tool, 'reads')
  return tool
}

/** A local tool that may act outside of Hence: those of a turn run one after another, as the model asked for them. */
export function acts<T extends object>(tool: T): T {
  declarations.set(tool, 'acts')
  return tool
}

/**
 * The policy's tools by the names that frameworks have for them. APIs of models take no "." in a name: board_post is
 * board.post, unless the policy has a tool of that name, or two that would share it.
 */
export function policyNames(offers: { name: string }[]): Map<string, string> {
  const names = new Map<string, string>()
  const shared = new Set<string>()
  for (const { name } of offers) {
    const plain = name.replace(/[^a-zA-Z0-9_-]/g, '_')
    for (const alias of new Set([plain, plain.replaceAll('-', '_')])) {
      if (names.has(alias)) shared.add(alias)
      names.set(alias, name)
    }
  }
  for (const alias of shared) names.delete(alias)
  for (const { name } of offers) names.set(name, name)
  return names
}

/** What a local tool was declared to do. */
export const declared = (tool: object): 'reads' | 'acts' | undefined => declarations.get(tool)

/** A local tool that the policy does not know was to be run: its effects are not declared. */
export class UnknownLocalTool extends HenceError {
  constructor(name: string | undefined) {
    super(`the policy does not know the tool ${name}, so its effects are unknown: declare it in the policy, or wrap it as ` +
      'reads(tool) if it only looks, as acts(tool) if it may act outside of Hence')
  }
}

/** Commits a turn, or throws why not. */
export async function settle(client: Client, tx: string): Promise<Decision> {
  let d: Decision
  try {
    d = await client.ask('POST', `/v1/tx/${tx}/seal`, { body: {}, query: { wait_ms: 25_000 } })
  } catch (e) {
    if (!(e instanceof Problem) || e.decision.state !== 'aborted') throw e
    d = e.decision as Decision
  }
  while (d.state === 'sealed') d = await client.ask('GET', `/v1/tx/${tx}`, { query: { wait_ms: 25_000 } })
  if (d.state !== 'committed') throw refused(d)
  return d
}

/** Gives a turn up. */
export async function abort(client: Client, tx: string, reason: string): Promise<void> {
  try {
    await client.ask('POST', `/v1/tx/${tx}/abort`, { body: { reason: reason.slice(0, 128) }, patienceMs: 500, timeoutMs: 2_000 })
  } catch (e) {
    if (!(e instanceof Problem)) throw e // else it is over already, or its deadline ends it
  }
}

/** What a model is told of a turn that was refused. */
export function told(p: Problem): string {
  const again = p.reRead.length ? ` Read again before another attempt: ${p.reRead.join(', ')}.` : ''
  return `Refused (${p.code}): ${p.detail}. Nothing of this turn has happened.${again}`
}
