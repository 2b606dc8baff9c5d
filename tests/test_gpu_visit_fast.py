"""The steps of a GPU visit that measure speed: their arithmetic, their fairness, and what they do when something fails."""

import ctypes
import io
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from bench.compare import usage as watching
from bench.compare.nvml import Meter, NvmlError
from bench.compare.usage import Busy
from bench.gpu_visit import decode, flow, kernel, loop, shares, sweep, tiles, trace, training
from bench.gpu_visit.scale import Notes, Scale, scale_for
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomAffine, Recipe, compile_engine

pytestmark = pytest.mark.filterwarnings(
    "ignore:The image decoding and encoding capabilities of TorchVision:DeprecationWarning"
)

GPU = torch.device("cuda", 0)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures that differ."""
    folder = tmp_path_factory.mktemp("pictures")
    rows, columns = np.mgrid[:300, :400]
    for number in range(4):
        waves = [
            127 + 120 * np.sin(rows / a + columns / b + number)
            for a, b in ((9, 13), (17, 7 + 3 * number), (11, 19))
        ]
        image = Image.fromarray(np.stack(waves, -1).astype(np.uint8))
        image.save(folder / f"{number}.jpg", quality=95)
    return folder


# Every step, in a rehearsal.


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    "step",
    [decode.dali, decode.others, kernel.kernel, shares.shares, sweep.sweep, tiles.tiles],
    ids=lambda step: step.__name__,
)
def test_speed_steps_run_and_say_what_the_report_needs(
    step: Any, pictures: Path, tmp_path: Path
) -> None:
    """No measurement fails in a rehearsal, and every row with a speed has its runs."""
    pytest.importorskip("nvidia.nvimgcodec")
    notes = Notes(tmp_path / "step.json")

    step(scale_for(rehearse=True), pictures, notes)

    assert notes.failures == []
    assert notes.found["headline"]
    rows = [row for row in notes.found.values() if isinstance(row, dict)]
    fast = [row for row in rows if "images_per_second" in row]
    assert len(fast) >= 3
    assert all(row["images_per_second"] > 0 and len(row["runs"]) >= 3 for row in fast)


# What is timed.


class Ahead:
    """A source that prepares four batches ahead, one in a tenth of a second, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ready = [-0.1] * 4

    def __call__(self) -> None:
        """Take the oldest batch; the one that takes its place is begun when those before it are done."""
        self.now = max(self.now, self._ready.pop(0))
        self._ready.append(max(self.now, self._ready[-1]) + 0.1)


