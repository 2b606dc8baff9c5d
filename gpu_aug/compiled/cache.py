"""A cache of machine code that Numba compiled, in one folder for all processes of a machine or a container.

An entry is a file. Its name contains a digest of everything that the code depends on: the function, the types of its arguments,
the processor, Numba's settings, the versions of Python, NumPy, Numba and llvmlite, and the text of every module of this project
that the function's module imports, directly or not. So no entry is ever out of date, and a folder that was prepared elsewhere
can be used read-only.

Entries are pickles, as in Numba's own cache, so a folder that other users can write to is not used.
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
import numpy as np
from numba.core import event
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.ir import Scope
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from gpu_aug.compiled.clock import clock
from gpu_aug.compiled.process_lock import ProcessLock
from gpu_aug.gc_pause import pause_gc, resume_gc

_log = logging.getLogger(__name__)

_OURS = re.compile(
    r"(gpu_aug|dali_pipes|readers)\b"
)  # those whose functions end up in compiled code
# "import a, b", "from a import b, c" and "from a import (b,\n c)" at the top level. Each process reads about 60 modules:
# this takes 20 ms in all, `ast` 70 ms. A test compares both. A line of a text that looks like an import does no harm:
# the entry then depends on one more module.
_IMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+)?import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
# The versions that decide about the code.
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, sys.version_info[:2])
# Numba's settings that change the code of a function; environment variables set them.
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT")
_DIGEST_BYTES = 32  # SHA-256
# An older entry is of other sources or versions; two months, as people switch between branches.
_STALE_SECONDS = 60 * 86400.0
_announcing: ProcessLock | None = None
_is_announced = False  # whether this process printed the announcement
_num_compiled = 0
_depth = 0  # how many functions are being compiled: one compiles those that it calls


class CompiledFunctionCache(_Cache):  # type: ignore[misc, unused-ignore]
    """The compiled forms of one function: Numba looks here before it compiles, and stores here what it compiled.

    Numba calls the methods with its compiler lock held, so only one thread of a process runs them at a time.

    Args:
        function: A function of a module that can be imported. It must not be a closure, because values that it closes over are
            not part of the key.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        assert function.__closure__ is None
        self._function = function
        # Read at once, because the files may change while this process runs.
        self._sources = _sources(function.__module__)
        self._lock: ProcessLock | None = None
        self._began = 0.0

    @property
    def cache_path(self) -> str:
        """Path of the folder, or "" if there is none."""
        return str(folder() or "")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code for these argument types, or None if this process must compile it.

        If another process compiles it at the moment, wait for that.
        """
        self.finish()  # a compilation that was interrupted
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        data = _read(path)
        if data is None:
            _begin()
            self._lock = ProcessLock(None if path is None else path.with_suffix(".lock"))
            self._lock.wait()
            self._began = time.perf_counter()
            data = _read(path)
            if data is None:
                return None
            self.finish()
        return CompileResult._rebuild(target_context, *pickle.loads(data))

    def has(self, sig: Any) -> bool:
        """Return whether the code for these argument types is stored."""
        path = self._path(sig, cpu_target.target_context.codegen())
        return path is not None and path.exists()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code, if the folder is writable."""
        global _num_compiled
        _num_compiled += 1
        seconds = time.perf_counter() - self._began
        level = logging.INFO if _depth == 1 else logging.DEBUG  # those within are part of its time
        _log.log(level, "compiled %s in %.2f s", self._function.__qualname__, seconds)
        data.library._ensure_finalized()  # Numba makes a unit's machine code later
        for environment in data._find_referenced_environments():  # those of `inner` functions
            data.codegen.set_env(environment.env_name, environment)
        path = self._path(sig, data.codegen)
        if path is not None and not data.library.has_dynamic_globals:
            with suppress(OSError):  # read-only, or full
                _write(path, dumps(data._reduce()))
        self.finish()

    def finish(self) -> None:
        """Release the lock that `load_overload` took."""
        if self._lock is not None:
            self._lock.end()
            self._lock = None
            _finish()

    def _path(self, sig: Any, codegen: Any) -> Path | None:
        parent, function = folder(), self._function
        if parent is None:
            return None
        name = f"{function.__module__}.{function.__qualname__}"
        settings = [getattr(numba.config, setting) for setting in _SETTINGS]
        depends = (
            *(name, function.__code__.co_firstlineno, str(sig)),
            *(codegen.magic_tuple(), settings, _VERSIONS, self._sources),
        )
        return parent / f"{name}-{hashlib.sha256(repr(depends).encode()).hexdigest()[:32]}.code"

    def enable(self) -> None:
        """Do nothing: the cache is always on."""

    def disable(self) -> None:
        """Do nothing: the cache is always on."""

    def flush(self) -> None:
        """Do nothing: no entry is ever out of date."""


