"""Boards, on which ranks leave notes for each other: a shared folder, or the store of torch's process group."""

import os
import select
import socket
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch.distributed

_dist: Any = (
    torch.distributed
)  # its stores are not among the names that it exports to type checkers

_PREFIX = "gpu_aug/heartbeat"
_ANSWER_SECONDS = 5.0  # a store that does not answer for so long is given up


class BoardError(RuntimeError):
    """The board cannot be reached; the text says why."""


class StoreGoneError(BoardError):
    """The store of the process group cannot be reached any more, most often because the run is over."""


class Board(Protocol):
    """Keeps the latest note of every rank; safe from any thread.

    Attributes:
        name: The same for boards that are at the same place.
    """

    name: str

    def write(self, rank: int, note: bytes) -> None:
        """Leave a note in the place of the rank's last one.

        Raises:
            BoardError: It cannot be left.
        """

    def read(self, rank: int) -> bytes | None:
        """Return the latest note of a rank; None where it has left none.

        Raises:
            BoardError: Nobody can tell.
        """


class FolderBoard:
    """A file for each rank in a folder that all ranks see; written anew under another name, then renamed.

    Args:
        folder: Is made when it is first written to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.name = folder, os.path.realpath(folder)

    def write(self, rank: int, note: bytes) -> None:
        """See `Board.write`."""
        path = self._path(rank)
        writer = (
            f"{os.getpid()}.{threading.get_native_id()}"  # loops of a process may write at once
        )
        unfinished = path.with_name(f".{path.name}.{writer}.new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(note)
            unfinished.replace(path)
        except OSError as error:
            raise BoardError(f"the folder {self._folder} cannot be written to: {error}") from error

    def read(self, rank: int) -> bytes | None:
        """See `Board.read`."""
        try:
            return self._path(rank).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BoardError(f"the folder {self._folder} cannot be read: {error}") from error

    def _path(self, rank: int) -> Path:
        return self._folder / f"rank-{rank}.json"


class StoreBoard:
    """The store through which the ranks of torch's process group found each other.

    A clone of it has a connection of its own, so it serves a thread while another one waits in a collective. The
    server may end before this rank does, with the process of rank 0: an idle connection beside it tells in time, for
    torch would write a page of C++ frames to stderr.

    Args:
        store: The store of the group.

    Raises:
        BoardError: It cannot be reached.
    """

    def __init__(self, store: Any) -> None:
        self._lock = threading.Lock()
        self._gone, self.name = "", f"store {id(self)}"
        try:
            clone = store.clone()
            clone.set_timeout(timedelta(seconds=_ANSWER_SECONDS))
            self._store = _dist.PrefixStore(_PREFIX, clone)
            self._sentinel = _connection_beside(store)
            if self._sentinel is not None:
                weakref.finalize(self, self._sentinel.close)
        except (OSError, RuntimeError) as error:
            raise BoardError(
                f"the store of the process group cannot be reached: {error}"
            ) from error

    def has_ended(self) -> bool:
        """Whether it cannot be reached any more."""
        return bool(self._gone)

    def write(self, rank: int, note: bytes) -> None:
        """See `Board.write`."""
        self._ask(lambda: self._store.set(str(rank), note.decode()))

    def read(self, rank: int) -> bytes | None:
        """See `Board.read`."""

        def look() -> bytes | None:
            key = str(rank)  # get() waits for a key that is not there
            return bytes(self._store.get(key)) if self._store.check([key]) else None

        found: bytes | None = self._ask(look)
        return found

    def _ask(self, question: Any) -> Any:
        with self._lock:
            if not self._gone and self._is_closed():
                self._gone = "its server has ended"
            if self._gone:
                raise StoreGoneError(
                    f"the store of the process group cannot be reached: {self._gone}"
                )
            try:
                return question()
            except RuntimeError as error:
                # An answer that comes late would be taken for that to the next question.
                self._gone = str(error).partition("\n")[0]
                raise StoreGoneError(
                    f"the store of the process group cannot be reached: {self._gone}"
                ) from error

    def _is_closed(self) -> bool:
        if self._sentinel is None:
            return False
        try:
            readable, _, _ = select.select([self._sentinel], [], [], 0)
        except (OSError, ValueError):  # ValueError: select takes no descriptors beyond 1023
            return False
        return bool(readable)


def _base_of(store: Any) -> Any:
    """The store behind the prefixes."""
    while isinstance(store, _dist.PrefixStore):
        store = store.underlying_store
    return store


def _connection_beside(store: Any) -> socket.socket | None:
    """An idle connection to the server of a store, which closes when the server ends; None where there is no server."""
    base = _base_of(store)
    if not isinstance(base, _dist.TCPStore):
        return None
    with suppress(OSError):
        return socket.create_connection((base.host, base.port), timeout=_ANSWER_SECONDS)
    return None


_of_group: list[tuple[Callable[[], Any], StoreBoard]] = []
"""The board of the latest process group, and a weak reference to its store: holding it would keep its server alive."""


def group_board() -> tuple[StoreBoard, int, int] | None:
    """Return the board of torch's process group, this process's rank in it, and its size; None without several ranks.

    Raises:
        BoardError: The store cannot be reached, or is a file.
    """
    group = _dist
    if not (group.is_available() and group.is_initialized()) or group.get_world_size() < 2:
        return None
    try:
        store = group.distributed_c10d._get_default_store()
    except (AttributeError, ValueError, KeyError) as error:
        raise BoardError(f"the process group tells of no store: {error}") from error
    if isinstance(_base_of(store), _dist.FileStore):
        # It grows with every note, and a clone of it keeps torch from deleting the file.
        raise BoardError(
            "the store of the process group is a file, which is no place for notes: give heartbeat= a folder"
        )
    return _board_of(store), group.get_rank(), group.get_world_size()


def _board_of(store: Any) -> StoreBoard:
    """The board of a store, which is made once."""
    for known, board in list(_of_group):
        if known() is store and not board.has_ended():
            return board
    board = StoreBoard(store)
    _of_group[:] = [(weakref.ref(store), board)]
    return board


os.register_at_fork(after_in_child=_of_group.clear)
