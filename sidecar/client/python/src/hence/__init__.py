"""Client of Hence: what an agent reads, writes and does settles as one transaction.

    import hence

    @hence.transaction
    def sell(t):
        t["stock/mugs"] = t["stock/mugs"] - 1
        t.call("mail", {"to": "ann", "text": "sold"})

    sell()
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import aio
from ._declared import acts, reads
from ._sync import Client, Tx
from .errors import (
    BadRequest, Conflict, Denied, Forbidden, HenceError, NotFound, PhantomTool, Problem, Refused, StaleRead, ToolFailed,
    Unavailable, UnknownLocalTool, VersionMismatch,
)

if TYPE_CHECKING:
    from ._shapes import Offer

__version__ = "0.1.0"

__all__ = [
    "BadRequest", "Client", "Conflict", "Denied", "Forbidden", "HenceError", "NotFound", "PhantomTool", "Problem",
    "Refused", "StaleRead", "ToolFailed", "Tx", "Unavailable", "UnknownLocalTool", "VersionMismatch", "acts", "aio",
    "decisions", "default", "reads", "tools", "transaction", "tx",
]


@functools.lru_cache(maxsize=1)
def default() -> Client:
    """The client that the environment describes, made at its first use."""
    return Client()


def tx(**begin: Any) -> Tx:
    """A transaction of the default client: `with hence.tx() as t`."""
    return default().tx(**begin)


def transaction(work: Any = None, /, **begin: Any) -> Any:
    """Decorator over the default client, as Client.transaction. The client is made when the function is called."""
    if work is None:
        return functools.partial(transaction, **begin)

    @functools.wraps(work)
    def run(*args: Any, **kwargs: Any) -> Any:
        return default().transaction(work, **begin)(*args, **kwargs)

    return run


def tools() -> list[Offer]:
    """What the policy offers to agents."""
    return default().tools()


def decisions(after: int | None = None, **filters: Any) -> Iterator[dict[str, Any]]:
    """Every decision as it comes."""
    return default().decisions(after, **filters)
