"""The steps of a visit that verify: what is planted is found, and what may differ passes."""

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
    resume,
    sanitizer,
    soak,
    video,
    waits,
)
from bench.gpu.broken import broken_files
from bench.gpu.decoders import judge_same
from bench.gpu.photographs import photographs
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from bench.gpu.videos import KINDS
from dali_pipes import DecodeError
from dali_pipes.decode import opencv
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
    ("fault", "complaint"),
    [
        ("none", None),
        ("index", "other samples.*3.*99 instead of 13"),
        ("pixels", "differs by"),
        ("missing", "other samples"),
        ("seed", "control"),
    ],
)
def test_a_run_that_goes_on_otherwise_is_wrong(fault: str, complaint: str | None) -> None:
    """Another sample, other pixels, a position that nobody had, and a control that is no other run."""
    pictures = torch.rand(7, 3, 16, 16)
    positions = [(0, n) for n in range(6)]

    def run(first: int) -> resume.Run:
        return resume.Run({at: 10 + at[1] + first for at in positions}, {at: pictures[at[1] + first] for at in positions})  # fmt: skip

    whole, found, other = run(0), run(0), run(int(fault != "seed"))
    match fault:
        case "index":
            found.indices[0, 3] = 99
        case "pixels":
            found.images[0, 3] = found.images[0, 3].roll(1, 1)
        case "missing":
            del found.indices[0, 3]

    if complaint is None:
        resume.compare(found, whole, other, Row("one"))
    else:
        with pytest.raises(AssertionError, match=complaint):
            resume.compare(found, whole, other, Row("one"))


MEMCHECK = """\
one line of the program
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at write_one+0x80 in planted.py:26
=========     by thread (0,0,0) in block (0,0,0)
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: run_pass [0x3344e0] in libcuda.so.1
=========
========= Invalid __global__ read of size 1 bytes
=========     at 0xd80 in /build/decode.cu:162:void nvjpeg::DecodeHuffman<(bool)1>(T2 *, int)
=========     by thread (63,0,0) in block (506,0,0)
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) on CUDA API call to cuMemcpyDtoHAsync_v2.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at sum_gray+0x550 in triton_kernels.py:100
=========     and Read access at sum_gray+0x580 in triton_kernels.py:107 [64 hazards]
=========
========= Error: Race reported between Write access at dali::Kernel(float *)+0x550
=========     and Read access at run_pass+0x580 [64 hazards]
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
ENDED = f"{sanitizer.END}\n"


@pytest.mark.parametrize(
    ("part", "text", "complaint"),
    [
        ("engine", ENDED + CLEAN, None),
        ("engine", ENDED + RACECHECK, None),
        ("engine", ENDED + RACECHECK.replace("dali::Kernel(float *)", "run_pass"), "1 errors"),
        ("engine", ENDED + MEMCHECK, "1 errors, the first: Invalid __global__ write"),
        ("engine", ENDED + MEMCHECK.replace("write_one", "void at::native::fill"), "1 errors"),
        ("engine", CLEAN, "died before its end"),
        ("engine", ENDED + MEMCHECK[:300], "no verdict"),
        ("planted_write", MEMCHECK, None),
        ("planted_write", CLEAN, "planted error is not found"),
    ],
)
def test_errors_of_our_kernels_are_wrong(part: str, text: str, complaint: str | None) -> None:
    """Others' errors pass, ours do not, nor does a run without a verdict or an end, or a control that finds nothing."""
    if complaint is None:
        sanitizer.judge(part, text, Row("one"))
    else:
        with pytest.raises(AssertionError, match=complaint):
            sanitizer.judge(part, text, Row("one"))


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


@pytest.mark.needs_dali
def test_late_frames_are_wrong(data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A decoder that is one frame late is wrong, one in time is right, and what is left to the CPU is open."""
    monkeypatch.setattr(video, "KINDS", {name: KINDS[name] for name in ("vp9", "mpeg4")})
    video.frames(scale, data, rows)
    decode_ = video.decode
    monkeypatch.setattr(video, "decode", lambda *given: late(decode_(*given)))
    monkeypatch.setattr(video, "KINDS", {"vp9 late": KINDS["vp9"]})
    video.frames(scale, data, rows)

    assert [row.verdict for row in rows] == ["right", "open", "wrong"]
    assert "refused" in rows["mpeg4"].facts["whole file"]


def late(decoded: torch.Tensor | str) -> torch.Tensor | str:
    """Frames one place later."""
    return decoded if isinstance(decoded, str) else decoded.roll(1, 0)


def test_decoders_that_give_other_pictures_are_found(data: Path) -> None:
    """Negatives are found out, and so are files that are all alike; a changed bit is where none is allowed."""
    encoded = [path.read_bytes() for path in sorted(data.glob("*.jpg"))]
    images = [torch.from_numpy(image_kinds.upright(one).copy()).permute(2, 0, 1) for one in encoded]
    arrays = [image_kinds.upright(one).astype(np.int16) for one in encoded]
    changed = [arrays[0] ^ 1, *arrays[1:]]

    assert decode.difference(images, encoded) < 1
    with pytest.raises(AssertionError, match="differ from OpenCV's"):
        decode.difference([255 - image for image in images], encoded)
    with pytest.raises(AssertionError, match="control"):
        decode.difference(images[:1] * 3, encoded[:1] * 3)
    judge_same(arrays, arrays, Row("one"))
    for found, expected in ((changed, arrays), (arrays[:1] * 3, arrays[:1] * 3)):
        with pytest.raises(AssertionError, match="differs by"):
            judge_same(found, expected, Row("one"))


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
