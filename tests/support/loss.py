"""Cells of the table in tests/readers/loss: what a format does in a situation where data could be lost without a word."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class NotApplicable:
    """A situation that a format cannot be in.

    Attributes:
        reason: One sentence that says why.
    """

    reason: str


Cell = Callable[[Path], None] | NotApplicable
"""Makes the situation in an empty folder and asserts the right value; or says why there is none."""
