/** Errors of Hence, by the code of the RFC 9457 problem that the sidecar answers with. */
import type { Decision, Receipt } from './shapes.js'

/** Base of everything that this package throws on purpose. */
export class HenceError extends Error {
  override name = this.constructor.name
}

/** What a problem's JSON has; a sidecar may add more. */
export interface Fields {
  code?: string
  status?: number
  title?: string
  detail?: string
  type?: string
  retryable?: boolean
  safe_to_retry_with_same_key?: boolean
  re_read?: string[]
  scope?: string
  moved_by?: string
  moved_seq?: number
  tool?: string
  decision?: Partial<Decision>
}

/** The sidecar has refused a request. The page about its code is at `type`. */
export class Problem extends HenceError {
  readonly code: string
  readonly status: number
  readonly detail: string
  readonly type: string
  /** The same request, or a further attempt at the work, can succeed. */
  readonly retryable: boolean
  /** The very same request may be sent again with its Idempotency-Key. */
  readonly safeToRetryWithSameKey: boolean
  /** What to read again before a further attempt. */
  readonly reRead: string[]
  /** The transaction as it was decided; empty where none was. */
  readonly decision: Partial<Decision>

  constructor(readonly fields: Fields) {
    const where = fields.scope ? ` at ${fields.scope}` : ''
    const by = fields.moved_by ? `, moved by ${fields.moved_by}` : ''
    super(`${fields.code ?? fields.status ?? ''}${where}${by}: ${fields.detail ?? fields.title ?? ''}`)
    this.code = fields.code ?? ''
    this.status = fields.status ?? 0
    this.detail = fields.detail ?? ''
    this.type = fields.type ?? ''
    this.retryable = fields.retryable ?? false
    this.safeToRetryWithSameKey = fields.safe_to_retry_with_same_key ?? false
    this.reRead = fields.re_read ?? []
    this.decision = fields.decision ?? {}
  }

  /** The work may be done again on a fresh transaction: the sidecar has not given it up. */
  get again(): boolean {
    return this.decision.state === 'aborted' && this.decision.retryable === true && !this.decision.give_up
  }
}

/** The transaction is over and nothing of it counts. */
export class Refused extends Problem {}
/** Something that was read was overwritten before the commit. */
export class StaleRead extends Refused {}
/** A shard does not have the version that a write expects. */
export class VersionMismatch extends Refused {}
/** Another transaction holds what this one needs, or came first. */
export class Conflict extends Refused {}
/** A tool that the plan pins was changed or withdrawn before the commit. */
export class PhantomTool extends Refused {}
/** A hook or a person said no. */
export class Denied extends Refused {}
/** A tool has refused, or its outcome is not known. */
export class ToolFailed extends Refused {
  constructor(fields: Fields, readonly receipt?: Receipt) {
    super(fields)
  }
}
/** The sidecar, or what it stands on, does not answer. It was asked for as long as the client may. */
export class Unavailable extends Problem {}
/** The request is wrong as it is, and is refused whenever it comes. */
export class BadRequest extends Problem {}
/** There is no such transaction, workspace, route or tool. */
export class NotFound extends BadRequest {}
/** The token is missing, or is not the one that may do this. */
export class Forbidden extends BadRequest {}

type Kind = new (fields: Fields) => Problem

const byCode: Record<string, Kind> = {
  stale_read: StaleRead, cascade: StaleRead, too_old: StaleRead, version_mismatch: VersionMismatch,
  conflict: Conflict, wounded: Conflict, lost_branch: Conflict, phantom_tool: PhantomTool, vetoed: Denied,
  denied: Denied, tool_failed: ToolFailed, tool_unreachable: ToolFailed, session_lost: Unavailable,
  idempotency_key_in_flight: Unavailable,
}

/** The error for a problem: by its code, else by its status. */
export function problem(fields: Fields): Problem {
  const status = fields.status ?? 0
  let kind = byCode[fields.code ?? '']
  if (!kind && fields.decision?.state === 'aborted') kind = Refused
  if (!kind && (status >= 500 || status === 429 || status === 0)) kind = Unavailable
  kind ??= status === 401 || status === 403 ? Forbidden : status === 404 ? NotFound : BadRequest
  return new kind(fields)
}

/** The error for a decision that is an abort. */
export function refused(decision: Decision): Problem {
  const { code = '', detail = '' } = decision
  const fields: Fields = { code, detail, status: 409, title: 'the transaction was refused', decision }
  if (decision.re_read) fields.re_read = decision.re_read
  if (decision.scope) fields.scope = decision.scope
  if (decision.moved_by) fields.moved_by = decision.moved_by
  fields.retryable = decision.retryable
  return new (byCode[code] ?? Refused)(fields)
}
