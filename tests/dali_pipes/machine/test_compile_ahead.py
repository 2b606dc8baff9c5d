"""Compiling beforehand, and what compiling does not count for."""

import gc
import importlib
import io
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from llvmlite.binding import address_of_symbol
from PIL import Image

from bench.cli import main
from bench.timing import take_turn
from dali_pipes import Clips, Loader, LoaderError
from dali_pipes.decode import jpeg_batch
from dali_pipes.jpeg.seek_points import EVERY, find_seek_points
from dali_pipes.machine import compile_ahead as warm
from dali_pipes.monitoring.recorder import Recorder
from gpu_aug import (
    ColorJitter,
    Draws,
    GaussianNoise,
    HorizontalFlip,
    Normalize,
    RandomAffine,
    RandomIoUCrop,
    RandomResizedCrop,
    Recipe,
    Resize,
    compile_engine,
)
from gpu_aug.compiled import cache as kept
from gpu_aug.compiled import clock as clock_module
from gpu_aug.compiled.clock import clock
from gpu_aug.compiled.process_lock import ProcessLock
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.plan import add_parts, make_plan
from gpu_aug.engines.fused.triton import record
from gpu_aug.views import Views
from readers import open_dataset
from tests.support.cuda_jpegs import on_the_cpu
from tests.support.videos import pan, write_video

PASSES = "gpu_aug.engines.fused.cpu.passes"
ROWS, RESIZE = (
    "dali_pipes.decode.jpeg_batch_kernel:render_rows",
    "gpu_aug.resampling.bilinear:resize_into",
)
WHOLE = f"{RESIZE}:whole"
CROP = RandomResizedCrop(32)
PLAIN, FULL = Recipe([CROP, HorizontalFlip(p=1.0), Normalize()]), Recipe([CROP, RandomAffine(9.0)])
JITTER = Recipe([CROP, ColorJitter(0.4, 0.4, 0.4, 0.1)])
OVERLAPPING = Recipe([RandomIoUCrop(sampler_options=[0.0]), Resize((32, 32))])
NOISY = Recipe([CROP, GaussianNoise()])
FRAMES = "dali_pipes.video.yuv:write_rgb"
CHECKS = "dali_pipes.jpeg.decode:check_files"
PLAN = "dali_pipes.decode.cuda_jpeg.plan:plan_batch"
DIGESTS, KNOWN = (
    "dali_pipes.jpeg.digest:digest_all",
    "dali_pipes.jpeg.seek_point_slots:read_known",
)
READS = "dali_pipes.stages.read_kernel:read_images"
PHILOX, CROPS = "gpu_aug.draws:_philox", "gpu_aug.resampling.crops:_compose"
NORMAL = "gpu_aug.random_fields:_make_normal"
TRIES = "gpu_aug.ops.geometric.resized_crops:_first_that_fits"
OVERLAPS = "gpu_aug.ops.geometric.iou_crop:_first_with_overlap"
FACTORS = "gpu_aug.engines.fused.compile.stages:_write_factors"
RECORDS = "gpu_aug.engines.fused.triton.record:_write_records"
CALLERS = {
    f"{PASSES}:run_plain": ["gpu_aug.engines.fused.cpu.run"],
    f"{PASSES}:run": ["gpu_aug.engines.fused.cpu.run"],
}
UNITS = [
    "dali_pipes.jpeg.progressive.read:read_columns",
    "dali_pipes.jpeg.progressive.script:read_scans",
    "dali_pipes.jpeg.progressive.decode:decode_scans",
    "dali_pipes.jpeg.decode:_decode",
    "dali_pipes.jpeg.mcus:read_mcus",
    "dali_pipes.jpeg.pixels:write_rows",
    "dali_pipes.jpeg.huffman_tables:build_table",
]


