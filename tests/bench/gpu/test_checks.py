"""The steps of a visit that verify: what is planted is found, and what may differ passes."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu import (
    async_check,
    damage,
    decode,
    engines,
    image_kinds,
    loaders,
    regions,
    sanitizer,
    smoke,
    soak,
    streams,
    waits,
)
from bench.gpu.broken import broken_files
from bench.gpu.decoders import middle
from bench.gpu.photographs import photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from dali_pipes import DecodeError
from dali_pipes.decode import opencv
from dali_pipes.decode.dali.driver import Driver
from gpu_aug import RandomPerspective, Recipe, Resize
from readers import HeaderError, read_header


def bad(rows: Rows) -> list[str]:
    """The names of the rows that are wrong."""
    return [row.name for row in rows if row.verdict == "wrong"]


class TestEngines:
    """Engines beside each other."""

    def case(self, dtype: torch.dtype) -> engines.Case:
        """A warp."""
        return engines.Case(Recipe([Resize((2, 2)), RandomPerspective()]), "matrix", dtype)

    def test_a_difference_is_wrong(
        self, data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A Kornia that is a few steps off is found in every recipe, and the CPU beside it is right."""
        carried_out = engines.carried_out

        def off(engine: str, case: engines.Case, *given: Any) -> torch.Tensor:
            found = carried_out(engine, case, *given)
            step = 2 if case.dtype == torch.uint8 else 2**-4  # more than rounding in few bits
            return found + step * (engine == "kornia")

        monkeypatch.setattr(engines, "carried_out", off)
        engines.engines(scale, data, rows)

        assert bad(rows) == [row.name for row in rows if "kornia" in row.name]

    @pytest.mark.parametrize(
        ("dtype", "off", "passes"),
        [
            (torch.uint8, 1, True),
            (torch.uint8, 2, False),
            (torch.bfloat16, 2**-8, True),
            (torch.bfloat16, 2**-6, False),
            (torch.float32, torch.nan, False),
        ],
    )
    def test_results_in_few_bits(self, dtype: torch.dtype, off: float, passes: bool) -> None:
        """One step of uint8 and one of bfloat16 are rounding, two are not; what is not written differs."""
        case = self.case(dtype)
        ours = torch.full((1, 3, 2, 2), 100.0 if dtype == torch.uint8 else 0.75).to(dtype)

        found = engines.difference(ours, (ours.double() + off).to(dtype), case)

        assert (found <= engines.tolerance(case)) == passes


class TestKinds:
    """Images of every kind beside Pillow's pixels."""

    @pytest.mark.parametrize(
        ("ending", "off", "share", "passes"),
        [
            (".jpg", 4, 0.2, True),
            (".jpg", 4, 0.3, False),
            (".jpg", 5, 0.01, False),
            (".png", 0, 1, True),
            (".png", 1, 0.001, False),
        ],
    )
    def test_jpegs_have_a_tolerance(
        self, data: Path, ending: str, off: int, share: float, passes: bool
    ) -> None:
        """A JPEG may be 4 steps off and less than 1 on average; what the CPU decodes may not be off at all."""
        picture = image_kinds.upright(photographs(data, (40, 50), 1)[0])
        kind = image_kinds._pillow("picture", picture, ending)
        image = image_kinds.upright(kind.encoded).copy()
        chosen = np.random.default_rng(0).random(image.shape) < share
        image[chosen & (image < 250)] += np.uint8(off)

        if passes:
            image_kinds.judge([kind], [image], Row("one"))
        else:
            with pytest.raises(AssertionError, match="differs by"):
                image_kinds.judge([kind], [image], Row("one"))

    @pytest.mark.needs_dali
    def test_a_damaged_file_is_no_kind(self, data: Path, scale: Scale) -> None:
        """What the loader calls bad is wrong."""
        kind = next(image_kinds.made(data, scale))
        cut = replace(kind, encoded=kind.encoded[:-500])

        with pytest.raises(AssertionError, match="calls it bad"):
            image_kinds.load([kind, cut], scale)


