"""What a local tool does, where the policy does not know it: the program itself says."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any, TypeVar

T = TypeVar("T")

_MARK = "_hence_declared"


def reads(tool: T) -> T:
    """Says that a local tool only looks: it is run in its place, and nothing of it is held or undone."""
    return _mark(tool, "reads")


def acts(tool: T) -> T:
    """Says that a local tool acts, and that Hence is not to hold or undo it: it runs once, in issuance order."""
    return _mark(tool, "acts")


def _mark(tool: Any, what: str) -> Any:
    if isinstance(tool, types.FunctionType):
        marked = types.FunctionType(tool.__code__, tool.__globals__, tool.__name__, tool.__defaults__, tool.__closure__)
        functools.update_wrapper(marked, tool)
        del marked.__wrapped__  # it is the function, not one around it
        marked.__kwdefaults__ = tool.__kwdefaults__
    else:
        marked = copy.copy(tool)  # what else uses the tool has not said so
    object.__setattr__(marked, _MARK, what)
    return marked


def declared(*tools: Any) -> str:
    """What was said of a tool, or of the function under it; nothing: an empty text."""
    for tool in tools:
        said = getattr(tool, _MARK, "")
        if said:
            return said
    return ""