def test_working_ahead_does_not_flatter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lay ready is not counted: ten batches of 8 per second are 80 images per second."""
    source = Ahead()
    monkeypatch.setattr("bench.gpu_visit.flow.time.perf_counter", lambda: source.now)

    fair = flow.slice_rate(source, 8, 1.0, torch.device("cpu"), discard=4)

    assert fair == pytest.approx(80)
    source = Ahead()
    flattered = flow.slice_rate(source, 8, 1.0, torch.device("cpu"))
    assert flattered > 1.3 * 80


def test_flow_has_a_median_of_three() -> None:
    """The number is the middle of the runs."""
    assert flow.summary([1.0, 9.0, 2.04]) == {"images_per_second": 2.0, "runs": [1.0, 9.0, 2.0]}


# Who was at work on the GPU.


def work(name: str, start: float, end: float, stream: int = 7, category: str = "kernel") -> Any:
    return trace.Work(name, category, stream, (start, end))


def test_moments_are_counted_once() -> None:
    """Intervals that overlap, touch or hold one another become one."""
    merged = trace.union([(3.0, 4.0), (0.0, 2.0), (1.0, 1.5), (4.0, 5.0), (6.0, 6.0)])

    assert merged == [(0.0, 2.0), (3.0, 5.0)]
    assert trace.total(merged) == 4.0
    assert trace.clipped(merged, (1.0, 3.5)) == [(1.0, 2.0), (3.0, 3.5)]


def test_common_moments_are_those_of_a_raster() -> None:
    """The overlap of random intervals is what counting small cells gives."""
    rng = np.random.default_rng(0)
    one, other = (
        trace.union([(float(a), float(a + b)) for a, b in rng.integers(0, 40, (12, 2))])
        for _ in range(2)
    )
    cells = [
        {cell for start, end in intervals for cell in range(int(start), int(end))}
        for intervals in (one, other)
    ]

    assert 0 < trace.total(trace.common(one, other)) == len(cells[0] & cells[1])


def test_work_is_known_by_its_name_or_its_stream() -> None:
    """Names of the libraries tell; a kernel without one belongs to what its stream does otherwise."""
    works = [
        work("void nvjpeg::DecodeBatchedCujpeg::jpegdec_vld(unsigned int const*)", 0, 1, 20),
        work("nvimgcodec::ConvertNormKernel<unsigned char>", 0, 1, 20),
        work("unknown_of_a_decoder", 0, 1, 20),
        work("void dali::kernels::SliceKernel<unsigned char>", 0, 1, 21),
        work("run_pass", 0, 1, 22),
        work("void at::native::index_copy_kernel", 0, 1, 22),
        work("sm90_xmma_fprop_implicit_gemm_bf16", 0, 1, 7),
        work("Memcpy HtoD (Pinned -> Device)", 0, 1, 20, "gpu_memcpy"),
        work("Memset (Device)", 0, 1, 7, "gpu_memset"),
    ]

    parts = [part for part, _ in trace.classified(works)]

    assert parts == [
        "decode", "decode", "decode", "resize", "augment", "augment", "step", "copies", "copies",
    ]  # fmt: skip


def test_shares_are_of_the_middle_and_overlap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten seconds decoding takes six, the step five, three of them at once; two are idle."""
    monkeypatch.setattr(trace, "_SKIPPED", (0.0, 0.0))
    works = [
        work("nvjpeg::one", 0, 4, 20),
        work("nvjpeg::two", 3, 6, 21),  # a second of both
        work("gemm", 3, 8, 7),
        work("gemm", 10, 10, 7),
    ]

    found = trace.shares(works)

    assert found["share"] == {"decode": 0.6, "step": 0.5, "idle": 0.2}
    assert found["decode beside augment or step"] == 0.3
    assert found["busiest"]["decode: nvjpeg::one"] == 4000
    monkeypatch.setattr(trace, "_SKIPPED", (0.2, 0.2))
    assert trace.shares(works)["share"] == {"decode": 0.6667, "step": 0.8333, "idle": 0.0}


def test_a_trace_is_read() -> None:
    """The profiler's file tells microseconds, categories and streams; the host's part is left out."""
    event = {"name": "k", "cat": "kernel", "ts": 2e6, "dur": 5e5, "args": {"stream": 13}}
    content = {"traceEvents": [event, {"name": "aten::add", "cat": "cpu_op", "ts": 1, "dur": 2}]}

    assert trace.read_trace(content) == [work("k", 2.0, 2.5, 13)]
    assert trace.shares([]) == {"seconds": 0.0, "share": {}, "busiest": {}}


# What the driver says.


class Driver:
    """NVML of a machine with one GPU, whose JPEG engine it does not know."""

    nvmlInit_v2 = staticmethod(lambda: 0)  # noqa: N815 - NVML's names
    nvmlDeviceGetJpgUtilization = staticmethod(lambda *_: 3)  # noqa: N815

    def __init__(self, *uuids: str) -> None:
        self._uuids = uuids

    def nvmlDeviceGetHandleByUUID(self, name: Any, _handle: Any) -> int:  # noqa: N802
        """Know those there are."""
        return 0 if name.value.decode() in self._uuids else 6

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        """Count them, one at least."""
        count._obj.value = max(1, len(self._uuids))
        return 0

    nvmlDeviceGetHandleByIndex_v2 = staticmethod(lambda *_: 0)  # noqa: N815

    def nvmlDeviceGetDecoderUtilization(self, _handle: Any, percent: Any, micros: Any) -> int:  # noqa: N802
        """Say 42 percent of the last fifth of a second."""
        percent._obj.value, micros._obj.value = 42, 200_000
        return 0

    def nvmlDeviceGetUtilizationRates(self, _handle: Any, rates: Any) -> int:  # noqa: N802
        """Say 97 percent."""
        rates._obj.gpu = 97
        return 0


def test_the_driver_is_asked_for_each_engine() -> None:
    """What it knows comes as percent and seconds; what it does not know is an error of that engine alone."""
    readers = Meter("abc", Driver("GPU-abc")).readers()

    assert readers["NVDEC"]() == (42, 0.2)
    assert readers["the GPU"]() == (97, 1 / 6)
    with pytest.raises(NvmlError, match="nvmlDeviceGetJpgUtilization: NVML error 3"):
        readers["the JPEG engine"]()


