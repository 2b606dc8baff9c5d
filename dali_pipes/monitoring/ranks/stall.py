"""Describe the threads of loaders (stage, samples, file and stack), for the report of a loop that gets no batch."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from dali_pipes.monitoring.ranks.background import call_with_timeout
from dali_pipes.monitoring.recorder import Recorder, Running
from gpu_aug.gc_pause import paused_gc

# Names of local variables and attributes that hold the file, in our readers and in other libraries.
_LOCALS = ("url", "location", "path", "filename", "file_name", "file")
_ATTRIBUTES = ("location", "_location", "_path", "path", "url")

_MAX_NAME_CHARS = 300  # of a file name: some URLs contain long signatures
_MAX_FRAMES = 40  # frames that are searched for a file: the reader is near the innermost frame
_MAX_SHOWN_FRAMES = 14  # longer stacks would hide the other threads

_KEYS_SECONDS = 2.0
"""Time limit for asking a dataset for sample keys; it may hang, too."""

_BEGINNINGS = ("threading", "concurrent")  # packages whose functions start threads and wait in them
_OURS, _WATCHES = (
    "gpu-aug",
    "gpu-aug-watch",
)  # prefixes of the names of our threads, and of our watching threads


class FilePlace(NamedTuple):
    """A file that a thread is reading.

    Attributes:
        file: Path or URL; "" if unknown.
        part: A description of the bytes of the file that are read; "" if unknown.
    """

    file: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.part}".rstrip()


class ThreadNow(NamedTuple):
    """A snapshot of a thread.

    Attributes:
        name: Name of the thread.
        ident: Identifier of the thread, `threading.Thread.ident`.
        frame: The thread's innermost frame.
    """

    name: str
    ident: int
    frame: FrameType

    @property
    def is_idle(self) -> bool:
        """Whether the thread belongs to a pool and waits for work."""
        code = self.frame.f_code
        parts = Path(code.co_filename).parts[-3:]
        return code.co_name == "_worker" and parts == ("concurrent", "futures", "thread.py")


def loader_threads(besides: int | None = None) -> list[ThreadNow]:
    """Return the threads of loaders and readers in this process, and the thread with the ident `besides`."""
    # Before Python 3.12, a garbage collection during this call deadlocks (python/cpython#106883).
    with paused_gc():
        frames = sys._current_frames()
    # Our own frame refers to `frames`, and so to everything in any frame.
    del frames[threading.get_ident()]
    return [
        ThreadNow(thread.name, thread.ident, frames[thread.ident])
        for thread in threading.enumerate()
        if thread.ident in frames
        and (thread.ident == besides or thread.name.startswith(_OURS))
        and not thread.name.startswith(_WATCHES)
    ]


def describe_threads(recorder: Recorder, looping: int | None = None) -> str:
    """Describe the work of the loaders' threads in this process, with their stacks.

    Args:
        recorder: Records the work of the threads.
        looping: Ident of the training thread.
    """
    running = {call.ident: call for call in recorder.running()}
    busy = [thread for thread in loader_threads(looping) if not thread.is_idle]
    lines = ["What its threads do:"]
    lines += [f"  {_describe_work(one, running.get(one.ident), looping)}" for one in busy]
    if num_idle := sum(thread.is_idle for thread in loader_threads()):
        lines.append(f"  {num_idle} more threads have nothing to do")
    lines.append("Where they are:")
    names: dict[tuple[str, ...], list[str]] = {}
    for thread in busy:
        names.setdefault(tuple(_stack_lines(thread.frame)), []).append(thread.name)
    for stack, threads in names.items():
        lines += [f"  {', '.join(threads)}:", *(f"    {line}" for line in stack)]
    return "\n".join(lines)


def describe_longest(running: Sequence[Running]) -> str:
    """Return stage, file and seconds of the call that has run longest; "" if none is running."""
    if not running:
        return ""
    longest = max(running, key=lambda call: call.seconds)
    threads = loader_threads(longest.ident)
    own = [one for one in threads if one.ident == longest.ident]
    pools = [one for one in threads if "gpu-aug-" in one.name and not one.is_idle]
    only_readers = longest.stage != "read"
    files = [file_at(one.frame, only_readers=only_readers).file for one in [*own, *pools]]
    where = next((f" {file}" for file in files if file), "")
    return f"{longest.stage}{where}, {longest.seconds:.0f} s"


def _describe_work(thread: ThreadNow, running: Running | None, looping: int | None) -> str:
    is_loop = thread.ident == looping
    name = f"{thread.name} (the training loop)" if is_loop else thread.name
    at = file_at(thread.frame, only_readers=running is None or running.stage != "read")
    place = f"at {at}" if at.file else ""
    if running is None:
        return f"{name}: {place or ('waits' if is_loop else 'is in no stage')}"
    keys = call_with_timeout(_KEYS_SECONDS, lambda: str(running.work or ""), "")
    details = ", ".join(filter(None, [keys, place]))
    work = f"{name}: {running.stage} for {running.seconds:.1f} s"
    return f"{work}: {details}" if details else work


def file_at(frame: FrameType, *, only_readers: bool = False) -> FilePlace:
    """Return the file that a thread is reading, according to its frames; a URL is preferred to a file in a cache.

    Args:
        frame: The innermost frame of the thread.
        only_readers: Whether to search only frames of our readers. During a read, any frame may name the file: that of
            a user's dataset or of a library, too.
    """
    nearest = FilePlace("")
    for one in _frames_outwards(frame):
        package = str(one.f_globals.get("__name__", "")).partition(".")[0]
        if package == "dali_pipes":
            break
        if package in _BEGINNINGS or (only_readers and package != "readers"):
            continue
        place = _file_in(one)
        if "://" in place.file:
            return FilePlace(_without_secrets(place.file), nearest.part or place.part)
        nearest = nearest if nearest.file else place
    return nearest


def _frames_outwards(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _file_in(frame: FrameType) -> FilePlace:
    """Return the file that a local variable of a frame, or an attribute of one, names."""
    values = frame.f_locals
    owner = values.get("self")
    names = [values.get(name) for name in _LOCALS]
    names += [_stored_attribute(owner, name) for name in _ATTRIBUTES]
    for value in names:
        if isinstance(value, str | os.PathLike) and (text := os.fsdecode(value)).strip():
            start, stop = values.get("start"), values.get("stop")
            part = f"bytes {start} to {stop}" if type(start) is type(stop) is int else ""
            return FilePlace(text[:_MAX_NAME_CHARS], part)
    return FilePlace("")


def _stored_attribute(owner: object, name: str) -> object:
    # Properties are not read: they may run any code and take locks.
    try:
        if name in getattr(type(owner), "__slots__", ()):
            return getattr(owner, name, None)
        return vars(owner).get(name)
    except TypeError:  # vars() of an object without a dictionary
        return None


def _without_secrets(url: str) -> str:
    from readers.storage.remote.options import shown  # remote storage is an optional import

    return shown(url)


def _stack_lines(frame: FrameType) -> list[str]:
    """Return one line per frame (file, line, function), the innermost last, without the frames that start a thread."""
    frames = list(_frames_outwards(frame))
    while len(frames) > 1 and str(frames[-1].f_globals.get("__name__", "")).startswith(_BEGINNINGS):
        frames.pop()
    lines = [
        f"{Path(*Path(one.f_code.co_filename).parts[-3:])}:{one.f_lineno} {one.f_code.co_qualname}"
        for one in frames
    ]
    return [*(["..."] if len(lines) > _MAX_SHOWN_FRAMES else []), *lines[:_MAX_SHOWN_FRAMES][::-1]]
