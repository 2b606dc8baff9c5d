"""The attempts of a run: each start of it, or return to a state, has a number and a name that all its ranks share."""

import re
import secrets
import zlib
from typing import Any

import torch.distributed

from dali_pipes.arguments.process_rank import Process
from dali_pipes.errors import LoaderError

_NAME = re.compile(r"(\d{1,9})-[0-9a-f]{8}")
_KEY = "gpu_aug/attempt"


class Attempts:
    """Numbers and names the attempts of a loader.

    An attempt's number is one more than that of the attempt whose state was loaded. Two attempts that go on from one
    state have one number; what tells them apart is the rest of the name, on which the ranks of a process group agree
    through its store, without waiting for each other. No clock is asked.

    Attributes:
        latest: Name of the attempt that the loader is in, or whose state was loaded; "" before there was one.
    """

    def __init__(self) -> None:
        self.latest = ""
        self._began = -1

    def load(self, name: str) -> None:
        """Go on from a state of this attempt; "" if the state names none."""
        self.latest = name

    def begin(self, start: tuple[int, int], process: Process) -> tuple[str, str]:
        """Begin the next attempt; return its name and that of the attempt that it goes on from.

        Args:
            start: Epoch, and how many of its positions came before.
            process: Whose attempt it is.

        Raises:
            LoaderError: The store of the process group cannot be reached.
        """
        after, number = self.latest, 1 + max(self._began, number_of(self.latest))
        self._began = number
        shared = f"{after} {start[0]} {start[1]} {process.world_size}"
        token = _token_of_start(process) or f"{zlib.crc32(shared.encode()):08x}"
        self.latest = f"{number}-{token}"
        return self.latest, after


def is_attempt(name: Any) -> bool:
    """Whether it is the name of an attempt, or "" for none."""
    return isinstance(name, str) and (name == "" or _NAME.fullmatch(name) is not None)


def number_of(name: str) -> int:
    """Return the number of an attempt, from 0; -1 for none."""
    return int(name.partition("-")[0]) if name else -1


def _token_of_start(process: Process) -> str:
    """Return 8 hex digits that this start of the job has on all ranks, and no other has; "" where nobody tells.

    They decide nothing but which lines of an audit belong together, so they may come from the system's own source.
    """
    own = secrets.token_hex(4)
    store = _store_of_group()
    if store is None:
        return own if process.world_size == 1 else ""
    try:
        token: str = store.compare_set(_KEY, "", own).decode()
    except RuntimeError as error:
        words = str(error).partition("\n")[0]
        raise LoaderError(
            f"audit: the ranks cannot agree on a name for this start, since the store of the process group cannot be "
            f"reached ({words}); begin the loop while all ranks run"
        ) from error
    return token


def _store_of_group() -> Any:
    """Return the store of torch's process group, None without several ranks."""
    group: Any = torch.distributed
    if not (group.is_available() and group.is_initialized()) or group.get_world_size() < 2:
        return None
    try:
        return group.distributed_c10d._get_default_store()
    except (AttributeError, ValueError, KeyError):  # a backend without a store, such as MPI
        return None