def load(path: Path, recipe: Recipe | Views) -> None:
    """Make a batch of files, or of clips of videos."""
    photos_or_videos = open_dataset(path)
    is_video = next(path.iterdir()).suffix == ".mp4"
    dataset = Clips(photos_or_videos, num_frames=2, stride=1) if is_video else photos_or_videos
    with Loader(dataset, recipe, batch_size=2, device="cpu", decoder="cpu", engine="fused") as all_:
        assert len(list(all_)) == 1


def load_photos(photos: list[Path], folder: Path, recipe: Recipe) -> None:
    """A photograph and one of a single colour plane, with the decoder of rows."""
    (folder / "a.jpg").symlink_to(photos[0])
    with Image.open(photos[1]) as image:
        image.convert("L").save(folder / "b.jpg")
    load(folder, recipe)
    load(folder, Views([recipe, recipe]))


def load_video(_photos: list[Path], folder: Path, recipe: Recipe) -> None:
    """Clips of whole frames and of crops."""
    write_video(folder / "a.mp4", pan(4, (48, 64)))
    write_video(folder / "b.mp4", pan(4, (48, 63)), pixel_format="yuv444p10le")
    load(folder, recipe)
    load(folder, Recipe([Resize((24, 32))]))


def decode_on_gpu(photos: list[Path], folder: Path, recipe: Recipe) -> None:
    """As decoder="cuda" does, its kernels on the CPU: once files are known, too."""
    (folder / "a.jpg").symlink_to(photos[0])
    (folder / "b.jpg").symlink_to(photos[1])
    with on_the_cpu(), Loader(open_dataset(folder), recipe, batch_size=2, device="cpu", decoder="cuda") as two:  # fmt: skip
        assert len(list(two)) + len(list(two)) == 2


def draw(_photos: list[Path], _folder: Path, recipe: Recipe) -> Draws:
    """As the fetch stage does, and a fused pass on the CPU."""
    boxes = [[(9, 9, 50, 50)]] * 2
    draws = recipe.draw(0, 0, np.arange(2), np.full((2, 2), 64), boxes=boxes)
    images = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
    compile_engine("fused", recipe, device=torch.device("cpu")).run(
        images, draws, torch.empty(2, 3, 32, 32)
    )
    return draws


def augment_on_gpu(photos: list[Path], folder: Path, recipe: Recipe) -> None:
    """As the fused engine does on a GPU, up to the launch."""
    plan = make_plan(recipe, device=torch.device("cpu"), exact=False)
    images = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
    pending = Pending(images, plan.num_stages, record.pack)
    add_parts(plan, pending, draw(photos, folder, recipe), is_uint8=True)
    pending.store(torch.empty(2, 3, 32, 32))


def judge(photos: list[Path], _folder: Path, _recipe: Recipe) -> None:
    """As the decoder of DALI does."""
    find_seek_points(photos[0].read_bytes(), EVERY)


@pytest.mark.parametrize(
    ("run", "recipe", "names"),
    [
        (load_photos, PLAIN, {f"{PASSES}:run_plain", ROWS}),
        (load_photos, FULL, {f"{PASSES}:run", ROWS}),
        (load_video, PLAIN, {f"{PASSES}:run_plain", FRAMES, RESIZE, WHOLE}),
        (decode_on_gpu, PLAIN, {PLAN, DIGESTS, KNOWN, READS}),
        (judge, PLAIN, {CHECKS}),
        (draw, JITTER, {PHILOX, CROPS, TRIES, FACTORS}),
        (draw, NOISY, {PHILOX, NORMAL}),
        (draw, OVERLAPPING, {PHILOX, CROPS, OVERLAPS}),
        (augment_on_gpu, JITTER, {RECORDS}),
    ],
)
def test_warm_knows_the_types(
    photos: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[[list[Path], Path, Recipe], None],
    recipe: Recipe,
    names: set[str],
) -> None:
    """Functions are called with the types that they are compiled for beforehand, and with no others."""
    seen: dict[str, set[Any]] = {}

    def watch(name: str) -> None:
        module, function = name.split(":")
        original = warm._find(name)

        def watched(*arguments: Any) -> Any:
            seen.setdefault(name, set()).add(warm._types(arguments))
            return original(*arguments)

        for place in (module, *CALLERS.get(name, ())):
            monkeypatch.setattr(importlib.import_module(place), function, watched)

    monkeypatch.setattr(warm, "names_needed_by", lambda *_: [])  # nothing is compiled ahead
    expected: dict[str, set[Any]] = {}
    for name in names:
        arguments = warm.PARTS[name]
        assert arguments is not None
        expected.setdefault(":".join(name.split(":")[:2]), set()).add(warm._types(arguments))
    warm._find(ROWS)  # which holds another of them
    for name in expected:
        watch(name)
    (tmp_path / "data").mkdir()
    run(photos, tmp_path / "data", recipe)
    assert seen == expected


