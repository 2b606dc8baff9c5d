"""Define the options of reports between ranks (`heartbeat_sender`) and of stall reports (`watch`)."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dali_pipes.errors import LoaderError

_ALLOWED = (
    'allowed are "auto", a folder that all ranks share, Heartbeat(...), or None for no watch at all'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Options of the reports between ranks, and of the reports about loops that get no batch.

    Attributes:
        folder: A folder that all ranks of this run share, and no other run; each rank keeps one small file there,
            ``rank-N.json``. None uses the store of torch's process group, if there is a group of several ranks.
        every_seconds: Seconds between two reports of a rank, 0.1 to 3600.
        stall_seconds: A loop that waits this long for one batch is reported, with a description of its threads; at
            least 0.5. Stay well below the time limit of the collectives (torch: 10 minutes for NCCL, 30 for gloo).

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> watched = Heartbeat(folder="run1", stall_seconds=120)
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=Monitoring(heartbeat=watched))
        >>> batch = loader.peek()
    """

    folder: str | os.PathLike[str] | None = None
    every_seconds: float = 5.0
    stall_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.folder is not None:
            _require_folder(self.folder)
        _require_seconds("every_seconds", self.every_seconds, 0.1, 3600.0)
        _require_seconds("stall_seconds", self.stall_seconds, 0.5, math.inf)


HeartbeatChoice = str | os.PathLike[str] | Heartbeat | None
"""The type of ``Monitoring(heartbeat=...)``: "auto", a folder, a Heartbeat, or None."""


def as_heartbeat(value: Any) -> Heartbeat | None:
    """Return the Heartbeat for the argument ``Monitoring(heartbeat=...)``; None switches the watch off.

    Raises:
        LoaderError: The value is not allowed.
    """
    if value is None or isinstance(value, Heartbeat):
        return value
    if value == "auto":
        return Heartbeat()
    if isinstance(value, str | os.PathLike):
        return Heartbeat(folder=value)
    raise LoaderError(f"heartbeat={value!r} is not known; {_ALLOWED}")


def _require_folder(folder: Any) -> None:
    if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
        raise LoaderError(f"heartbeat: folder={folder!r} is no folder; {_ALLOWED}")
    if Path(os.fsdecode(folder)).is_file():
        raise LoaderError(f"heartbeat: {os.fsdecode(folder)} is a file; give a folder for it")


def _require_seconds(name: str, value: Any, least: float, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        allowed = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise LoaderError(f"heartbeat: {name}={value!r} is not allowed; give seconds, {allowed}")