class TestDamage:
    """Broken files among sound ones."""

    def test_files_are_broken_as_they_say(self, data: Path) -> None:
        """The CPU refuses what is cut, empty or no picture, and takes what is only damaged."""
        refused = set()
        broken = broken_files(photographs(data, (60, 80), 1)[0])
        for name, content in broken.items():
            try:
                header = read_header(content)
                if header.height * header.width < 10**6:
                    opencv.decode(content, (header.height, header.width))
            except (HeaderError, DecodeError):
                refused.add(name)

        assert {"cut at 50 %", "cut in the header", "no bytes", "text", "PNG, cut"} <= refused
        assert {"nonsense Huffman tables", "height 0 in the header"} <= refused
        assert "bits flipped in the scan" not in refused
        assert len(set(broken.values())) == len(broken)

    @pytest.mark.parametrize(
        ("images", "found", "complaint"),
        [
            ((0, 2, 3), [(1, "decode")], None),
            ((0, 1, 2, 3), [], "bad samples"),
            ((0, 2, 3), [(1, "header")], "bad samples"),
            ((0, 3), [(1, "decode")], "came instead"),
            ((0, 2.1, 3), [(1, "decode")], "differs by"),
        ],
    )
    def test_verdicts_and_neighbours_are_compared(
        self, images: tuple[float, ...], found: list[tuple[int, str]], complaint: str | None
    ) -> None:
        """Another verdict, a sample that is lost, and a neighbour with another bit are wrong."""
        sound = damage.Run({n: torch.full((3, 2, 2), n / 10) for n in range(4)})
        expected = damage.Run({n: sound.images[n] for n in (0, 2, 3)}, [(1, "decode")], ["cut"])
        actual = damage.Run({int(n): torch.full((3, 2, 2), n / 10) for n in images}, found, ["cut"])

        if complaint is None:
            damage.judge(actual, expected, sound, {1}, Row("one"))
        else:
            with pytest.raises(AssertionError, match=complaint):
                damage.judge(actual, expected, sound, {1}, Row("one"))


class TestSoak:
    """A long run."""

    @pytest.mark.parametrize("fault", ["none", "swapped", "bad"])
    def test_a_row_out_of_step_is_noticed(self, scale: Scale, fault: str) -> None:
        """Two pictures that changed places, and a bad sample that is handed over, are wrong."""
        images = torch.rand(4, 3, 64, 64)
        small = torch.nn.functional.avg_pool2d(images, 8)
        indices = torch.arange(4)
        if fault == "bad":
            small[2] = torch.nan
        pictures = soak.Pictures(Path(), np.arange(4), small, torch.ones(4, dtype=torch.bool))
        shown = images[[1, 0, 2, 3]] if fault == "swapped" else images
        batches = [SimpleNamespace(images=shown, indices=indices)] * scale.num_batches
        row = Row("one")

        worst, allowed, control = soak.follow(batches, pictures, scale, [])

        if fault == "none":
            row.judge(worst, allowed, control)
        else:
            with pytest.raises(AssertionError, match="differs by"):
                row.judge(worst, allowed, control)

    def test_a_leak_is_growth(self) -> None:
        """Half a MiB with each look adds up; ups and downs, and what the first quarter takes, do not."""
        waves = [n * 20.0 for n in range(25)] + [500.0 + 40 * (n % 3) for n in range(75)]

        assert soak.growth([500 + n / 2 for n in range(100)]) >= 18
        assert soak.growth(waves) == 0