def test_all_parts_are_compared() -> None:
    """The test above runs every part that takes arguments; the others are units, whose types are fixed."""
    passes = {f"{PASSES}:run_plain", f"{PASSES}:run"}
    assert {*warm.PARTS} == {
        *passes,
        *UNITS,
        *(ROWS, RESIZE, WHOLE, CHECKS, FRAMES),
        *(PLAN, DIGESTS, KNOWN, READS),
        *(PHILOX, CROPS, TRIES, OVERLAPS, FACTORS, RECORDS, NORMAL),
    }
    assert [name for name, arguments in warm.PARTS.items() if arguments is None] == UNITS
    for name in UNITS:
        assert address_of_symbol(warm._find(name).unit.name)


@pytest.mark.parametrize(
    ("recipe", "own", "function"),
    [
        (PLAIN, [TRIES], "run_plain"),
        (FULL, [TRIES], "run"),
        (JITTER, [TRIES, FACTORS], "run_plain"),
        (NOISY, [TRIES, NORMAL], "run"),
    ],
)
def test_what_a_recipe_needs(recipe: Recipe, own: list[str], function: str) -> None:
    """The smaller function of passes if that suffices, and the functions of the recipe's operations."""
    expected = [*own, PHILOX, CROPS, f"{PASSES}:{function}"]
    assert warm.names_needed_by([recipe], False) == [RESIZE, *expected]
    assert warm.names_needed_by([recipe], True)[-len(expected) :] == expected
    assert warm.names_needed_by([], False) == [RESIZE]


_IN_NEW_PROCESS = """
import sys
from pathlib import Path
from dali_pipes import Loader
from dali_pipes.machine import compile_ahead
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from gpu_aug.compiled import cache
from readers import open_dataset

recipe = Recipe([RandomResizedCrop(32), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()])
compiled = cache.num_compiled()
with Loader(open_dataset(sys.argv[1]), recipe, batch_size=2, device="cpu") as loader:
    images = next(iter(loader)).images
names = {path.stem.rpartition("-")[0] for path in cache.folder().glob("*.code")}
needed = compile_ahead.names_needed_by([recipe], True)
print(*needed)
print(*sorted(names))
"""


