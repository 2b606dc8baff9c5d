"""Compile our Numba functions before they are needed, in parallel processes."""

import atexit
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from dali_pipes.errors import LoaderError
from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.compiled.process_lock import ProcessLock
from gpu_aug.recipe import Recipe
from readers.cores import usable_cores

# Not `multiprocessing`, which would import the user's script again: many scripts have no `if __name__ == "__main__"`.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from dali_pipes.machine.compile_ahead import serve
serve()
"""

_PLAIN, _FULL = (f"gpu_aug.engines.fused.cpu.passes:{name}" for name in ("run_plain", "run"))
_RESIZE, _NORMAL = "gpu_aug.resampling.bilinear:resize_into", "gpu_aug.random_fields:_make_normal"
# Operations that the smaller of the two fused functions supports: most recipes need only these, and it compiles faster.
_PLAIN_STEPS = {
    *("HorizontalFlip", "VerticalFlip", "Normalize", "ColorJitter"),
    *("Brightness", "Contrast", "Saturation", "Hue"),
}
# The functions of a Loader that decodes JPEGs. A process begins with the first ones, a helper with the last ones of the whole
# list, so that few of the functions that both call are in work in the other process.
_JPEG_PARTS = (
    "dali_pipes.stages.read_kernel:read_images",
    "dali_pipes.jpeg.decode:_decode",
    "dali_pipes.decode.jpeg_batch_kernel:render_rows",
    "dali_pipes.jpeg.digest:digest_all",
    "dali_pipes.jpeg.seek_point_slots:read_known",
    "dali_pipes.jpeg.huffman_tables:build_table",
    "dali_pipes.jpeg.pixels:write_rows",
    "dali_pipes.jpeg.mcus:read_mcus",
)
_RECIPE_PARTS = ("gpu_aug.draws:_philox", "gpu_aug.resampling.crops:_compose")
# These operations call a compiled function besides those that all recipes need; rarer ones with normal noise compile theirs at
# its first call.
_PARTS_OF_STEPS = {
    "RandomResizedCrop": "gpu_aug.ops.geometric.resized_crops:_first_that_fits",
    "RandomIoUCrop": "gpu_aug.ops.geometric.iou_crop:_first_with_overlap",
    "ColorJitter": "gpu_aug.engines.fused.compile.stages:_write_factors",
    **dict.fromkeys(("GaussianNoise", "GaussNoise"), _NORMAL),
}
# What progressive JPEGs need besides `_JPEG_PARTS`. The last one is stored last: it stands for all.
_PROGRESSIVE = (
    "dali_pipes.jpeg.progressive.read:read_columns",
    "dali_pipes.jpeg.progressive.script:read_scans",
    "dali_pipes.jpeg.progressive.decode:decode_scans",
)
# More would find little to do: the largest function takes a fifth of all time.
_MOST_HELPERS = 3
# The helper that compiles `_PROGRESSIVE`, once it was started; threads that decode may ask for it at the same time.
_progressive: list["subprocess.Popen[bytes]"] = []
_STARTING = Lock()


@dataclass(frozen=True, slots=True)
class Warmed:
    """The result of `warm`.

    Attributes:
        folder: Folder of the compiled code.
        num_compiled: Count of functions that were compiled; the others were stored already.
        seconds: Wall-clock time in seconds.
    """

    folder: str
    num_compiled: int
    seconds: float


def warm(
    num_processes: int, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Warmed:
    """Compile all functions that a Loader can need, for this processor, and store the code.

    Every later process loads the stored code, even if the folder is read-only by then, as in a container that was
    prepared when it was built. See `gpu_aug.compiled.cache`.

    Args:
        num_processes: Count of processes that compile in parallel, at least 1.
        progress: Called with the count of finished functions and the count of all functions.

    Raises:
        LoaderError: The code cannot be stored, or a function cannot be compiled.
    """
    from gpu_aug.compiled.cache import be_quiet, can_keep, folder

    began, num_compiled = time.perf_counter(), 0
    progress(0, len(PARTS))
    # "spawn", because a fork would copy locks that threads of torch and Numba hold.
    pool = ProcessPoolExecutor(num_processes, get_context("spawn"), be_quiet)
    try:
        names = {pool.submit(_compile, name): name for name in PARTS}
        for done, future in enumerate(as_completed(names), 1):
            if (error := future.exception()) is not None:
                raise LoaderError(
                    f"{names[future]} cannot be compiled: {error!r}; please report it with the versions that "
                    "`gpu-aug doctor` prints"
                ) from error
            num_compiled += future.result()
            progress(done, len(PARTS))
    finally:
        # Also after Ctrl-C; a `with` block would compile all remaining functions first.
        pool.shutdown(cancel_futures=True)
    if num_compiled and not can_keep():
        raise LoaderError(
            f"compiled code cannot be stored in {folder()}; set GPU_AUG_CACHE to a folder of your own that is writable"
        )
    return Warmed(str(folder()), num_compiled, time.perf_counter() - began)


def compile_ahead(recipes: Sequence[Recipe], has_jpegs: bool) -> None:
    """Compile what a Loader needs on the CPU, in this process and in helper processes, unless it is stored already.

    Does nothing if the code cannot be stored, or if another process of this machine does it: then each function is
    compiled at its first call.

    Args:
        recipes: Recipes of the Loader's views that the fused engine runs on the CPU.
        has_jpegs: Whether the Loader decodes JPEGs by our decoder.
    """
    from gpu_aug.compiled.cache import announce, can_keep, folder, show_progress

    missing = [name for name in names_needed_by(recipes, has_jpegs) if not _is_stored(name)]
    if not missing or not sys.executable or not can_keep():
        return
    lock = ProcessLock((folder() or Path()) / "ahead.lock")
    if not lock.try_now():
        return
    announce()
    try:
        # Helpers begin with the last functions. A process that comes to one that is in work waits for it.
        num_helpers = min(usable_cores() - 1, _MOST_HELPERS, len(missing) - 1)
        for first in range(num_helpers):
            _start_helper(missing[::-1][first::num_helpers])
        for name in missing:
            _compile(name)
            show_progress(sum(map(_is_stored, missing)), len(missing))
    finally:
        lock.end()


def compile_progressive() -> bool:
    """Return whether a helper process compiles the decoder of progressive JPEGs; the first call starts it."""
    from gpu_aug.compiled.cache import can_keep

    with _STARTING:
        if not _progressive and sys.executable and can_keep():
            _progressive.append(_start_helper(_PROGRESSIVE))
    return any(helper.poll() is None for helper in _progressive)


def load_progressive() -> None:
    """Compile the decoder of progressive JPEGs in this process, or load it, so that no helper works while rates are measured."""
    for name in _PROGRESSIVE:
        _compile(name)


def _start_helper(names: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a process that compiles some of PARTS."""
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    helper = subprocess.Popen(
        [sys.executable, "-P", "-c", _START, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    atexit.register(helper.wait)  # exit handlers run in reverse order, so this waits after the kill
    atexit.register(helper.kill)
    with suppress(OSError):  # the helper has failed; then this process compiles
        assert helper.stdin is not None
        with helper.stdin as pipe:
            pipe.write("".join(f"{name}\n" for name in names).encode())
    return helper


def names_needed_by(recipes: Sequence[Recipe], has_jpegs: bool) -> list[str]:
    """Return the keys of PARTS that a Loader needs on the CPU: first those for this process, last those for helpers."""
    leaves = {type(leaf).__name__ for recipe in recipes for leaf in recipe.leaves}
    steps = {type(leaf).__name__ for recipe in recipes for leaf in recipe.batch_leaves}
    names = [*_JPEG_PARTS] if has_jpegs else [_RESIZE]
    names += [name for step, name in _PARTS_OF_STEPS.items() if step in leaves]
    if recipes:
        names += [*_RECIPE_PARTS, _PLAIN if steps <= _PLAIN_STEPS else _FULL]
    return names


def serve() -> None:
    """Compile the functions whose keys of PARTS arrive on standard input, one per line."""
    from gpu_aug.compiled.cache import be_quiet
    from gpu_aug.gc_pause import paused_gc

    be_quiet()
    # A seventh of the time would free what the compiler leaves (80 MB), although this process ends soon.
    with paused_gc():
        for line in sys.stdin:
            _compile(line.strip())


def _compile(name: str) -> int:
    """Compile one of PARTS; return how many functions were compiled, 0 if the code was stored already."""
    from gpu_aug.compiled.cache import num_compiled

    before = num_compiled()
    function = _find(name)
    if (arguments := PARTS[name]) is None:
        function.unit.compile()
    else:
        function.compile(_types(arguments))
    return num_compiled() - before


def _is_stored(name: str) -> bool:
    function, arguments = _find(name), PARTS[name]
    if arguments is None:
        return bool(function.unit.is_stored())
    return bool(function._cache.has(_types(arguments)))


def _find(name: str) -> Any:
    module, function = name.split(":")[:2]
    found = getattr(importlib.import_module(module), function)
    return found.kernel if isinstance(found, CompiledAtFirstCall) else found


def _types(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the Numba types of arguments, or of examples as in PARTS."""
    from numba import typeof

    return tuple(typeof(_example(argument)) for argument in arguments)


def _example(argument: Any) -> Any:
    """Return an example argument, with empty arrays and tuples for the types that it names."""
    if isinstance(argument, _Records):
        return np.empty((0,) * argument.num_dims, _find(argument.dtype))
    if isinstance(argument, _Tuple):
        return _find(argument.type)(*argument.fields)
    return argument


class _Records(NamedTuple):
    """Stands for an array of records as an example argument; the module is imported when the function is compiled."""

    dtype: str
    num_dims: int = 1


class _Tuple(NamedTuple):
    """Stands for a named tuple as an example argument; the module is imported when the function is compiled."""

    type: str
    fields: tuple[Any, ...]


def _empty(dtype: Any, num_dims: int = 1) -> Any:
    return np.empty((0,) * num_dims, dtype)


# Arrays of one and two dimensions, contiguous and writable.
_BYTES, _FLAGS, _WORDS = _empty(np.uint8), _empty(np.bool_), _empty(np.uint64)
_INTS, _INT_ROWS, _SHORTS, _SHORT_ROWS = (
    _empty(dtype, num_dims) for dtype in (np.int64, np.int32) for num_dims in (1, 2)
)
_FLOAT_ROWS, _COUNTERS, _PHILOX = _empty(np.float64, 2), _empty(np.uint32, 2), _empty(np.uint32)
_IMAGE = _empty(np.uint8, 3)
_CROP_OF_IMAGE = np.empty((2, 2, 3), np.uint8)[:, :1]  # not contiguous
_READ_ONLY = np.frombuffer(b"\0", np.uint8)

_ENCODED, _RECT, _CROP = (
    f"dali_pipes.decode.jpeg_batch_kernel:{name}" for name in ("ENCODED", "RECT", "CROP")
)
_FILE, _TOTALS = (f"dali_pipes.decode.cuda_jpeg.plan:{name}" for name in ("FILE", "TOTALS"))
_SEEK_POINT, _KNOWN = (f"dali_pipes.jpeg.seek_points:{name}" for name in ("SEEK_POINT", "KNOWN"))
_CROPS = (_Records(_RECT), _Records(_CROP, 2), _empty(np.int64, 3), _FLAGS)
_PROGRAM = _Tuple(
    "gpu_aug.engines.fused.compile.program:Program",
    (
        *(_SHORT_ROWS, _empty(np.float32, 3), _SHORTS, _FLOAT_ROWS, _SHORT_ROWS, _FLOAT_ROWS),
        *(_SHORT_ROWS, _SHORTS, _empty(np.float32, 2), _SHORT_ROWS, _SHORTS),
        *(_empty(np.float32, 2), _SHORT_ROWS, _empty(np.float32, 4), _empty(np.int32, 3)),
        *(_empty(np.float32, 3), _empty(np.uint32, 3)),
    ),
)
_PASS = (_PROGRAM, _INT_ROWS, _INT_ROWS, _INT_ROWS, 0)
_RESIZED = ((0.0,) * 4, _IMAGE, 0, 0, 0, 0, True, _BYTES)

PARTS: dict[str, tuple[Any, ...] | None] = {
    _FULL: (*_PASS, _BYTES, False),
    **dict.fromkeys(_PROGRESSIVE),
    "dali_pipes.jpeg.decode:_decode": None,
    "dali_pipes.jpeg.mcus:read_mcus": None,
    "dali_pipes.jpeg.pixels:write_rows": None,
    "dali_pipes.jpeg.huffman_tables:build_table": None,
    "dali_pipes.decode.jpeg_batch_kernel:render_rows": (
        *(_Records(_ENCODED), _INT_ROWS, _Records(_RECT), _INTS, _INTS, *_CROPS[1:]),
        *((_BYTES,) * 3, _SHORTS),
    ),
    _PLAIN: (*_PASS, _BYTES, False),
    _RESIZE: (_CROP_OF_IMAGE, *_RESIZED),
    f"{_RESIZE}:whole": (_IMAGE, *_RESIZED),
    "dali_pipes.decode.cuda_jpeg.plan:plan_batch": (
        *(_Records(_FILE), _INTS, _INT_ROWS, *_CROPS, (*(_BYTES,) * 3, _IMAGE, _INTS)),
        *(_SHORTS, _SHORTS, _INT_ROWS, _Records(_TOTALS)),
    ),
    "dali_pipes.jpeg.digest:digest_all": (_INT_ROWS, _WORDS),
    "gpu_aug.draws:_philox": (_COUNTERS, np.uint64(0), np.uint64(0), _PHILOX),
    _NORMAL: (_empty(np.float32),),
    "gpu_aug.ops.geometric.resized_crops:_first_that_fits": (
        *(_INT_ROWS, _FLOAT_ROWS, _FLOAT_ROWS, _FLOAT_ROWS, 0.0, 0.0, _INT_ROWS, _INT_ROWS),
    ),
    "gpu_aug.ops.geometric.iou_crop:_first_with_overlap": (
        *(_INTS, _empty(np.float64), _empty(np.float64, 3), _INT_ROWS, _FLOAT_ROWS, _INTS),
        *(0.0, 0.0, 0.0, 0.0, _INT_ROWS, _INT_ROWS, _empty(np.bool_)),
    ),
    "gpu_aug.resampling.crops:_compose": (
        *(_empty(np.int64, 4), 0, _INT_ROWS, _empty(np.int32, 3)),
    ),
    "gpu_aug.engines.fused.compile.stages:_write_factors": (
        *(_INT_ROWS, _FLOAT_ROWS, _FLAGS, 0, _SHORT_ROWS, _empty(np.float32, 3)),
    ),
    "gpu_aug.engines.fused.triton.record:_write_records": (
        *(*_PASS, _Tuple("gpu_aug.engines.fused.triton.record:Layout", (0,) * 7), _SHORT_ROWS),
    ),
    "dali_pipes.stages.read_kernel:read_images": (
        *(_READ_ONLY, 0, 0, _INT_ROWS, 0, _BYTES, _BYTES, _INT_ROWS, _INT_ROWS, _BYTES),
    ),
    "dali_pipes.jpeg.seek_point_slots:read_known": (_INT_ROWS, _WORDS, _Records(_KNOWN), _BYTES),
    "dali_pipes.jpeg.decode:check_files": (
        *(_INT_ROWS, 0, _BYTES, _SHORTS, _Records(_SEEK_POINT), _INTS),
    ),
    "dali_pipes.video.yuv:write_rgb": (
        *((0,) * 3, (0,) * 2, (0,) * 2, True, (0,) * 4, _SHORTS, _IMAGE),
    ),
}
"""Functions to compile, with examples of their arguments; None for a `Unit`, whose types are fixed.

A function that is called with arguments of different types has several entries, which differ in a third word."""
