"""Errors of Hence, by the code of the RFC 9457 problem that the sidecar answers with."""

from __future__ import annotations

from typing import Any


class HenceError(Exception):
    """Base of everything that this package raises on purpose."""


class Problem(HenceError):
    """The sidecar has refused a request. The page about its code is at type."""

    def __init__(self, fields: dict[str, Any]):
        self.fields = fields
        self.code: str = fields.get("code", "")
        self.status: int = fields.get("status", 0)
        self.title: str = fields.get("title", "")
        self.detail: str = fields.get("detail", "")
        self.type: str = fields.get("type", "")
        #: The same request, or a further attempt at the work, can succeed.
        self.retryable: bool = bool(fields.get("retryable"))
        #: The very same request may be sent again with its Idempotency-Key.
        self.safe_to_retry_with_same_key: bool = bool(fields.get("safe_to_retry_with_same_key"))
        #: What to read again before a further attempt.
        self.re_read: list[str] = list(fields.get("re_read") or [])
        self.scope: str = fields.get("scope", "")
        self.moved_by: str = fields.get("moved_by", "")
        self.moved_seq: int = fields.get("moved_seq", 0)
        self.tool: str = fields.get("tool", "")
        self.decision: dict[str, Any] = fields.get("decision") or {}
        decided = self.decision
        #: The work may be done again on a fresh transaction: the sidecar has not given it up.
        self.retryable_decision: bool = bool(decided.get("retryable")) and not decided.get("give_up")
        where = f" at {self.scope}" if self.scope else ""
        by = f", moved by {self.moved_by}" if self.moved_by else ""
        super().__init__(f"{self.code or self.status}{where}{by}: {self.detail or self.title}")


class Refused(Problem):
    """The transaction is over and nothing of it counts. Retryable: do the work again on what is there now."""


class StaleRead(Refused):
    """Something that the transaction has read was overwritten before it could commit (stale_read, cascade, too_old)."""


class VersionMismatch(Refused):
    """A shard does not have the version that the write expects (version_mismatch)."""


class Conflict(Refused):
    """Another transaction holds what this one needs, or came first (conflict, wounded, lost_branch)."""


class PhantomTool(Refused):
    """A tool that the plan pins was changed or withdrawn before the commit (phantom_tool)."""


class Denied(Refused):
    """A hook or a person said no (vetoed, denied)."""


class ToolFailed(Refused):
    """A tool has refused, or its outcome is not known (tool_failed, tool_unreachable)."""

    def __init__(self, fields: dict[str, Any], receipt: dict[str, Any] | None = None):
        super().__init__(fields)
        self.receipt = receipt or {}


class Unavailable(Problem):
    """The sidecar, or what it stands on, does not answer now. The request was tried for as long as the client may."""


class BadRequest(Problem):
    """The request is wrong as it is, and is refused whenever it comes."""


class NotFound(BadRequest):
    """There is no such transaction, workspace, route or tool."""


class Forbidden(BadRequest):
    """The token is missing, or is not the one that may do this."""


class UnknownLocalTool(HenceError):
    """A local tool that the policy does not know was to be run: its effects are not declared."""


_BY_CODE: dict[str, type[Problem]] = {
    "stale_read": StaleRead, "cascade": StaleRead, "too_old": StaleRead,
    "version_mismatch": VersionMismatch,
    "conflict": Conflict, "wounded": Conflict, "lost_branch": Conflict,
    "phantom_tool": PhantomTool,
    "vetoed": Denied, "denied": Denied,
    "tool_failed": ToolFailed, "tool_unreachable": ToolFailed,
    "session_lost": Unavailable, "idempotency_key_in_flight": Unavailable,
}


def problem(fields: dict[str, Any]) -> Problem:
    """The error for a problem, by its code first and its status second."""
    code, status = fields.get("code", ""), fields.get("status", 0)
    kind = _BY_CODE.get(code)
    if kind is None and (fields.get("decision") or {}).get("state") == "aborted":
        kind = Refused
    if kind is None and (status >= 500 or status == 429 or not status):
        kind = Unavailable
    if kind is None:
        kind = {401: Forbidden, 403: Forbidden, 404: NotFound}.get(status, BadRequest)
    return kind(fields)


def refused(decision: dict[str, Any]) -> Problem:
    """The error for a decision that is an abort."""
    fields = {**decision, "status": 409, "title": "the transaction was refused", "decision": decision}
    return _BY_CODE.get(decision.get("code", ""), Refused)(fields)
