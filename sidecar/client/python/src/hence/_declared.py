"""What a local tool does, where the policy does not know it: the program itself says."""

from __future__ import annotations

import copy
import functools
import re
import types
from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")

_MARK = "_hence_declared"


def reads(tool: T) -> T:
    """Says that a local tool only looks: it is run in its place, and nothing of it is held or undone."""
    return _mark(tool, "reads")


def acts(tool: T) -> T:
    """Says that a local tool acts, and that Hence is not to hold or undo it: it runs once, in issuance order."""
    return _mark(tool, "acts")


def policy_names(offers: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The policy's tools by the names that frameworks have for them. APIs of models take no "." in a name: board_post is
    board.post, unless the policy has a tool of that name, or two that would share it."""
    names: dict[str, str] = {}
    shared = set()
    for offer in offers:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", offer["name"])
        for alias in {plain, plain.replace("-", "_")}:
            if alias in names:
                shared.add(alias)
            names[alias] = offer["name"]
    for alias in shared:
        del names[alias]
    return names | {offer["name"]: offer["name"] for offer in offers}


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
