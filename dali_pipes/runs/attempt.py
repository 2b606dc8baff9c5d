"""Name the attempts of a run: each start, and each return to a state, has a number and a name that all ranks share."""

import re
import secrets
import zlib
from typing import Any

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.ranks.board import group_store

_NAME = re.compile(r"(\d{1,9})-[0-9a-f]{8}")

_KEY = "gpu_aug/attempt"
"""Key in the store of a process group for the token of this start."""


class Attempts:
    """Names the attempts of a loader.

    The number of an attempt is one more than the number of the attempt whose state was loaded. Two attempts that load
    the same state have the same number, but different tokens in their names. The ranks of a process group agree on the
    token through the group's store, without waiting for each other. Clocks are not used (DECISIONS.md, "Attempts of a
    run").

    Attributes:
        latest: Name of this loader's attempt, or of the attempt whose state was loaded; "" before the first attempt, or
            if the state names none.
    """

    def __init__(self) -> None:
        self.latest = ""
        self._number = -1  # how many attempts precede the latest one

    def begin(self, start: tuple[int, int], process: Process) -> tuple[str, str]:
        """Start the next attempt.

        Args:
            start: Epoch, and count of the epoch's positions that were handed over before.
            process: Rank and world size.

        Returns:
            The name of the attempt, and the name of the attempt that it continues ("" if it continues none).

        Raises:
            LoaderError: The store of the process group cannot be reached.
        """
        after = self.latest
        number = int(after.partition("-")[0]) if after else -1
        self._number = 1 + max(self._number, number)
        shared = f"{after} {start[0]} {start[1]} {process.world_size}"
        token = _token_of_start(process) or f"{zlib.crc32(shared.encode()):08x}"
        self.latest = f"{self._number}-{token}"
        return self.latest, after


def is_attempt(name: Any) -> bool:
    """Return whether a value is the name of an attempt, or "" for no attempt."""
    return isinstance(name, str) and (name == "" or _NAME.fullmatch(name) is not None)


def _token_of_start(process: Process) -> str:
    """Return 8 hex digits that only the ranks of this start share; "" without a process group's store.

    The digits only decide which lines of an audit belong together, so they may be random.
    """
    own = secrets.token_hex(4)
    store = group_store()
    if store is None:
        return own if process.world_size == 1 else ""
    try:
        return str(store.compare_set(_KEY, "", own).decode())
    except RuntimeError as error:
        words = str(error).partition("\n")[0]
        raise LoaderError(
            f"audit: the ranks cannot agree on a name for this start, since the store of the process group cannot be "
            f"reached ({words}); begin the loop while all ranks run"
        ) from error