def test_the_only_gpu_is_taken_under_another_name() -> None:
    """A name that NVML does not know is no matter with one GPU, and is refused with two."""
    assert Meter("abc", Driver("MIG-1")).readers()["NVDEC"]() == (42, 0.2)
    with pytest.raises(NvmlError, match="none of the 2 GPUs"):
        Meter("abc", Driver("GPU-1", "GPU-2"))


def test_what_was_before_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Percents that average over the time before the block are left out; an engine that fails costs its own."""
    monkeypatch.setattr(watching, "_uuid", lambda _: "abc")
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    now, looked_enough = 0.0, threading.Event()
    monkeypatch.setattr(watching.time, "perf_counter", lambda: now)

    def since() -> tuple[int, float]:
        nonlocal now
        now += 0.05
        if now > 0.5:
            looked_enough.set()
        return (90 if now < 0.15 else 10), 0.2

    def broken() -> tuple[int, float]:
        raise NvmlError("as planned")

    meter = SimpleNamespace(readers=lambda: {"NVDEC": since, "the JPEG engine": broken})
    with Busy(GPU, lambda _: meter) as busy:
        assert looked_enough.wait(60)

    assert busy.found["percent of NVDEC"] == 10
    assert busy.found["percent of NVDEC at most"] == 10
    assert busy.found["percent of the JPEG engine"] == "not known: as planned"


def test_a_short_block_takes_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the block is shorter than the driver's average, its last word counts; without a driver it is said."""
    monkeypatch.setattr(watching, "_uuid", lambda _: "abc")
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    numbers = itertools.count()
    meter = SimpleNamespace(readers=lambda: {"NVDEC": lambda: (next(numbers), 60.0)})
    with Busy(GPU, lambda _: meter) as busy:
        time.sleep(0.1)
    with Busy(GPU, lambda _: ctypes.CDLL("libnothing-of-that-name.so")) as blind:
        time.sleep(0.05)

    assert busy.found["percent of NVDEC"] == next(numbers) - 1
    assert blind.found["percent of the GPU"].startswith("not known: OSError")


# Bytes and operations.


def counted(recipe: Recipe, side: int = 16, num: int = 8) -> float:
    """Operations per pixel that are counted while a recipe runs on the CPU."""
    engine = compile_engine("fused", recipe, device=torch.device("cpu"))
    sizes = np.full((num, 2), side)
    images = torch.zeros(num, side, side, 3, dtype=torch.uint8)
    out = torch.empty(num, 3, side, side)
    draws = recipe.draw(0, 0, np.arange(num), sizes)
    total = kernel._operations(engine, lambda _: engine.run(images, draws, out))
    return total / (num * side * side)


