"""Shapes of the HTTP interface, written from its OpenAPI document by scripts/shapes.py; do not edit them here."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from ._required import NotRequired


EffectState = Literal[
    "issued",
    "running",
    "done",
    "failed",
    "unknown",
    "staged",
    "held",
    "dropped",
    "releasing",
    "released",
    "not_sent",
    "undoing",
    "undone",
    "undo_lost",
    "waits_for_approval"]


May = "list[Want]"


PlannedCalls = list[dict[str, Any]]


Seq = int


class Abort(TypedDict):
    reason: NotRequired[str]


class AcceptResidue(TypedDict):
    note: str


class AgentItem(TypedDict):
    agent: str
    incarnation: Seq
    here: bool
    lease_left_ticks: int
    lag: int
    open: int
    waiting: int
    unsettled: int


class AgentList(TypedDict):
    workspace: str
    seq: int
    items: list[AgentItem]
    next: NotRequired[str]


class Announced(TypedDict):
    tx: str
    scope: str
    view: Seq
    announced: bool
    overtaken: NotRequired[Overtaken]


class Approval(TypedDict):
    index: int
    yes: bool
    by: NotRequired[str]
    args_sha256: NotRequired[str]


class Begin(TypedDict):
    mode: NotRequired[Literal["", "optimistic", "ordered", "locked"]]
    observe: NotRequired[bool]
    levels: NotRequired[str]
    deadline_ms: NotRequired[int]
    group: NotRequired[str]
    may: NotRequired[May]
    tools: NotRequired[PlannedCalls]


class BeginGroup(TypedDict):
    branches: int
    mode: NotRequired[Literal["", "optimistic", "ordered", "locked"]]
    observe: NotRequired[bool]
    levels: NotRequired[str]
    deadline_ms: NotRequired[int]
    may: NotRequired[May]
    tools: NotRequired[PlannedCalls]


class Blocker(TypedDict):
    tx: str
    scope: NotRequired[str]
    why: str


class Chain(TypedDict):
    workspace: str
    seq: Seq
    first: Seq
    links: list[dict[str, Any]]


class Closure(TypedDict):
    tx: str
    truncated: bool
    limit: int
    rows: list[dict[str, Any]]


class Commit(TypedDict):
    reads: NotRequired[list[SeenAt]]
    writes: NotRequired[list[Write]]
    effects: NotRequired[list[Effect]]
    mode: NotRequired[Literal["", "optimistic", "ordered", "locked"]]
    level: NotRequired[str]
    read_again: NotRequired[bool]


class Committed(TypedDict):
    tx: str
    decision: Decision
    effects: NotRequired[list[Receipt]]


class ConeMember(TypedDict):
    tx: str
    agent: str
    seq: Seq
    depth: int
    why: NotRequired[Literal["read_from", "overwrote"]]
    of: NotRequired[str]
    at: NotRequired[str]
    writes: NotRequired[list[str]]
    restored: NotRequired[list[dict[str, Any]]]
    effects: NotRequired[list[dict[str, Any]]]
    more_effects: NotRequired[bool]


class Decision(TypedDict):
    tx: str
    workspace: str
    state: Literal["open", "sealed", "committed", "aborted"]
    mode: NotRequired[str]
    session: NotRequired[str]
    base: Seq
    seq: NotRequired[Seq]
    code: NotRequired[str]
    detail: NotRequired[str]
    scope: NotRequired[str]
    moved_seq: NotRequired[Seq]
    moved_by: NotRequired[str]
    by: NotRequired[Literal["sidecar"]]
    tool: NotRequired[str]
    floor: NotRequired[Seq]
    blocked_by: NotRequired[list[Blocker]]
    approvals: NotRequired[list[Approval]]
    retryable: bool
    re_read: NotRequired[list[str]]
    would: NotRequired[str]
    overtaken: NotRequired[Overtaken]
    residue: NotRequired[list[str]]
    final: bool
    attempt: int
    retraction: NotRequired[str]
    undone: NotRequired[bool]
    undone_seq: NotRequired[Seq]
    attempts_left: NotRequired[int]
    signer: NotRequired[str]
    waited_ms: NotRequired[int]
    owes_settlement: NotRequired[bool]
    backoff_ms: NotRequired[int]
    give_up: NotRequired[bool]


class Done(TypedDict):
    tx: str
    effect: Receipt
    decision: Decision


class Effect(TypedDict):
    tool: str
    args: dict[str, Any]
    key: NotRequired[str]
    call: NotRequired[str]


class EffectList(TypedDict):
    workspace: str
    agent: str
    items: list[Receipt]
    next: NotRequired[str]


class Effects(TypedDict):
    tx: str
    state: Literal["open", "sealed", "committed", "aborted"]
    final: bool
    effects: list[Receipt]


class EndedSession(TypedDict):
    session: str
    reads: int


class Explain(TypedDict):
    paragraph: str
    decision: Decision
    reads: NotRequired[list[str]]
    writes: NotRequired[list[str]]
    undo: NotRequired[Undo]


class Frontier(TypedDict):
    workspace: str
    limit: int
    rows: list[dict[str, Any]]


class Group(TypedDict):
    group: str
    tx: list[str]
    winner: NotRequired[str]
    branches: list[Decision]


class Item(TypedDict):
    scope: str
    version: Seq
    writer: NotRequired[str]
    media_type: NotRequired[str]
    size: int
    lost: NotRequired[bool]


class Level(TypedDict):
    workspace: str
    seq: int
    since: int
    window: int
    operations: int
    aborted: int
    spanning: int
    own_overlaps: int
    least: int
    most: int
    point_least: str
    point_most: str
    serializable: bool
    kinds: list[dict[str, Any]]
    undecided: list[dict[str, Any]]


class List(TypedDict):
    workspace: str
    view: Seq
    items: list[Item]
    next: NotRequired[str]


class MCPServer(TypedDict):
    name: str
    state: Literal["starting", "ready", "failed"]
    error: NotRequired[str]
    since: str
    server: NotRequired[str]
    left_out: list[str]
    tools: list[dict[str, Any]]


class MCPServers(TypedDict):
    servers: list[MCPServer]


Offer = TypedDict("Offer", {
    "name": "str",
    "description": "NotRequired[str]",
    "arguments": "dict[str, Any]",
    "class": 'Literal["read", "reversible", "bufferable", "irreversible", "known_outcome"]',
    "runs": 'Literal["at_once", "when_granted", "after_commit"]',
})


class Offers(TypedDict):
    tools: list[Offer]


class OneShot(TypedDict):
    tool: str
    args: dict[str, Any]
    key: NotRequired[str]
    mode: NotRequired[Literal["", "optimistic", "ordered", "locked"]]


class Overtaken(TypedDict):
    scope: str
    written: NotRequired[str]
    seq: Seq
    writer: NotRequired[str]


class PlaceOfCall(TypedDict):
    call: str
    index: int


class Plan(TypedDict):
    calls: list[str]


class Planned(TypedDict):
    tx: str
    calls: list[PlaceOfCall]


class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    safe_to_retry_with_same_key: bool
    re_read: NotRequired[list[str]]
    scope: NotRequired[str]
    moved_seq: NotRequired[Seq]
    moved_by: NotRequired[str]
    by: NotRequired[Literal["sidecar"]]
    tool: NotRequired[str]
    floor: NotRequired[Seq]
    view: NotRequired[Seq]
    overtaken: NotRequired[Overtaken]
    decision: NotRequired[Decision]
    read: NotRequired[Seen]


class PutTool(TypedDict):
    server: NotRequired[str]
    signature: str


class Read(TypedDict):
    scope: str
    limit: NotRequired[int]
    announce: NotRequired[bool]
    for_update: NotRequired[bool]


class Reads(TypedDict):
    scopes: list[str]


class Ready(TypedDict):
    ready: bool
    agent: str
    workspace: str
    incarnation: Seq
    view: Seq
    parts: dict[str, Any]
    agents: NotRequired[dict[str, Any]]


Receipt = TypedDict("Receipt", {
    "tx": "str",
    "index": "NotRequired[int]",
    "call": "NotRequired[str]",
    "tool": "str",
    "class": 'Literal["read", "reversible", "bufferable", "irreversible", "known_outcome"]',
    "state": "EffectState",
    "key": "NotRequired[str]",
    "scopes": "NotRequired[list[str]]",
    "result": "NotRequired[Any]",
    "detail": "NotRequired[str]",
    "note": "NotRequired[str]",
    "view": "NotRequired[Seq]",
    "overtaken": "NotRequired[Overtaken]",
    "agent": "NotRequired[str]",
    "args": "NotRequired[dict[str, Any]]",
    "args_sha256": "NotRequired[str]",
})


Residue = TypedDict("Residue", {
    "tx": "str",
    "index": "int",
    "agent": "str",
    "tool": "str",
    "class": "str",
    "key": "NotRequired[str]",
    "scopes": "NotRequired[list[str]]",
    "result": 'Literal["clean", "leaked", "unresolved", "partial"]',
    "state": 'Literal["open", "accepted", "resolved"]',
    "detail": "str",
    "note": "NotRequired[str]",
    "tries": "int",
    "at_ms": "int",
    "code": "NotRequired[str]",
    "args": "NotRequired[dict[str, Any]]",
    "call": "NotRequired[str]",
})


class ResidueList(TypedDict):
    workspace: str
    items: list[Residue]
    truncated: bool


class Retraction(TypedDict):
    tx: str
    state: Literal["possible", "retracting", "retracted"]
    seq: NotRequired[Seq]
    through: NotRequired[Seq]
    total: int
    blocked_by: NotRequired[list[Blocker]]
    cone: list[ConeMember]
    undo: NotRequired[Undo]


class RetryResidue(TypedDict):
    force: NotRequired[bool]
    changed_tool: NotRequired[bool]


class Rules(TypedDict):
    version: int
    logic: int
    observe: bool
    levels: str
    horizon_seqs: int
    cap_seqs: NotRequired[int]
    lease_ticks: NotRequired[int]
    deadline_ticks: NotRequired[int]
    bound_ticks: NotRequired[int]
    verdict_ticks: NotRequired[int]
    max_open: NotRequired[int]
    max_scopes: NotRequired[int]
    max_footprint_bytes: NotRequired[int]
    max_inline_bytes: NotRequired[int]
    max_content_bytes: NotRequired[int]
    max_inline_total_bytes: NotRequired[int]
    max_kept_bytes: NotRequired[int]
    max_sidecars: NotRequired[int]
    horizon_commits: NotRequired[int]
    horizon_ticks: NotRequired[int]
    approval_ticks: NotRequired[int]


class RulesChange(TypedDict):
    logic: NotRequired[int]
    observe: NotRequired[bool]
    levels: NotRequired[str]
    horizon_seqs: NotRequired[int]
    cap_seqs: NotRequired[int]
    lease_ticks: NotRequired[int]
    deadline_ticks: NotRequired[int]
    bound_ticks: NotRequired[int]
    verdict_ticks: NotRequired[int]
    max_open: NotRequired[int]
    max_scopes: NotRequired[int]
    max_footprint_bytes: NotRequired[int]
    max_inline_bytes: NotRequired[int]
    max_content_bytes: NotRequired[int]
    max_inline_total_bytes: NotRequired[int]
    max_kept_bytes: NotRequired[int]
    max_sidecars: NotRequired[int]
    horizon_commits: NotRequired[int]
    horizon_ticks: NotRequired[int]
    approval_ticks: NotRequired[int]


class Seal(TypedDict):
    touches_known: NotRequired[bool]
    pins: NotRequired[list[dict[str, Any]]]


class Seen(TypedDict):
    workspace: str
    view: Seq
    items: list[Shard]


class SeenAt(TypedDict):
    scope: str
    version: NotRequired[int]
    as_of: NotRequired[int]
    announce: NotRequired[bool]


class Settlement(TypedDict):
    none_else: NotRequired[bool]
    effects: NotRequired[list[dict[str, Any]]]


class Shard(TypedDict):
    scope: str
    exists: bool
    pending: NotRequired[bool]
    version: Seq
    view: Seq
    writer: NotRequired[str]
    media_type: NotRequired[str]
    size: int
    content: NotRequired[str]
    content_base64: NotRequired[str]
    value: NotRequired[Any]
    items: NotRequired[list[Item]]
    truncated: NotRequired[bool]
    overtaken: NotRequired[Overtaken]


class Tool(TypedDict):
    server: str
    name: str
    signature: NotRequired[str]
    generation: int
    seq: Seq
    tools: int


ToolItem = TypedDict("ToolItem", {
    "server": "str",
    "name": "str",
    "source": 'Literal["policy", "registered"]',
    "class": "NotRequired[str]",
    "runs": 'NotRequired[Literal["at_once", "after_commit", "with_commit"]]',
    "adapter": "NotRequired[str]",
    "compensation": "NotRequired[str]",
    "undo_only": "NotRequired[bool]",
    "signature": "str",
})


class ToolList(TypedDict):
    workspace: str
    agent: str
    items: list[ToolItem]
    next: NotRequired[str]


class Touch(TypedDict):
    wants: list[Want]
    wait_ms: NotRequired[int]
    bound_ms: NotRequired[int]


class Touched(TypedDict):
    tx: str
    state: Literal["granted", "waiting"]
    wants: list[Want]
    view: Seq
    blocked_by: NotRequired[list[Blocker]]
    waited_ms: NotRequired[int]
    overtaken: NotRequired[Overtaken]


class TxItem(TypedDict):
    tx: str
    agent: str
    state: Literal["open", "sealed", "committed", "aborted"]
    mode: NotRequired[str]
    seq: NotRequired[int]
    code: NotRequired[str]
    scope: NotRequired[str]
    moved_seq: NotRequired[Seq]
    moved_by: NotRequired[str]
    waits_for: NotRequired[list[str]]
    final: bool
    retraction: NotRequired[str]


class TxList(TypedDict):
    workspace: str
    view: Seq
    since: int
    items: list[TxItem]
    next: NotRequired[str]


class Undo(TypedDict):
    # How long a committed transaction can still be taken back, whichever bound comes first. Since logic 3
    through: Seq
    commits_left: int
    bytes_left: int
    seconds_left: int
    nearest: Literal["commits", "bytes", "time"]
    estimate_seconds: NotRequired[int]
    commits: int
    rate_seconds: int
    sentence: str


class Want(TypedDict):
    scope: str
    access: Literal["read", "write"]


class Word(TypedDict):
    args_sha256: NotRequired[str]


class Write(TypedDict):
    scope: str
    content: NotRequired[str]
    content_base64: NotRequired[str]
    value: NotRequired[Any]
    media_type: NotRequired[str]
    if_version: NotRequired[int]
    op: NotRequired[Literal["append", "add", "union"]]


class Written(TypedDict):
    tx: str
    scope: str
    writes: int
    overtaken: NotRequired[Overtaken]
