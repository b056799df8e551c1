"""NotRequired, also where typing has none (Python 3.10): there, only type checkers look at shapes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 11):
    from typing import NotRequired
else:

    class NotRequired:
        """Stands for typing.NotRequired; annotations are not evaluated."""

        def __class_getitem__(cls, item: Any) -> Any:
            return item

__all__ = ["NotRequired"]