def test_cores_count_as_busy_where_they_are_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 ticks 50 were idle; averages over blocks leave out what is not known."""
    ticks = iter([(100, 40), (300, 90), (300, 90), (400, 140)])
    monkeypatch.setattr(watching, "_ticks", lambda: next(ticks))
    looks = []
    for _ in range(2):
        with Busy(torch.device("cpu")) as busy:
            pass
        looks.append(busy)
    looks[0].found["percent of NVDEC"] = "not known: as planned"

    assert [look.found["percent of the cores"] for look in looks] == [75, 50]
    assert watching.mean_of(looks) == {"percent of the cores": 62}


def test_operations_are_those_of_the_stages() -> None:
    """Normalising is 3 corrected divisions by 255 and 3 products; a flip adds none; a warp adds its weights."""
    normalise = counted(Recipe([Normalize()]))

    assert normalise == 3 * 3 + 3
    assert counted(Recipe([HorizontalFlip(p=1.0), Normalize()])) == normalise
    assert counted(Recipe([RandomAffine(15.0), Normalize()])) > 4 * normalise


def test_a_mean_costs_its_pixels_again() -> None:
    """Contrast loads all pixels twice, takes 3 products and a sum for the gray, and then 3 products within 6 limits."""
    jitter = Recipe([ColorJitter(contrast=(0.5, 0.6))])

    assert counted(jitter) == 9 + (9 + 4) + (3 + 6)


def test_looking_at_programs_leaves_the_engine_as_it_was() -> None:
    """What counts operations is gone afterwards, also after an error."""
    engine: Any = compile_engine("fused", Recipe([Normalize()]), device=torch.device("cpu"))
    usual = engine._run_program

    with pytest.raises(RuntimeError, match="as planned"):
        kernel._operations(engine, _raise)

    assert engine._run_program is usual


def _raise(_number: int) -> None:
    raise RuntimeError("as planned")


def test_the_higher_floor_counts() -> None:
    """A thousand million bytes at 1000 GB/s take a millisecond, as many operations at 500 G/s two."""
    ceiling = kernel.Ceiling(copy=1000.0, arithmetic=500.0)

    found = kernel._floors(10**9, 1e9, 3.0, ceiling)

    assert found["floor_milliseconds"] == {"bytes": 1.0, "operations": 2.0}
    assert (found["floor"], found["times_floor"]) == ("operations", 1.5)


# Decoders.


class Tensors:
    """A decoder that gives prepared images."""

    def __init__(self, shift: int = 0) -> None:
        self._shift = shift

    def __call__(self, encoded: list[bytes]) -> list[torch.Tensor]:
        """Decode by Pillow, and add to each value; files beginning with an X are refused."""
        if any(part[:1] == b"X" for part in encoded):
            raise RuntimeError("4 of 4 images were refused")
        opened = [np.asarray(Image.open(io.BytesIO(part))) for part in encoded]
        return [torch.from_numpy(image + np.uint8(self._shift)) for image in opened]


def encoded_pictures(pictures: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(pictures.glob("*.jpg"))]


def test_refused_restart_markers_are_an_answer_and_other_pixels_an_error(pictures: Path) -> None:
    """A decoder may refuse; one that takes them and gives other pixels is wrong, and so are equal photographs."""
    plain = encoded_pictures(pictures)
    other = list(plain)
    decoder: Any = Tensors()

    def turned(encoded: list[bytes]) -> list[torch.Tensor]:
        return Tensors(shift=int(encoded is other))(encoded)

    assert tiles._same(decoder, plain, other)["restart markers"] == "accepted"
    refused = tiles._same(decoder, plain, [b"X" + part for part in plain])
    assert refused["restart markers"].startswith("refused: RuntimeError: 4 of 4")
    with pytest.raises(AssertionError, match="differ by up to"):
        tiles._same(cast("Any", turned), plain, other)
    with pytest.raises(AssertionError, match="by 0, more than 0"):
        tiles._same(decoder, plain[:1] * 3, other[:1] * 3)


def test_wrong_pictures_are_no_result(pictures: Path) -> None:
    """A decoder that gives negatives is found out, and so are files that are all alike."""
    encoded = encoded_pictures(pictures)
    right = Tensors()(encoded)

    assert decode._difference(right, encoded)["mean"] < 1
    with pytest.raises(AssertionError, match="pixels differ from OpenCV's"):
        decode._difference([255 - image for image in right], encoded)
    with pytest.raises(AssertionError, match="from other pictures by 0"):
        decode._difference(right[:1] * 3, encoded[:1] * 3)


@pytest.mark.needs_dali
def test_a_failing_decoder_costs_its_own_rows(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one backend cannot be made the others are measured, and the headline says so."""
    monkeypatch.setattr(tiles, "NvImageCodec", _no_codec)
    notes = Notes(tmp_path / "step.json")

    tiles.tiles(one_size(), pictures, notes)

    assert notes.found["500x375 plain, CPU_ONLY"]["error"] == "RuntimeError: no such engine"
    assert notes.found["500x375 cut 0.5, DALI"]["times_plain"] > 0
    assert "CPU_ONLY: restart markers RuntimeError: no such engine" in notes.found["headline"]


def _no_codec(*_: Any) -> None:
    raise RuntimeError("no such engine")


def one_size() -> Scale:
    """A rehearsal with small photographs only."""
    scale = scale_for(rehearse=True)
    return replace(scale, pictures={(375, 500): (4, (4,))})


# The loader's choices.


