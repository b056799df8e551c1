/** Shapes of the HTTP interface, written from its OpenAPI document by scripts/shapes.mjs; do not edit them here. */

export interface Abort {
  reason?: string
}

export interface AcceptResidue {
  /** Who accepts it, and why */
  note: string
}

export interface AgentItem {
  agent: string
  incarnation: Seq
  /** It is the agent of this sidecar */
  here: boolean
  /** A tick is 250 ms or longer */
  lease_left_ticks: number
  /** Seqs between what it still works on and the head */
  lag: number
  /** Transactions that the log knows */
  open: number
  /** For a grant, or for their decision */
  waiting: number
  /** Decided, and something is left to do */
  unsettled: number
}

export interface AgentList {
  workspace: string
  /** The list is exact as of it */
  seq: number
  items: Array<AgentItem>
  /** Give it as after for the rest; absent: there is none */
  next?: string
}

export interface Announced {
  tx: string
  scope: string
  view: Seq
  announced: boolean
  overtaken?: Overtaken
}

export interface Approval {
  index: number
  /** Approved; else denied, or, without by, still waits for a word */
  yes: boolean
  by?: string
  /** Of the arguments that it is about, hexadecimal */
  args_sha256?: string
}

export interface Begin {
  mode?: "" | "optimistic" | "ordered" | "locked"
  observe?: boolean
  /** L0 to L4, or a list of A1, A2, A3, A6 with commas */
  levels?: string
  deadline_ms?: number
  /** A further branch of this group */
  group?: string
  may?: May
  tools?: PlannedCalls
}

export interface BeginGroup {
  branches: number
  mode?: "" | "optimistic" | "ordered" | "locked"
  observe?: boolean
  levels?: string
  deadline_ms?: number
  may?: May
  tools?: PlannedCalls
}

export interface Blocker {
  tx: string
  scope?: string
  why: string
}

export interface Chain {
  workspace: string
  seq: Seq
  first: Seq
  links: Array<Record<string, unknown>>
}

export interface Closure {
  tx: string
  truncated: boolean
  limit: number
  rows: Array<Record<string, unknown>>
}

export interface Commit {
  reads?: Array<SeenAt>
  writes?: Array<Write>
  effects?: Array<Effect>
  mode?: "" | "optimistic" | "ordered" | "locked"
  /** L0 to L4, or a list of A1, A2, A3, A6 with commas */
  level?: string
  /** Where it is refused as stale_read, the problem has in its member read what POST …/reads of the shards and patterns among the reads answers then. They are reads of the conversation, as those are. Left out where they are too many or too large for one answer */
  read_again?: boolean
}

export interface Committed {
  tx: string
  decision: Decision
  /** In the order of the request */
  effects?: Array<Receipt>
}

export interface ConeMember {
  tx: string
  agent: string
  seq: Seq
  depth: number
  why?: "read_from" | "overwrote"
  of?: string
  at?: string
  writes?: Array<string>
  restored?: Array<Record<string, unknown>>
  effects?: Array<Record<string, unknown>>
  /** Not every call is shown */
  more_effects?: boolean
}

export interface Decision {
  tx: string
  workspace: string
  state: "open" | "sealed" | "committed" | "aborted"
  mode?: string
  /** The conversation; of this sidecar's own transactions only */
  session?: string
  base: Seq
  seq?: Seq
  code?: string
  detail?: string
  scope?: string
  moved_seq?: Seq
  /** A transaction; of phantom_tool an agent, whose sidecar moved it */
  moved_by?: string
  /** The scope and what moved are as the view of its sidecar showed them */
  by?: "sidecar"
  /** Of phantom_tool: server/name */
  tool?: string
  floor?: Seq
  blocked_by?: Array<Blocker>
  /** What was said of held calls that need a yes, by index; while it waits also those without a word yet */
  approvals?: Array<Approval>
  retryable: boolean
  re_read?: Array<string>
  would?: string
  overtaken?: Overtaken
  residue?: Array<string>
  final: boolean
  attempt: number
  /** The retracted transaction that it follows from, or itself */
  retraction?: string
  /** Its compensation is settled */
  undone?: boolean
  /** Of the decision that settled it, where it is remembered */
  undone_seq?: Seq
  attempts_left?: number
  /** The id of the key that signed its seal, or what ended it; since logic 5 */
  signer?: string
  /** For other transactions */
  waited_ms?: number
  /** Say what became of what was done under its touches */
  owes_settlement?: boolean
  backoff_ms?: number
  give_up?: boolean
}

export interface Done {
  tx: string
  effect: Receipt
  decision: Decision
}