@pytest.mark.long
def test_a_plain_loader_compiles_what_it_needs_and_no_progressive_code(
    photos: list[Path], tmp_path: Path
) -> None:
    """A loader of baseline JPEGs compiles the parts of its list in two processes, and nothing for progressive files."""
    (tmp_path / "photos").mkdir()
    for name, photo in zip("ab", photos, strict=False):
        (tmp_path / "photos" / f"{name}.jpg").symlink_to(photo)
    environment = {**os.environ, "GPU_AUG_CACHE": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", _IN_NEW_PROCESS, str(tmp_path / "photos")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    needed, stored = (set(line.split()) for line in done.stdout.splitlines())
    functions = {name.replace(":", ".") for name in needed if warm.PARTS[name] is not None}
    functions |= {warm._find(name).unit.name for name in needed if warm.PARTS[name] is None}
    assert functions <= stored
    assert not [name for name in stored if "progressive" in name and "scratch_bytes" not in name]
    assert done.stderr.count("gpu-aug: compiling") == 1


class _Helper:
    """Stands for a helper process that compiles nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        self.names: list[str] = []
        self.stdin = self

    def __enter__(self) -> "_Helper":
        return self

    def __exit__(self, *_: object) -> None: ...

    def write(self, lines: bytes) -> None:
        self.names = lines.decode().split()

    def poll(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self) -> None: ...


@pytest.fixture
def nothing_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of compiled code."""
    monkeypatch.setattr(kept, "folder", lambda: tmp_path)
    monkeypatch.setattr(kept, "_announcing", None)
    monkeypatch.setattr(warm, "_is_stored", lambda _name: False)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[_Helper]:
    """The helpers that are started, on a machine of two cores."""
    started: list[_Helper] = []

    def start(*_: object, **__: object) -> _Helper:
        started.append(_Helper())
        return started[-1]

    monkeypatch.setattr(warm.subprocess, "Popen", start)
    monkeypatch.setattr(warm.atexit, "register", lambda _: None)
    monkeypatch.setattr(warm, "usable_cores", lambda: 2)
    return started


@pytest.mark.usefixtures("nothing_stored")
@pytest.mark.parametrize("is_stored", [False, True])
def test_compile_ahead(
    monkeypatch: pytest.MonkeyPatch, helpers: list[_Helper], is_stored: bool
) -> None:
    """This process and a helper go through the functions that a loader needs from both ends, unless they are stored already."""
    compiled: list[str] = []
    monkeypatch.setattr(warm, "_is_stored", lambda _name: is_stored)
    monkeypatch.setattr(warm, "_compile", compiled.append)
    recipe = Recipe([RandomResizedCrop(32), RandomAffine(degrees=9.0)])
    warm.compile_ahead([recipe], True)
    needed = warm.names_needed_by([recipe], True)
    assert compiled == ([] if is_stored else needed)
    assert [helper.names for helper in helpers] == ([] if is_stored else [needed[::-1]])


@pytest.mark.usefixtures("nothing_stored")
def test_another_process_compiles_ahead(helpers: list[_Helper], tmp_path: Path) -> None:
    """Of the processes that share a folder one starts helpers at a time."""
    other = ProcessLock(tmp_path / "ahead.lock")
    assert other.try_now()
    warm.compile_ahead([PLAIN], True)
    other.end()
    assert not helpers


@pytest.mark.usefixtures("nothing_stored")
@pytest.mark.parametrize(("is_terminal", "count"), [(True, 2), (False, 0)])
def test_progress(
    monkeypatch: pytest.MonkeyPatch,
    helpers: list[_Helper],
    capsys: pytest.CaptureFixture[str],
    is_terminal: bool,
    count: int,
) -> None:
    """A terminal shows how many functions are compiled; a log has the announcement alone."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(warm, "usable_cores", lambda: 1)
    compiled: list[str] = []
    monkeypatch.setattr(warm, "_compile", compiled.append)
    monkeypatch.setattr(warm, "_is_stored", compiled.__contains__)
    monkeypatch.setattr(warm, "names_needed_by", lambda *_: ["a", "b"])
    warm.compile_ahead([PLAIN], True)
    announcement, *progress = capsys.readouterr().err.split("\r")
    assert announcement.startswith("gpu-aug: compiling for this processor")
    assert len(progress) == count
    assert not progress or progress[-1] == "gpu-aug: 2 of 2 functions compiled\n"
    assert not helpers


def test_progressive_files_wait_for_no_compilation(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: list[_Helper]
) -> None:
    """While a helper compiles the decoder of progressive JPEGs, OpenCV decodes them to the same pixels."""
    with Image.open(photos[0]) as image:
        image.save(tmp_path / "a.jpg", progressive=True)
    decoder = warm._find("dali_pipes.jpeg.progressive.decode:decode_scans").unit
    recipe = Recipe([RandomResizedCrop(32)])

    def load() -> tuple[torch.Tensor, dict[str, int]]:
        dataset = open_dataset(tmp_path)
        with Loader(dataset, recipe, batch_size=1, device="cpu", decoder="cpu") as loader:
            (batch,) = loader
            return batch.images.clone(), dict(loader.stats().whole_images)

    expected, others = load()  # compiles the decoder
    assert others == {}
    monkeypatch.setattr(jpeg_batch, "compile_progressive", warm.compile_progressive)
    monkeypatch.setattr(warm, "_progressive", [])
    monkeypatch.setattr(warm, "_is_stored", lambda _name: True)
    monkeypatch.setattr(decoder, "is_stored", lambda: False)
    address, decoder._cell.value = decoder._cell.value, decoder._callback_address
    try:
        images, others = load()
    finally:
        decoder._cell.value = address
    assert others == {"JPEG (several scans)": 1}
    assert torch.equal(images, expected)
    assert warm.compile_progressive()
    assert [helper.names for helper in helpers] == [UNITS[:3]]


def test_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper compiles each function whose name comes in; what is compiled already takes nothing."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{RESIZE}\n" * 2))
    monkeypatch.setattr(kept, "_announcing", None)
    warm.serve()
    assert warm._find(RESIZE).signatures
    assert warm._compile(RESIZE) == 0
    assert gc.isenabled()  # paused while it compiled


def test_a_function_that_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and the others are left."""
    monkeypatch.setattr(warm, "PARTS", {"no_such_module:function": None})
    counts: list[tuple[int, int]] = []
    with pytest.raises(LoaderError, match=r"no_such_module:function cannot be compiled: ModuleNot"):
        warm.warm(1, lambda *done: counts.append(done))
    assert counts == [(0, 1)]


def test_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says where the code lies."""
    resize = "gpu_aug.resampling.bilinear:resize_into"
    monkeypatch.setattr(warm, "PARTS", {resize: warm.PARTS[resize]})
    with pytest.raises(SystemExit) as left:
        main(["warm", "--workers", "1"])
    assert left.value.code == 0
    assert "kept in" in capsys.readouterr().out


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that goes on by a second whenever anybody looks."""
    seconds = itertools.count()
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: next(seconds)))


