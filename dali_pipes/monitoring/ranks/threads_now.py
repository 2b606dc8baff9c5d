"""What threads are at this moment: their stacks, and the file that one is reading."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from gpu_aug.gc_pause import paused_gc

# What the frames of readers, ours and others', call the file that they are at.
_LOCALS = ("url", "location", "path", "filename", "file_name", "file")
_ATTRIBUTES = ("location", "_location", "_path", "path", "url")
_LONGEST = 300  # of a name that is shown
_DEEPEST = 40  # frames that are looked at
_SHOWN = 14  # frames of a stack that are shown

_BEGINNINGS = ("threading", "concurrent")  # how threads begin, and wait
_OURS, _WATCHES = "gpu-aug", "gpu-aug-watch"


class At(NamedTuple):
    """Where in which file a thread is.

    Attributes:
        file: Path or URL; "" where that is not known.
        part: Which bytes of it, in words, or "".
    """

    file: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.part}".rstrip()


class Thread(NamedTuple):
    """A thread as it was at one moment.

    Attributes:
        name: As threading has it.
        ident: As threading has it.
        frame: Its innermost frame.
    """

    name: str
    ident: int
    frame: FrameType

    @property
    def is_idle(self) -> bool:
        """Whether it is a pool's thread that waits for work."""
        code = self.frame.f_code
        parts = Path(code.co_filename).parts[-3:]
        return code.co_name == "_worker" and parts == ("concurrent", "futures", "thread.py")


def loader_threads(besides: int | None = None) -> list[Thread]:
    """The threads of loaders and readers in this process, and one more by its ident."""
    # A collection within this call stops Python before 3.12 for good (python/cpython#106883).
    with paused_gc():
        frames = sys._current_frames()
    del frames[threading.get_ident()]  # which holds `frames`, and with it all there is in any frame
    return [
        Thread(thread.name, thread.ident, frames[thread.ident])
        for thread in threading.enumerate()
        if thread.ident in frames
        and (thread.ident == besides or thread.name.startswith(_OURS))
        and not thread.name.startswith(_WATCHES)
    ]


def file_at(frame: FrameType, *, of_readers: bool = False) -> At:
    """The file that a thread is at, as its frames name it.

    Args:
        frame: The innermost frame of the thread.
        of_readers: Whether only frames of our readers are asked. While it reads, any may be: those of a dataset of
            the user's, or of a library.
    """
    near = At("")
    for one in _outwards(frame):
        package = _package(one)
        if package == "dali_pipes":
            break
        if package in _BEGINNINGS or (of_readers and package != "readers"):
            continue
        found = _named_by(one)
        if "://" in found.file:
            return At(_shown_url(found.file), near.part or found.part)
        near = near if near.file else found
    return near


def stack_lines(frame: FrameType) -> list[str]:
    """A line for each frame, the innermost last: file, line, function; without what every thread begins with."""
    frames = list(_outwards(frame))
    while len(frames) > 1 and _package(frames[-1]) in _BEGINNINGS:
        frames.pop()
    lines = [_place(one.f_code, one.f_lineno) for one in frames]
    return [*(["..."] if len(lines) > _SHOWN else []), *reversed(lines[:_SHOWN])]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_DEEPEST):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _named_by(frame: FrameType) -> At:
    """What a frame calls its file."""
    values = frame.f_locals
    own = values.get("self")
    named = [values.get(name) for name in _LOCALS]
    named += [_attribute(own, name) for name in _ATTRIBUTES]
    for value in named:
        if isinstance(value, str | os.PathLike) and (text := os.fsdecode(value)).strip():
            start, stop = values.get("start"), values.get("stop")
            part = f"bytes {start} to {stop}" if type(start) is type(stop) is int else ""
            return At(text[:_LONGEST], part)
    return At("")


def _attribute(owner: object, name: str) -> object:
    # Of what is stored alone: a property may do anything, and take locks.
    try:
        if name in getattr(type(owner), "__slots__", ()):
            return getattr(owner, name, None)
        return vars(owner).get(name)
    except TypeError:
        return None


def _shown_url(text: str) -> str:
    from readers.storage.remote.options import shown

    return shown(text)


def _place(code: CodeType, line: int | None) -> str:
    return f"{Path(*Path(code.co_filename).parts[-3:])}:{line} {code.co_qualname}"