export interface Effect {
  tool: string
  /** At most 256 KiB */
  args: Record<string, unknown>
  /** Idempotency key for the sink, where the policy leaves it to the agent */
  key?: string
  /** Its id in a plan of the transaction. The same call under it is one call; with another tool, key or other arguments it is refused (idempotency_key_reused). */
  call?: string
}

export interface EffectList {
  workspace: string
  agent: string
  items: Array<Receipt>
  /** Give it as after for the rest; absent: there is none */
  next?: string
}

export type EffectState = "issued" | "running" | "done" | "failed" | "unknown" | "staged" | "held" | "dropped" | "releasing" | "released" | "not_sent" | "undoing" | "undone" | "undo_lost" | "waits_for_approval"

export interface Effects {
  tx: string
  state: "open" | "sealed" | "committed" | "aborted"
  final: boolean
  effects: Array<Receipt>
}

export interface EndedSession {
  session: string
  /** Outside transactions that no seal will carry any more */
  reads: number
}

export interface Explain {
  paragraph: string
  decision: Decision
  reads?: Array<string>
  writes?: Array<string>
  undo?: Undo
}

export interface Frontier {
  workspace: string
  limit: number
  rows: Array<Record<string, unknown>>
}

export interface Group {
  group: string
  tx: Array<string>
  winner?: string
  branches: Array<Decision>
}

export interface Item {
  scope: string
  version: Seq
  writer?: string
  media_type?: string
  size: number
  /** A retraction put its content back and the log no longer has it. A read is refused */
  lost?: boolean
}

export interface Level {
  workspace: string
  /** Of the last decision that was judged; 0: none */
  seq: number
  /** Operations that were committed at or before this seq are not held */
  since: number
  /** Operations that are held at most */
  window: number
  /** Operations that are held */
  operations: number
  /** Of these, refused or taken back: they are judged as predecessors only */
  aborted: number
  /** Of the held ones, those that began before since, and may have met what is not held */
  spanning: number
  /** Operations that read what was overwritten before their commit by the same agent, which is no A1 */
  own_overlaps: number
  /** Level, 0 to 4, if everything possible is one */
  least: number
  /** Level, 0 to 4, by what is certain */
  most: number
  /** Anomalies of the catalogue that are excluded, such as {A1,A3} */
  point_least: string
  /** Anomalies of which none is certain */
  point_most: string
  /** Some serial order explains the operations */
  serializable: boolean
  /** Each kind, in the order of hence check */
  kinds: Array<Record<string, unknown>>
  undecided: Array<Record<string, unknown>>
}

export interface List {
  workspace: string
  view: Seq
  items: Array<Item>
  next?: string
}

export interface MCPServer {
  name: string
  state: "starting" | "ready" | "failed"
  /** Why it is not ready */
  error?: string
  since: string
  /** What it calls itself, with its version */
  server?: string
  /** Tools that cannot be called, each with the reason */
  left_out: Array<string>
  /** Those of a server that is away are the last ones known */
  tools: Array<Record<string, unknown>>
}

export interface MCPServers {
  servers: Array<MCPServer>
}

/** For mode ordered only: what the transaction claims from its begin to its seal. No transaction that begins later is given it before. Everything that the seal names must lie within, reads outside of any transaction too, else the transaction is aborted with incomplete_footprint. */
export type May = Array<Want>

export interface Offer {
  name: string
  description?: string
  /** JSON Schema */
  arguments: Record<string, unknown>
  class: "read" | "reversible" | "bufferable" | "irreversible" | "known_outcome"
  runs: "at_once" | "when_granted" | "after_commit"
}

export interface Offers {
  tools: Array<Offer>
}

export interface OneShot {
  tool: string
  args: Record<string, unknown>
  key?: string
  mode?: "" | "optimistic" | "ordered" | "locked"
}

export interface Overtaken {
  /** As it was read */
  scope: string
  /** What of it was written */
  written?: string
  seq: Seq
  writer?: string
}

export interface PlaceOfCall {
  call: string
  index: number
}

export interface Plan {
  /** The ids of the calls in their order; printable ASCII without spaces, each once in a transaction */
  calls: Array<string>
}

export interface Planned {
  tx: string
  calls: Array<PlaceOfCall>
}

/** For mode ordered only, tools that will be called. What the policy says that they may touch is claimed. */
export type PlannedCalls = Array<Record<string, unknown>>

export interface Problem {
  type: string
  title: string
  status: number
  detail: string
  code: string
  /** The same request or a further attempt can succeed */
  retryable: boolean
  safe_to_retry_with_same_key: boolean
  re_read?: Array<string>
  scope?: string
  moved_seq?: Seq
  /** A transaction; of phantom_tool an agent, whose sidecar moved it */
  moved_by?: string
  /** The scope and what moved are as the view of its sidecar showed them */
  by?: "sidecar"
  /** Of phantom_tool: server/name */
  tool?: string
  floor?: Seq
  view?: Seq
  overtaken?: Overtaken
  decision?: Decision
  read?: Seen
}