def test_races_are_wrong(data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A loss that changes in its last digit when nobody waits is found, with its step."""
    losses = async_check.losses

    def racing(*given: Any, waits: bool, **more: Any) -> list[float]:
        found = losses(*given, waits=waits, **more)
        return found if waits else [*found[:2], found[2] + 1e-12, *found[3:]]

    monkeypatch.setattr(async_check, "decoders", lambda: ["cpu"])
    monkeypatch.setattr(async_check, "losses", racing)
    async_check.races(scale, data, rows)

    assert bad(rows) == ["cpu"]
    assert rows["cpu"].facts["first at step"] == [2, 2]


@pytest.mark.parametrize(
    ("part", "status", "text", "complaint"),
    [
        ("engine", 0, sanitizer.END, None),
        ("engine", sanitizer.FOUND, "========= Invalid __global__ write", "errors, the first: ========= Invalid"),
        ("engine", 0, "", "died before its end"),
        ("engine", 1, sanitizer.END, "exit 1"),
        ("planted", sanitizer.FOUND, "", None),
        ("planted", 0, sanitizer.END, "planted error is not found"),
    ],
)  # fmt: skip
def test_errors_of_our_kernels_are_wrong(
    part: str, status: int, text: str, complaint: str | None
) -> None:
    """An error is wrong, a run without an end, and a control that finds nothing."""
    if complaint is None:
        sanitizer.judge(part, status, text, Row("one"))
    else:
        with pytest.raises(AssertionError, match=complaint):
            sanitizer.judge(part, status, text, Row("one"))


def event(name: str, tid: int, ts: float, cat: str = "cuda_runtime", dur: int = 1) -> dict[str, Any]:  # fmt: skip
    """One of the events of a trace."""
    return {"name": name, "tid": tid, "ts": ts, "cat": cat, "dur": dur}


LOOP = [
    event(waits.MARK, 7, 100, "user_annotation", 900),
    event(waits.MARK, 3, 100, "gpu_user_annotation", 900),
    event("cudaStreamSynchronize", 9, 300),
    event("cudaStreamSynchronize", 7, 50),
    event("cudaDeviceSynchronize", 7, 1500),
    {"name": "process_name", "ph": "M", "tid": 7},
]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in ("cudaStreamSynchronize_v3020", "cudaEventSynchronize", "cudaMemcpy_ptds", "cuMemcpyDtoH_v2")),
        *((name, 0) for name in ("cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cuLaunchKernelEx")),
    ],
)  # fmt: skip
def test_waits_of_the_loop_are_found(name: str, count: int) -> None:
    """Calls that wait count on the loop's thread and within the loop; another thread's are told apart."""
    mine, others = waits.find_waits([*LOOP, event(name, 7, 400)])

    assert (mine.total(), dict(others)) == (count, {"cudaStreamSynchronize": 1})
    with pytest.raises(ValueError, match="no stretch called"):
        waits.find_waits(LOOP[1:])


def test_decoders_that_give_other_pictures_are_found(data: Path) -> None:
    """Negatives are found out, and so are files that are all alike."""
    encoded = [path.read_bytes() for path in sorted(data.glob("*.jpg"))]
    images = [torch.from_numpy(image_kinds.upright(one).copy()).permute(2, 0, 1) for one in encoded]

    assert decode.difference(images, encoded) < 1
    with pytest.raises(AssertionError, match="differ from OpenCV's"):
        decode.difference([255 - image for image in images], encoded)
    with pytest.raises(AssertionError, match="control"):
        decode.difference(images[:1] * 3, encoded[:1] * 3)


def test_regions_of_other_pictures_are_found() -> None:
    """A changed bit is wrong, and so are pictures that are all alike."""
    whole = [torch.randint(0, 256, (3, 40, 60), dtype=torch.uint8) for _ in range(3)]
    rows, columns = middle(40, 60)
    cut = [image[:, rows, columns].clone() for image in whole]
    regions.judge(lambda: whole, lambda: cut, Row("one"))
    changed = [cut[0] ^ 1, *cut[1:]]

    for images, found in ((whole, changed), (whole[:1] * 3, cut[:1] * 3)):
        with pytest.raises(AssertionError, match="differs by"):
            regions.judge(lambda images=images: images, lambda found=found: found, Row("one"))


class TestSmoke:
    """The first minute."""

    @pytest.mark.parametrize("fault", ["none", "swapped", "dark"])
    def test_pictures_of_other_rows_are_wrong(self, data: Path, fault: str) -> None:
        """Two rows of a batch that changed places are wrong, and so is one that is five steps too dark."""
        encoded = photographs(data, (40, 50), 4)
        kinds = [image_kinds.Kind("", ".jpg", one) for one in encoded]
        images = torch.from_numpy(np.stack(list(map(image_kinds.upright, encoded))))
        images = images.permute(0, 3, 1, 2)
        if fault == "swapped":
            images = images[[1, 0, 2, 3]]
        if fault == "dark":
            images = torch.cat([images[:3], images[3:].clamp(min=5) - 5])
        batches: Any = iter([SimpleNamespace(images=images, indices=torch.arange(4))])

        if fault == "none":
            smoke.judge_pictures(batches, kinds, Row("one"))
        else:
            with pytest.raises(AssertionError, match="differs by"):
                smoke.judge_pictures(batches, kinds, Row("one"))

    @pytest.mark.parametrize(
        ("told", "is_right"),
        [
            ({"percent of NVDEC at most": 40}, True),
            ({"percent of NVDEC at most": 0}, False),
            ({"percent of the GPU": "not known: no NVML"}, False),
        ],
        ids=["busy", "idle", "not told"],
    )
    def test_an_engine_that_is_idle_is_wrong(
        self, rows: Rows, scale: Scale, monkeypatch: pytest.MonkeyPatch, told: Any, is_right: bool
    ) -> None:
        """Where the driver saw no work of the decoder, or tells nothing, something else decoded."""
        monkeypatch.setattr(smoke, "Busy", lambda _: nullcontext(SimpleNamespace(found=told)))
        monkeypatch.setattr(smoke, "finish", lambda _: None)
        monkeypatch.setattr(smoke, "_BUSY_SECONDS", 0.0)
        visiting = replace(scale, device=torch.device("cuda", 0))

        with rows.check("one") as row:
            smoke.judge_busy(row, "NVDEC", lambda: None, visiting)

        assert (rows["one"].verdict == "right") == is_right

    @pytest.mark.needs_dali
    @pytest.mark.parametrize("fault", ["none", "raises", "refuses"])
    def test_a_warm_up_that_is_refused_is_not_right(
        self, data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        """DALI's warm-up may neither fail nor may batches come only because the CPU made them."""
        warm_up, take = Driver.warm_up, Driver._take

        def refused(driver: Driver, inputs: Any) -> bool:
            is_warm = warm_up(driver, inputs)
            if fault == "raises":
                raise RuntimeError("the warm-up is refused as planned")
            monkeypatch.setattr(Driver, "_take", lambda self, stream: take(self, stream) and None)
            return is_warm

        if fault != "none":
            monkeypatch.setattr(Driver, "warm_up", refused)
        with rows.check("one") as row:
            row.value = len(list(image_kinds.taken(scale, data, (300, 400), 4, 1)))

        assert rows["one"].verdict == {"none": "right", "raises": "failed"}.get(fault, "wrong")


@pytest.mark.parametrize("fault", ["none", "late"])
def test_a_graph_with_other_answers_is_wrong(
    data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A replay that gives the answer of the batch before is found, for each decoder."""
    if fault == "late":
        monkeypatch.setattr(streams, "capture", _late)
    monkeypatch.setattr(streams, "decoders", lambda: ["cpu"])
    streams.streams(scale, data, rows)

    name = "cpu: a graph captured while batches are made"
    modes = ["thread_local", "global"] if fault == "late" else []
    assert bad(rows) == [f"{name}, {mode}" for mode in modes]


def _late(work: Callable[[], torch.Tensor], _scale: Scale, _mode: str) -> Any:
    answers = [work()]
    return lambda: answers.append(work()), lambda: answers[-2]


def test_a_loader_that_fails_keeps_nobody_from_his_turns(
    data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends in its second round leaves the other its rounds, and what is lost is that of each round."""
    images = torch.zeros(8, 3, 32, 32)
    taken: list[None] = []

    def dying() -> torch.Tensor:
        taken.append(None)
        if len(taken) > 4:
            raise RuntimeError("as planned")
        return images

    sources = {"dying": loaders.Source(dying), "sound": loaders.Source(lambda: images)}
    monkeypatch.setattr(loaders, "_opened", lambda *_: sources)
    loaders.loaders(replace(scale, seconds=1e-9), data, rows)

    assert [row.name for row in rows if row.verdict == "failed"] == ["dying"]
    assert len(rows["sound, alone"].facts["runs"]) == 3
    ideal, own = (rows[name].facts["runs"] for name in (loaders.IDEAL, "sound, training"))
    lost = [100 * (1 - one / other) for one, other in zip(own, ideal, strict=True)]
    assert rows["sound, lost to waiting"].facts["runs"] == pytest.approx(lost, rel=1e-3)
