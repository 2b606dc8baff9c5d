"""Machine code that Numba made, kept in one folder for every process of a machine, or of a container.

An entry is a file, whose name holds a digest of all that the code depends on: the function, the types of its
arguments, the processor, the versions, and the text of every module of ours that the function's module imports,
directly or not. So no entry is ever out of date, and a folder that was prepared elsewhere can be used read-only.

Entries are pickles, as in Numba's own cache: a folder that strangers can write to is not used.
"""

import hashlib
import logging
import os
import pickle
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
from numba.core import event
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from gpu_aug.compiled.clock import clock
from gpu_aug.compiled.process_lock import Turn
from gpu_aug.gc_pause import pause_gc, resume_gc

_log = logging.getLogger(__name__)

_OURS = re.compile(r"(gpu_aug|dali_pipes|readers)\b")
_IMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+)?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_DIGEST_BYTES = 32
_STALE_SECONDS = 60 * 86400.0
_told: Turn | None = None
_num_compiled = 0
_depth = 0  # of functions that are compiled for others


class Kept(_Cache):  # type: ignore[misc, unused-ignore]
    """The compiled forms of one function: Numba looks here before it compiles, and hands over what it made.

    It calls these methods with its compiler's lock held, so one thread of a process at a time is here.

    Args:
        function: A function of a module that can be imported.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        # Now: the files may change while this process runs.
        self._sources = _sources(function.__module__)
        self._turn: Turn | None = None
        self._began = 0.0

    @property
    def cache_path(self) -> str:
        """The folder; nothing where there is none."""
        return str(folder() or "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled for these types before, or is being compiled by another process; else None."""
        self.finish()  # what was broken off
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        data = _read(path)
        if data is None:
            _begin()
            self._turn = Turn(None if path is None else path.with_suffix(".lock"))
            self._turn.wait()
            self._began = time.perf_counter()
            data = _read(path)
            if data is None:
                return None
            self.finish()
        return CompileResult._rebuild(target_context, *pickle.loads(data))

    def has(self, sig: Any) -> bool:
        """Whether the code for these types is there."""
        path = self._path(sig, cpu_target.target_context.codegen())
        return path is not None and path.exists()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, where that can be."""
        global _num_compiled
        _num_compiled += 1
        seconds = time.perf_counter() - self._began
        level = logging.INFO if _depth == 1 else logging.DEBUG  # those within are part of its time
        _log.log(level, "compiled %s in %.2f s", self._function.__qualname__, seconds)
        path = self._path(sig, data.codegen)
        if path is not None and not data.library.has_dynamic_globals:
            with suppress(OSError):  # read-only, or full
                _write(path, dumps(data._reduce()))
        self.finish()

    def finish(self) -> None:
        """End what `load_overload` began."""
        if self._turn is not None:
            self._turn.end()
            self._turn = None
            _finish()

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        parent, function = folder(), self._function
        if parent is None:
            return None
        name = f"{function.__module__}.{function.__qualname__}"
        depends = (
            *(name, function.__code__.co_firstlineno, str(sig)),
            *(codegen.magic_tuple(), numba.__version__, llvmlite.__version__, sys.version_info[:2]),
            self._sources,
        )
        return parent / f"{name}-{hashlib.sha256(repr(depends).encode()).hexdigest()[:32]}.code"

    def enable(self) -> None:
        """Nothing can be switched."""

    def disable(self) -> None:
        """Nothing can be switched."""

    def flush(self) -> None:
        """Nothing is ever out of date."""


class _Failures(event.Listener):  # type: ignore[misc, unused-ignore]
    """Hears of functions that cannot be compiled, for which `Kept.save_overload` is not called."""

    def on_start(self, event: Any) -> None:
        """Nothing to do."""

    def on_end(self, event: Any) -> None:
        """Let others try."""
        kept, failure = event.data["dispatcher"]._cache, event._exc_details
        if isinstance(kept, Kept) and failure is not None and failure[0] is not None:
            kept.finish()


event.register("numba:compile", _Failures())


@cache
def folder() -> Path | None:
    """Where compiled code is kept: ``$GPU_AUG_CACHE/compiled``, or ``~/.cache/gpu-aug/compiled`` when not set.

    Where Numba's own ``$NUMBA_CACHE_DIR`` is set, it is ``compiled`` in there. It is asked for once in a process.

    Returns:
        None where there can be no such folder, and where others than its owner can write to it, or its owner is
        neither this user, nor root, nor the owner of this package's files.
    """
    try:
        path = _path()
        with suppress(OSError):  # it may be there, and read-only
            path.mkdir(0o755, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None
    if not hasattr(os, "getuid"):
        return path
    owners = {0, os.getuid(), Path(__file__).stat().st_uid}
    return None if found.st_uid not in owners or found.st_mode & 0o022 else path


def can_keep() -> bool:
    """Whether what is compiled now will be there for the next process."""
    path = folder()
    return path is not None and os.access(path, os.W_OK | os.X_OK)


def _path() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR).absolute() / "compiled"
    return cache_folder() / "compiled"


def cache_folder() -> Path:
    """Return ``$GPU_AUG_CACHE``, or ``~/.cache/gpu-aug`` when not set, as `readers` know it too."""
    given = os.environ.get("GPU_AUG_CACHE") or "~/.cache/gpu-aug"
    return Path(given).expanduser().absolute()


def _begin() -> None:
    """Stop the clock, and the collector of garbage, which would take a tenth of the time and find none."""
    global _depth
    clock.stop()
    _tell()
    pause_gc()
    _depth += 1


def _finish() -> None:
    global _depth
    _depth -= 1
    resume_gc()
    clock.go_on()


def _tell() -> None:
    """Say on stderr that it takes a while: one process of those that compile into a folder, and in a rank 0."""
    global _told
    if _told is not None:
        return
    path = folder()
    _told = Turn(path / "telling.lock" if path is not None and can_keep() else None)
    if os.environ.get("RANK", "0") == "0" and _told.try_now():
        print(note(), file=sys.stderr, flush=True)  # noqa: T201 - a warning would be for the user to mend


def be_quiet() -> None:
    """Leave it to others to say that this process compiles."""
    global _told
    _told = Turn(None)


def num_compiled() -> int:
    """How many functions this process has compiled."""
    return _num_compiled


def note() -> str:
    """What is said when compiling begins."""
    begin = "gpu-aug: compiling for this processor"
    if can_keep():
        return f"{begin}, for up to half a minute; kept in {folder()}"
    try:
        where = str(_path())
    except RuntimeError:
        where = "a home folder, which is not there"
    return (
        f"{begin}, up to half a minute, which every process will, since nothing can be kept in {where}: "
        "set GPU_AUG_CACHE to a folder of your own that can be written, or prepare it with `gpu-aug warm`"
    )


@cache
def _sources(module: str) -> str:
    """A digest of the text of a module and of all of ours that it imports, directly or not."""
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _text(sys.modules[name])
            waiting.extend(_imported(found[name].decode()))
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name} {len(found[name])}\n".encode() + found[name])
    return digest.hexdigest()


def _imported(text: str) -> Iterator[str]:
    """The modules of ours that a module's text imports at its top level."""
    for source, names in _IMPORT.findall(text):
        found = re.findall(r"[\w.]+", names)
        candidates = [source, *(f"{source}.{name}" for name in found)] if source else found
        yield from (name for name in candidates if _OURS.match(name) and name in sys.modules)


def _text(module: ModuleType) -> bytes:
    loader: Any = module.__loader__
    data: bytes = loader.get_data(module.__file__)  # of a file, or out of a zip file
    return data


def _read(path: Path | None) -> bytes | None:
    """The content of an entry; None where there is none, or a damaged one."""
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def _write(path: Path, data: bytes) -> None:
    """Write an entry in one step, and remove what was made of older sources long ago."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.stem, delete=False) as file:
        try:
            file.write(hashlib.sha256(data).digest() + data)
            file.close()
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    stem, now = path.name.rpartition("-")[0], time.time()
    for other in path.parent.glob(f"{stem}-*"):
        with suppress(OSError):
            if now - other.stat().st_mtime > _STALE_SECONDS:
                other.unlink()