@pytest.mark.needs_dali
def test_shares_for_the_jpeg_engine_reach_dali(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the block decoders get the share, and afterwards they are as they were."""
    from nvidia.dali import fn

    seen: list[Any] = []
    monkeypatch.setattr(fn.decoders, "image_slice", lambda **given: seen.append(given))
    usual = fn.decoders.image_slice

    with sweep._engine_load(0.3, scale_for(rehearse=True)):
        fn.decoders.image_slice(device="cpu")
    fn.decoders.image_slice(device="cpu")

    assert seen == [{"device": "cpu", "hw_decoder_load": 0.3}, {"device": "cpu"}]
    assert fn.decoders.image_slice is usual


def test_the_best_choice_is_named(tmp_path: Path) -> None:
    """The headline names the fastest of each factor, and says where the default is."""
    notes = Notes(tmp_path / "step.json")
    notes.put(
        **{
            "default": {"batch_size": 128, "prefetch": 2, "images_per_second": 1000.0},
            "batch_size 64": {"times_default": 0.9},
            "batch_size 256": {"times_default": 1.2},
            "prefetch 4": {"times_default": 0.99},
            "hw_decoder_load 0.9": {"error": "RuntimeError: boom"},
        }
    )

    told = sweep._headline(notes)

    assert "batch_size 256: 1.2 times that" in told
    assert "no other prefetch is faster" in told
    assert "hw_decoder_load: nothing measured" in told


def test_choices_take_turns() -> None:
    """A machine that slows down does not change a ratio: each is of one round."""
    speeds = iter([100.0, 200.0, 50.0, 100.0, 10.0, 20.0])

    def rate(_seconds: float) -> float:
        return next(speeds)

    found = sweep._in_turns(rate, rate, scale_for(rehearse=True))

    assert found["times_default"] == 2.0
    assert found["runs"] == [200.0, 100.0, 20.0]


# Training.


def maker(batches: Callable[[], Any]) -> Callable[[], training.Source]:
    return lambda: training.Source(batches(), 1, 1)


def test_a_loader_that_fails_keeps_its_rounds_and_costs_nobody(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that cannot be opened and one that ends in its second turn leave the third its rounds."""
    pair = (torch.zeros(8, 3, 32, 32), torch.zeros(8, dtype=torch.int64))
    calls: list[None] = []

    def dying() -> Any:
        while len(calls) < 2 * turns_of_one:
            calls.append(None)
            yield pair
        raise RuntimeError("as planned")

    turns_of_one = 9  # one to be opened; then one that is discarded, three alone and three behind the step, at least
    sources = {
        "broken": maker(lambda: iter(())),
        "dying": maker(dying),
        "sound": maker(lambda: itertools.repeat(pair)),
    }
    monkeypatch.setattr(training, "_makers", lambda *_: sources)
    notes = Notes(tmp_path / "step.json")

    training.training(replace(one_size(), seconds=0.0), pictures, notes)

    assert notes.found["broken"]["error"].startswith("StopIteration")
    assert notes.found["dying"]["error"] == "RuntimeError: as planned"
    assert len(notes.found["dying"]["runs"]) in (1, 2)
    assert len(notes.found["sound"]["runs"]) == 3
    assert notes.found["sound"]["share_lost_runs"]
    assert "sound: loses" in notes.found["headline"]


# On a GPU.


@pytest.mark.needs_cuda
@pytest.mark.needs_dali
def test_decoding_and_augmenting_are_seen_on_the_gpu(pictures: Path) -> None:
    """The profiler shows DALI's kernels and ours, and each is taken for what it is."""
    scale = replace(scale_for(rehearse=False), batch_size=8, seconds=0.05)
    recipe = Recipe.imagenet_train(size=64)
    with loop.loader_for(scale, pictures, "dali", batch_size=8, recipe=recipe) as loader:
        batches = loop.endless(loader)
        next(batches)
        works = trace.recorded(lambda: [next(batches) for _ in range(20)], scale.device)

    parts = {part for part, _ in trace.classified(works)}
    assert {"decode", "resize", "augment", "copies"} <= parts, trace.shares(works)["busiest"]
    assert 0 < trace.shares(works)["share"]["decode"] <= 1


@pytest.mark.needs_cuda
def test_the_driver_answers(pictures: Path) -> None:
    """NVML is asked while decoders work, and tells percents of each engine."""
    encoded = encoded_pictures(pictures)
    scale = scale_for(rehearse=False)
    decoder = decode._torchvision(encoded * 16, scale)
    with Busy(scale.device) as found:
        flow.flow_rate(decoder, 64, 1.5, scale.device, discard=1)

    told = {name: found.found.get(f"percent of {name}") for name in ("the GPU", "the JPEG engine")}
    assert all(isinstance(percent, int) for percent in told.values()), found.found
