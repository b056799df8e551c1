"""What a local tool does, where the policy does not know it: the program itself says."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")

_MARK = "_hence_declared"


def reads(tool: T) -> T:
    """Says that a local tool only looks: it is run in its place, and nothing of it is held or undone."""
    return _mark(tool, "reads")


def acts(tool: T) -> T:
    """Says that a local tool acts, and that Hence is not to hold or undo it: it runs once, in issuance order."""
    return _mark(tool, "acts")


def _mark(tool: T, what: str) -> T:
    object.__setattr__(tool, _MARK, what)
    return tool


def declared(*tools: Any) -> str:
    """What was said of a tool, or of the function under it; nothing: an empty text."""
    for tool in tools:
        said = getattr(tool, _MARK, "")
        if said:
            return said
    return ""