export interface PutTool {
  server?: string
  signature: string
}

export interface Read {
  scope: string
  limit?: number
  /** The agent reads it by itself, and means this scope also where nothing uses its type (unknown_type) */
  announce?: boolean
  /** Of a shard, in any mode - it is granted for writing before it is read. Who asks for it later, so or with a write, waits until this transaction is decided, and no other write of it commits before that. It is no touch - nothing is handed over, and an abort lets the next one on at once */
  for_update?: boolean
}

export interface Reads {
  /** Shards, or patterns: then the items list shards */
  scopes: Array<string>
}

export interface Ready {
  ready: boolean
  agent: string
  workspace: string
  incarnation: Seq
  view: Seq
  parts: Record<string, unknown>
  /** By name, where a sidecar serves several; agent and incarnation are empty then */
  agents?: Record<string, unknown>
}

export interface Receipt {
  tx: string
  /** Issuance order; absent for calls that only read, and for shards */
  index?: number
  /** Its id in a plan */
  call?: string
  tool: string
  class: "read" | "reversible" | "bufferable" | "irreversible" | "known_outcome"
  state: EffectState
  key?: string
  scopes?: Array<string>
  /** What the tool answered */
  result?: unknown
  detail?: string
  /** For the model */
  note?: string
  view?: Seq
  overtaken?: Overtaken
  /** Whose call it is; with an approver's token */
  agent?: string
  /** With an approver's token: the arguments that were sealed; absent where the log cannot show these */
  args?: Record<string, unknown>
  /** With an approver's token: of the arguments, as the agent sent them */
  args_sha256?: string
}

export interface Residue {
  tx: string
  index: number
  agent: string
  tool: string
  class: string
  /** What the sink was given; absent - it takes none */
  key?: string
  scopes?: Array<string>
  result: "clean" | "leaked" | "unresolved" | "partial"
  state: "open" | "accepted" | "resolved"
  detail: string
  note?: string
  tries: number
  at_ms: number
  /** Why nothing more is tried; changed_tool or absent */
  code?: string
  /** With a code: the arguments of the call, unless they are large */
  args?: Record<string, unknown>
  /** How the call itself stands, as in a receipt; not_sent - it never left */
  call?: string
}

export interface ResidueList {
  workspace: string
  items: Array<Residue>
  truncated: boolean
}

export interface Retraction {
  tx: string
  state: "possible" | "retracting" | "retracted"
  seq?: Seq
  through?: Seq
  total: number
  blocked_by?: Array<Blocker>
  cone: Array<ConeMember>
  undo?: Undo
}

export interface RetryResidue {
  /** Also when the sink takes no key, or cannot know what is to be undone */
  force?: boolean
  /** Also when the tool is declared differently now; today's declaration makes the call */
  changed_tool?: boolean
}

export interface Rules {
  version: number
  logic: number
  observe: boolean
  levels: string
  /** Before logic 3 the undo horizon, in seqs; since then how long what has aborted, joins and chosen branches are remembered */
  horizon_seqs: number
  cap_seqs?: number
  lease_ticks?: number
  deadline_ticks?: number
  bound_ticks?: number
  verdict_ticks?: number
  max_open?: number
  max_scopes?: number
  max_footprint_bytes?: number
  max_inline_bytes?: number
  /** Of a shard's content. Over 262144 bytes it is a chain of events, from logic 4 on; before that one event has it */
  max_content_bytes?: number
  max_inline_total_bytes?: number
  max_kept_bytes?: number
  /** Live sidecars of the workspace. There is none before logic 3 */
  max_sidecars?: number
  /** The undo horizon, in commits. There is none before logic 3 */
  horizon_commits?: number
  /** The undo horizon, in ticks of 250 ms of the log's time. There is none before logic 3 */
  horizon_ticks?: number
  /** How long a seal waits for approvals, in ticks of 250 ms. There is none before logic 4 */
  approval_ticks?: number
}

export interface RulesChange {
  logic?: number
  observe?: boolean
  levels?: string
  /** Before logic 3 the undo horizon, in seqs; since then how long what has aborted, joins and chosen branches are remembered */
  horizon_seqs?: number
  cap_seqs?: number
  lease_ticks?: number
  deadline_ticks?: number
  bound_ticks?: number
  verdict_ticks?: number
  max_open?: number
  max_scopes?: number
  max_footprint_bytes?: number
  max_inline_bytes?: number
  /** From logic 4 on at most 16777216 */
  max_content_bytes?: number
  max_inline_total_bytes?: number
  max_kept_bytes?: number
  /** From logic 3 on; 0 is the default, 1024 */
  max_sidecars?: number
  /** From logic 3 on; 0 is the default, 2000 */
  horizon_commits?: number
  /** From logic 3 on; 0 is the default, 2419200, a week of the log's time */
  horizon_ticks?: number
  /** Bound of approvals, from logic 4 on; 0 is the default, 14400, an hour of the log's time */
  approval_ticks?: number
}

