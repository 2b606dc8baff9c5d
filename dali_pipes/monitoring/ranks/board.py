"""Boards, where ranks leave reports for each other: a shared folder, or the store of torch's process group."""

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed

# Any: type checkers do not see the stores of torch.distributed.
_dist: Any = torch.distributed

_PREFIX = "gpu_aug/heartbeat"  # prefix of our keys in a store that is shared with other code

_ANSWER_SECONDS = 5.0
"""A store answers within milliseconds; after this time its machine is considered gone."""

_UNREACHABLE = "the store of the process group cannot be reached"


class BoardError(RuntimeError):
    """The board cannot be reached; the message says why."""


class StoreGoneError(BoardError):
    """The store of the process group can no longer be reached, usually because the run is over."""


class FolderBoard:
    """A folder shared by all ranks, with a file for the latest report of each rank; thread-safe.

    Args:
        folder: The folder; it is created with the first report.

    Attributes:
        name: Identifies the folder: boards of one folder have one name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.name = folder, os.path.realpath(folder)

    def write(self, rank: int, report: bytes) -> None:
        """Replace the report of a rank.

        Raises:
            BoardError: The folder cannot be written to.
        """
        path = self._path(rank)
        writer = f"{os.getpid()}.{threading.get_native_id()}"  # a unique name, because two loops may write at once
        unfinished = path.with_name(f".{path.name}.{writer}.new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(report)
            unfinished.replace(path)
        except OSError as error:
            raise BoardError(f"the folder {self._folder} cannot be written to: {error}") from error

    def read(self, rank: int) -> bytes | None:
        """Return the latest report of a rank; None if the rank has not written one.

        Raises:
            BoardError: The folder cannot be read.
        """
        try:
            return self._path(rank).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BoardError(f"the folder {self._folder} cannot be read: {error}") from error

    def _path(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.json"


class StoreBoard:
    """The store of torch's process group, through which the ranks found each other; thread-safe.

    A clone of the store has its own connection, so one thread can use it while another one waits in a collective. The
    server runs in the process of rank 0 and may end before this rank does. A separate idle connection detects that in
    time; without it, torch would write a page of C++ stack frames to stderr.

    Args:
        store: The store of the group.

    Attributes:
        name: Identifies the store: boards of one store have one name.
        failure: Why the store can no longer be reached; "" if it can.

    Raises:
        BoardError: The store cannot be reached.
    """

    def __init__(self, store: Any) -> None:
        self._lock = threading.Lock()
        self.name, self.failure = f"store {id(self)}", ""
        try:
            clone = store.clone()
            clone.set_timeout(timedelta(seconds=_ANSWER_SECONDS))
            self._store = _dist.PrefixStore(_PREFIX, clone)
            self._sentinel = _idle_connection(store)
        except (OSError, RuntimeError) as error:
            raise BoardError(f"{_UNREACHABLE}: {error}") from error
        if self._sentinel is not None:
            weakref.finalize(self, self._sentinel.close)

    def write(self, rank: int, report: bytes) -> None:
        """Replace the report of a rank.

        Raises:
            StoreGoneError: The store cannot be reached.
        """
        self._ask(lambda: self._store.set(str(rank), report.decode()))

    def read(self, rank: int) -> bytes | None:
        """Return the latest report of a rank; None if the rank has not written one.

        Raises:
            StoreGoneError: The store cannot be reached.
        """
        key = str(rank)
        # Checked first: get() would block if the key does not exist.
        found: bytes | None = self._ask(
            lambda: bytes(self._store.get(key)) if self._store.check([key]) else None
        )
        return found

    def _ask(self, question: Callable[[], Any]) -> Any:
        with self._lock:
            if self._is_closed():
                self.failure = self.failure or "its server has ended"
            if self.failure:
                raise StoreGoneError(f"{_UNREACHABLE}: {self.failure}")
            try:
                return question()
            except RuntimeError as error:
                # The store is not used again: a late answer would be taken for the answer to the next request.
                self.failure = str(error).partition("\n")[0]
                raise StoreGoneError(f"{_UNREACHABLE}: {self.failure}") from error

    def _is_closed(self) -> bool:
        if self._sentinel is None:
            return False
        try:
            readable, _, _ = select.select([self._sentinel], [], [], 0)
        except (OSError, ValueError):  # ValueError: select does not support descriptors above 1023
            return False
        return bool(readable)


Board = FolderBoard | StoreBoard


def _without_prefixes(store: Any) -> Any:
    while isinstance(store, _dist.PrefixStore):
        store = store.underlying_store
    return store


def _idle_connection(store: Any) -> socket.socket | None:
    """Return a connection to a store's server, which closes when the server ends; None if the store has no server."""
    base = _without_prefixes(store)
    if isinstance(base, _dist.TCPStore):
        # Without this connection the board works, but torch writes to stderr when the server ends.
        with suppress(OSError):
            return socket.create_connection((base.host, base.port), timeout=_ANSWER_SECONDS)
    return None


def group_store() -> Any:
    """Return the store of torch's process group; None without a group of several ranks, or if the backend has no store."""
    group = _dist
    if not (group.is_available() and group.is_initialized()) or group.get_world_size() < 2:
        return None
    try:
        return group.distributed_c10d._get_default_store()
    except (AttributeError, ValueError, KeyError):  # a backend without a store, such as MPI
        return None


_latest: list[tuple[Callable[[], Any], StoreBoard]] = []
"""The board of the latest process group, with a weak reference to its store: a strong one would keep its server
alive."""


def group_board() -> tuple[StoreBoard, int, int] | None:
    """Return the board of torch's process group, this process's rank and the world size; None without a store.

    Raises:
        BoardError: The store cannot be reached, or is a FileStore.
    """
    store = group_store()
    if store is None:
        return None
    if isinstance(_without_prefixes(store), _dist.FileStore):
        # A FileStore grows with every report, and a clone prevents torch from deleting the file.
        raise BoardError(
            "the store of the process group is a file, which cannot hold reports: give heartbeat= a folder"
        )
    for known, board in list(_latest):
        if known() is store and not board.failure:
            break
    else:
        board = StoreBoard(store)
        _latest[:] = [(weakref.ref(store), board)]
    return board, _dist.get_rank(), _dist.get_world_size()


os.register_at_fork(after_in_child=_latest.clear)  # the child must not share the connection
