"""Compiling our functions before they are needed, side by side in processes of their own."""

import atexit
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from dali_pipes.errors import LoaderError
from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.recipe import Recipe

_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from dali_pipes.machine.compile_ahead import serve
serve()
"""

_MCUS = "dali_pipes.jpeg.mcus:read_mcus"
_SEVERAL_SCANS = "dali_pipes.jpeg.progressive.decode:decode_scans"
_PLAIN, _FULL = (f"gpu_aug.engines.fused.cpu.passes:{name}" for name in ("run_plain", "run"))
_RESIZE = "gpu_aug.resampling.bilinear:resize_into"
_RESIZE_WHOLE = f"{_RESIZE}:whole"
_PLAIN_STEPS = {
    *("HorizontalFlip", "VerticalFlip", "Normalize", "ColorJitter"),
    *("Brightness", "Contrast", "Saturation", "Hue"),
}
_helpers: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Warmed:
    """What `warm` did.

    Attributes:
        folder: Where the code is kept.
        num_compiled: Functions that were compiled; the others were there.
        seconds: What it took.
    """

    folder: str
    num_compiled: int
    seconds: float


def warm(
    num_processes: int, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Warmed:
    """Compile all that a Loader can need, for this processor, and keep it.

    What is kept serves every later process, also where its folder can only be read then: a container's, which
    was prepared when it was built. See `gpu_aug.compiled.cache`.

    Args:
        num_processes: Processes that compile in parallel, at least 1.
        progress: Is told how many functions are done, and of how many.

    Raises:
        LoaderError: Nothing can be kept, or a function cannot be compiled.
    """
    from gpu_aug.compiled.cache import can_keep, folder

    began, parts = time.perf_counter(), SimpleQueue[str]()
    for name in PARTS:
        parts.put(name)
    done: list[int] = []
    with ThreadPoolExecutor(num_processes) as pool:
        workers = [pool.submit(_feed, parts, done) for _ in range(num_processes)]
        for worker in workers:
            while not worker.done():
                progress(len(done), len(PARTS))
                time.sleep(0.1)
            worker.result()
    if any(done) and not can_keep():
        raise LoaderError(
            f"what was compiled cannot be kept in {folder()}; set GPU_AUG_CACHE to a folder of your own "
            f"that can be written"
        )
    progress(len(PARTS), len(PARTS))
    return Warmed(str(folder()), sum(done), time.perf_counter() - began)


def compile_ahead(recipes: Sequence[Recipe]) -> None:
    """Let a helper process compile what a Loader will need later, while this one compiles what it needs first.

    Nothing happens where it is kept already, or cannot be kept.

    Args:
        recipes: Recipes of the Loader's views that the fused engine carries out on the CPU.
    """
    if _helpers or not sys.executable:
        return
    from gpu_aug.compiled.cache import can_keep

    missing = [name for name in wanted(recipes) if not _is_kept(name)]
    if not missing or not can_keep():
        return
    helper = _start(stdout=subprocess.DEVNULL)
    _helpers.append(helper)
    atexit.register(_end, helper)
    with suppress(OSError):
        assert helper.stdin is not None
        helper.stdin.write("".join(f"{name}\n" for name in missing).encode())
        helper.stdin.close()


def wanted(recipes: Sequence[Recipe]) -> list[str]:
    """Names of PARTS that recipes on the CPU need behind the decoder."""
    steps = {type(leaf).__name__ for recipe in recipes for leaf in recipe.batch_leaves}
    names = [_PLAIN if steps <= _PLAIN_STEPS else _FULL] if recipes else []
    return [*names, _RESIZE]


def serve() -> None:
    """Be a process that compiles: names of PARTS come in, for each a line says how many functions were compiled."""
    from gpu_aug.compiled import cache as kept

    kept.be_quiet()
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        before = kept.num_compiled()
        name = line.strip()
        _compile(name)
        answers.write(f"{kept.num_compiled() - before}\n")
        answers.flush()


def _feed(parts: "SimpleQueue[str]", done: list[int]) -> None:
    """Have one process compile parts until there are none; how many functions each took is added to ``done``."""
    process = _start(stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(Empty):
            while name := parts.get_nowait():
                process.stdin.write(f"{name}\n".encode())
                process.stdin.flush()
                answer = process.stdout.readline()
                if not answer:
                    raise LoaderError(
                        f"{name} cannot be compiled: the reason stands above; say it to us, with the "
                        f"versions that `gpu-aug doctor` prints"
                    )
                done.append(int(answer))
    finally:
        _end(process)


def _start(stdout: int) -> subprocess.Popen[bytes]:
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, path], stdin=subprocess.PIPE, stdout=stdout
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.kill()
    process.wait()


def _compile(name: str) -> None:
    found = _find(name)
    if (arguments := PARTS[name]) is not None:
        found.compile(_types(arguments()))


def _is_kept(name: str) -> bool:
    arguments = PARTS[name]
    return arguments is not None and bool(_find(name)._cache.has(_types(arguments())))


def _find(name: str) -> Any:
    module, function = name.split(":")[:2]
    found = getattr(importlib.import_module(module), function)
    return found.kernel if isinstance(found, CompiledAtFirstCall) else found


def _types(arguments: Sequence[Any]) -> tuple[Any, ...]:
    from numba import typeof

    return tuple(typeof(argument) for argument in arguments)


def _empty(*dtypes_and_dims: tuple[Any, int]) -> tuple[Any, ...]:
    return tuple(np.empty((0,) * num_dims, dtype) for dtype, num_dims in dtypes_and_dims)


def _of_programs() -> tuple[Any, ...]:
    from gpu_aug.engines.fused.compile.program import Program

    i, f, d = np.int32, np.float32, np.float64
    fields = _empty(
        *((i, 2), (f, 3), (i, 1), (d, 2), (i, 2), (d, 2), (i, 2), (i, 1), (f, 2), (i, 2), (i, 1)),
        *((f, 2), (i, 2), (f, 4), (i, 3), (f, 3), (np.uint32, 3)),
    )
    return Program(*fields), *_empty(*[(np.int64, 2)] * 3), 0, *_empty((np.uint8, 1))


def _of_resize() -> tuple[Any, ...]:
    canvas, scratch = _empty((np.uint8, 3), (np.uint8, 1))
    any_strides = np.empty((2, 2, 3), np.uint8)[:, :1]
    return any_strides, (0.0,) * 4, canvas, 0, 0, 0, 0, True, scratch


def _of_whole_frames() -> tuple[Any, ...]:
    return *_empty((np.uint8, 3)), *_of_resize()[1:]


def _of_rows() -> tuple[Any, ...]:
    from dali_pipes.decode.jpeg_batch_kernel import CROP, ENCODED, RECT

    i = np.int64
    memory = _empty((np.uint8, 1)) * 3
    return (
        *_empty((ENCODED, 1), (i, 2), (RECT, 1), (i, 1), (i, 1), (CROP, 2), (i, 3), (np.bool_, 1)),
        memory,
        *_empty((np.int32, 1)),
    )


def _of_frames() -> tuple[Any, ...]:
    return (0, 0, 0), (0, 0), (0, 0), True, (0, 0, 0, 0), *_empty((np.int32, 1), (np.uint8, 3))


def _of_cuts() -> tuple[Any, ...]:
    i, j = np.int64, np.int32
    first = _empty((i, 2), (j, 2), (i, 1), (i, 2))
    return *first, 0, *_empty((j, 2), (j, 2), (i, 1))


def _of_checks() -> tuple[Any, ...]:
    from dali_pipes.jpeg.seek_points import SEEK_POINT

    files, scratch = _empty((np.int64, 2), (np.uint8, 1))
    return files, 0, scratch, *_empty((np.int32, 1), (SEEK_POINT, 1), (np.int64, 1))


def _of_digests() -> tuple[Any, ...]:
    return _empty((np.int64, 2), (np.uint64, 1))


def _of_plans() -> tuple[Any, ...]:
    from dali_pipes.decode.cuda_jpeg.plan import FILE, TOTALS
    from dali_pipes.decode.jpeg_batch_kernel import CROP, RECT

    b, i, j = np.uint8, np.int64, np.int32
    return (
        *_empty((FILE, 1), (i, 1), (i, 2), (RECT, 1), (CROP, 2), (i, 3), (np.bool_, 1)),
        _empty((b, 1), (b, 1), (b, 1), (b, 3), (i, 1)),
        *_empty((j, 1), (j, 1), (i, 2), (TOTALS, 1)),
    )


def _of_known() -> tuple[Any, ...]:
    from dali_pipes.jpeg.seek_points import KNOWN

    return _empty((np.int64, 2), (np.uint64, 1), (KNOWN, 1), (np.uint8, 1))


def _of_philox() -> tuple[Any, ...]:
    counter, words = _empty((np.uint32, 2), (np.uint32, 2))
    return counter, np.uint64(0), np.uint64(0), words


def _of_tries() -> tuple[Any, ...]:
    i, f = np.int64, np.float64
    return *_empty((i, 2), (f, 2), (f, 2), (f, 2)), 0.0, 0.0, *_empty((i, 2), (i, 2))


def _of_crops() -> tuple[Any, ...]:
    return *_empty((np.int64, 4)), 0, *_empty((np.int64, 2), (np.int32, 3))


def _of_factors() -> tuple[Any, ...]:
    first = _empty((np.int64, 2), (np.float64, 2), (np.bool_, 1))
    return *first, 0, *_empty((np.int32, 2), (np.float32, 3))


def _of_records() -> tuple[Any, ...]:
    from gpu_aug.engines.fused.triton.record import Layout

    program = _of_programs()[0]
    return program, *_empty(*[(np.int64, 2)] * 3), 0, Layout(*[0] * 7), *_empty((np.int32, 2))


def _of_reads() -> tuple[Any, ...]:
    paths = np.frombuffer(b"\0", np.uint8)  # which cannot be written
    places, arena, memory, spans, sizes, states = _empty(
        *((np.int64, 2), (np.uint8, 1), (np.uint8, 1), (np.int64, 2), (np.int64, 2), (np.uint8, 1))
    )
    return paths, 0, 0, places, 0, arena, memory, spans, sizes, states


PARTS: dict[str, Callable[[], tuple[Any, ...]] | None] = {
    _FULL: _of_programs,
    _MCUS: None,
    _SEVERAL_SCANS: None,
    "dali_pipes.decode.jpeg_batch_kernel:render_rows": _of_rows,
    _PLAIN: _of_programs,
    _RESIZE: _of_resize,
    _RESIZE_WHOLE: _of_whole_frames,
    "dali_pipes.decode.cuda_jpeg.plan:plan_batch": _of_plans,
    "dali_pipes.jpeg.digest:digest_all": _of_digests,
    "gpu_aug.draws:_philox": _of_philox,
    "gpu_aug.ops.geometric.resized_crops:_first_that_fits": _of_tries,
    "gpu_aug.resampling.crops:_compose": _of_crops,
    "gpu_aug.engines.fused.compile.stages:_write_factors": _of_factors,
    "gpu_aug.engines.fused.triton.record:_write_records": _of_records,
    "dali_pipes.stages.read_kernel:read_images": _of_reads,
    "dali_pipes.jpeg.stored_seek_points:read_known": _of_known,
    "dali_pipes.decode.dali.cut_kernel:cut_all": _of_cuts,
    "dali_pipes.jpeg.decode:check_files": _of_checks,
    "dali_pipes.video.yuv:write_rgb": _of_frames,
}
"""What is compiled, and arguments of the types that it is called with; None where the import compiles it.

A third word tells the types apart of a function that is called with several.
"""