export interface Seal {
  touches_known?: boolean
  pins?: Array<Record<string, unknown>>
}

export interface Seen {
  workspace: string
  view: Seq
  items: Array<Shard>
}

export interface SeenAt {
  scope: string
  /** Of one shard: as it was read; 0 - it was absent */
  version?: number
  /** Of a pattern, and of what Hence does not keep: a seq that an answer named before it was read */
  as_of?: number
  /** Also where nothing is known to write scopes of this type */
  announce?: boolean
}

export type Seq = number

export interface Settlement {
  /** Nothing else was done */
  none_else?: boolean
  effects?: Array<Record<string, unknown>>
}

export interface Shard {
  scope: string
  exists: boolean
  /** The transaction's own write */
  pending?: boolean
  version: Seq
  view: Seq
  writer?: string
  media_type?: string
  size: number
  content?: string
  content_base64?: string
  /** In place of content, where many scopes are read at once and it is JSON */
  value?: unknown
  items?: Array<Item>
  truncated?: boolean
  overtaken?: Overtaken
}

export interface Tool {
  server: string
  name: string
  signature?: string
  generation: number
  seq: Seq
  tools: number
}

export interface ToolItem {
  server: string
  /** A declaration may have wildcards */
  name: string
  source: "policy" | "registered"
  class?: string
  runs?: "at_once" | "after_commit" | "with_commit"
  adapter?: string
  /** The tool that undoes it */
  compensation?: string
  /** It only compensates: agents cannot call it */
  undo_only?: boolean
  signature: string
}

export interface ToolList {
  workspace: string
  agent: string
  items: Array<ToolItem>
  /** Give it as after for the rest; absent: there is none */
  next?: string
}

export interface Touch {
  wants: Array<Want>
  /** How long the answer may take */
  wait_ms?: number
  /** How long the touch may wait */
  bound_ms?: number
}

export interface Touched {
  tx: string
  state: "granted" | "waiting"
  wants: Array<Want>
  view: Seq
  blocked_by?: Array<Blocker>
  waited_ms?: number
  overtaken?: Overtaken
}

export interface TxItem {
  tx: string
  agent: string
  state: "open" | "sealed" | "committed" | "aborted"
  mode?: string
  /** Of the decision */
  seq?: number
  /** Why it was aborted */
  code?: string
  scope?: string
  moved_seq?: Seq
  moved_by?: string
  /** Transactions */
  waits_for?: Array<string>
  final: boolean
  /** The retracted transaction that it follows from, or itself */
  retraction?: string
}

export interface TxList {
  workspace: string
  view: Seq
  /** What was decided up to this seq, before this sidecar looked, is not listed */
  since: number
  items: Array<TxItem>
  /** Give it as after for the rest; absent: there is none */
  next?: string
}

/** How long a committed transaction can still be taken back, whichever bound comes first. Since logic 3 */
export interface Undo {
  through: Seq
  /** Further commits of the workspace */
  commits_left: number
  /** Further bytes that the workspace has to remember */
  bytes_left: number
  /** Of the log's time */
  seconds_left: number
  nearest: "commits" | "bytes" | "time"
  /** An estimate: when the nearest bound comes at the rate of the last rate_seconds. Absent: too little has happened */
  estimate_seconds?: number
  /** In the last rate_seconds */
  commits: number
  /** An hour or less */
  rate_seconds: number
  sentence: string
}

export interface Want {
  scope: string
  access: "read" | "write"
}

export interface Word {
  /** Of the arguments that were looked at; absent: those that were sealed */
  args_sha256?: string
}

export interface Write {
  scope: string
  /** At most 256 KiB */
  content?: string
  content_base64?: string
  /** Any JSON, in place of content; stored without space between its parts, as application/json */
  value?: unknown
  media_type?: string
  /** 0 - only if the shard does not exist */
  if_version?: number
  /** The content is a delta, of at most 4 KiB: its bytes come behind those that are there, its int64 (decimal digits) is added, or its lines join the set. Two of one kind at one shard do not conflict; no version is expected. Left out, the content replaces what is there */
  op?: "append" | "add" | "union"
}

export interface Written {
  tx: string
  scope: string
  writes: number
  overtaken?: Overtaken
}