def _compile_for_a_while() -> list[int]:
    clock.stop()
    for _ in range(1000):
        clock_module.time.perf_counter()
    clock.go_on()
    return [0]


@pytest.mark.usefixtures("ticks")
def test_stages_do_not_count_it() -> None:
    """What a stage spends compiling is no part of its time."""
    recorder = Recorder()
    with recorder.measure("decode"):
        _compile_for_a_while()
    assert recorder.totals().stages["decode"].seconds < 10


@pytest.mark.usefixtures("ticks")
def test_rates_do_not_count_it() -> None:
    """Nor is it of the time that images per second are counted in, or that a loop waited."""
    turn = take_turn(_compile_for_a_while, seconds=5)
    assert turn.seconds < 20
    assert turn.wait_seconds < 20


@pytest.mark.usefixtures("ticks")
def test_another_process_compiled() -> None:
    """Time in which a helper process compiled can be left out afterwards."""
    began = clock()
    for _ in range(1000):
        clock_module.time.perf_counter()
    clock.leave_out(1000)
    assert 0 <= clock() - began < 10


def test_no_stage_takes_less_than_no_time() -> None:
    """A thread that decodes while another leaves out time has no less to show for it."""
    recorder = Recorder()
    with recorder.measure("decode"):
        clock.leave_out(1000)
    assert recorder.totals().stages["decode"].seconds == 0.0


def test_plain_steps_exist() -> None:
    """The steps that need the smaller function alone are operations by these names."""
    import gpu_aug.ops

    assert set(vars(gpu_aug.ops)) >= warm._PLAIN_STEPS
    assert type(ColorJitter()).__name__ in warm._PLAIN_STEPS