class _FailureListener(event.Listener):  # type: ignore[misc, unused-ignore]
    """Releases the lock if a function fails to compile, because Numba does not call `save_overload` then."""

    def on_start(self, event: Any) -> None:
        """Do nothing."""

    def on_end(self, event: Any) -> None:
        """Release the lock if the compilation failed."""
        cache, (failure, *_) = event.data["dispatcher"]._cache, event._exc_details or (None,)
        if failure is not None and isinstance(cache, CompiledFunctionCache):
            cache.finish()


event.register("numba:compile", _FailureListener())


@cache
def folder() -> Path | None:
    """Return the folder of compiled code: ``$GPU_AUG_CACHE/compiled``, by default ``~/.cache/gpu-aug/compiled``.

    If Numba's own ``$NUMBA_CACHE_DIR`` is set, it is the folder ``compiled`` in there. The result is fixed for a process.

    Returns:
        The path. None if the folder cannot exist, if others than its owner can write to it, or if its owner is neither this user,
        nor root, nor the owner of this package's files.
    """
    try:
        path = _path()
        with suppress(OSError):  # it may exist and be read-only
            path.mkdir(0o755, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        return None
    if not hasattr(os, "getuid"):
        return path
    owners = {0, os.getuid(), Path(__file__).stat().st_uid}
    return None if found.st_uid not in owners or found.st_mode & 0o022 else path


def can_keep() -> bool:
    """Return whether this process can store compiled code for later processes."""
    path = folder()
    return path is not None and os.access(path, os.W_OK | os.X_OK)


def _path() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR).absolute() / "compiled"
    return cache_folder() / "compiled"


def cache_folder() -> Path:
    """Return the folder ``$GPU_AUG_CACHE``, by default ``~/.cache/gpu-aug``; `readers` uses the same rule."""
    given = os.environ.get("GPU_AUG_CACHE") or "~/.cache/gpu-aug"
    return Path(given).expanduser().absolute()


def _begin() -> None:
    """Stop the clock, announce the compilation if it is the first, and pause the garbage collector.

    The collector would take a tenth of the time and find nothing.
    """
    global _depth
    clock.stop()
    announce()
    pause_gc()
    # Numba copies an inlined function block by block, each time with the scope, which has all variables of the function: a
    # tenth of the time. The function was read for this one copy, so the copy may have the same scope.
    Scope.__deepcopy__ = _return_it
    _depth += 1


def _return_it(scope: Scope, _memo: Any) -> Scope:
    return scope


def _finish() -> None:
    global _depth
    _depth -= 1
    if not _depth:
        del Scope.__deepcopy__
    resume_gc()
    clock.go_on()


def announce() -> None:
    """Print once that compiling takes a while: only on rank 0, and only in one of the processes that share a folder."""
    global _announcing, _is_announced
    if _announcing is not None:
        return
    path = folder()
    _announcing = ProcessLock(path / "announcing.lock" if path is not None and can_keep() else None)
    if os.environ.get("RANK", "0") == "0" and _announcing.try_now():
        _is_announced = True
        print(note(), file=sys.stderr, flush=True)  # noqa: T201 - a warning would be for the user to mend


def show_progress(num_done: int, num_all: int) -> None:
    """Show on a terminal how many functions are compiled, below the announcement if this process printed it."""
    if _is_announced and sys.stderr.isatty():
        end = "\n" if num_done == num_all else ""
        text = f"\rgpu-aug: {num_done} of {num_all} functions compiled"
        print(text, end=end, file=sys.stderr, flush=True)  # noqa: T201


def be_quiet() -> None:
    """Leave the announcement of compiling to other processes."""
    global _announcing
    _announcing = ProcessLock(None)


def num_compiled() -> int:
    """Return the number of functions that this process has compiled."""
    return _num_compiled


def note() -> str:
    """Return the text that is printed when compiling begins."""
    begin = "gpu-aug: compiling for this processor"
    if can_keep():
        return f"{begin}, for up to half a minute; kept in {folder()}"
    try:
        where = str(_path())
    except RuntimeError:
        where = "a home folder, which does not exist"
    return (
        f"{begin}, up to half a minute in every process, since nothing can be kept in {where}: "
        "set GPU_AUG_CACHE to a folder of your own that can be written, or prepare it with `gpu-aug warm`"
    )


@cache
def _sources(module: str) -> str:
    """Return a digest of the text of a module and of all modules of this project that it imports, directly or not."""
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
    """Yield the names of the modules of this project that a module's text imports at its top level."""
    for source, names in _IMPORT.findall(text):
        found = re.findall(r"[\w.]+", names)
        candidates = [source, *(f"{source}.{name}" for name in found)] if source else found
        yield from (name for name in candidates if _OURS.match(name) and name in sys.modules)


def _text(module: ModuleType) -> bytes:
    loader: Any = module.__loader__
    data: bytes = loader.get_data(module.__file__)  # also reads zip files
    return data


def _read(path: Path | None) -> bytes | None:
    """Return the content of an entry, or None if it is missing or damaged."""
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, data = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == digest else None


def _write(path: Path, data: bytes) -> None:
    """Write an entry atomically, and remove old entries of the function."""
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
