"""The steps of a visit that show whether the GPU path is right: what they let pass, and what they stop at."""

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from bench.gpu_visit import agree, damage, kinds, loop, memory, resume, sanitizer, waits
from bench.gpu_visit.broken import broken_files, cut, resized
from bench.gpu_visit.coded import SIDE, code_of, coded_pictures, read_codes
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, scale_for
from dali_pipes import DecodeError
from dali_pipes.decode import opencv
from gpu_aug import ColorJitter, Normalize, RandomPerspective, Recipe, Resize
from readers import HeaderError, read_header
from tests import conftest

SCALE = scale_for(rehearse=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two pictures that are nowhere flat."""
    folder = tmp_path_factory.mktemp("data")
    rows, columns = np.mgrid[:300, :400]
    for number in range(2):
        waves = [127 + 120 * np.sin(rows / a + columns / (b + number)) for a, b in ((5, 9), (7, 4), (11, 6))]  # fmt: skip
        noise = np.random.default_rng(number).normal(0, 8, (300, 400, 3))
        pixels = np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=95)
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """Empty ones."""
    return Notes(tmp_path / "step.json")


class TestAgreement:
    """The fused engine against itself, Kornia and float64."""

    CASE = agree.Case(Recipe([Resize((24, 30)), RandomPerspective(p=1.0), Normalize()]), "matrix")

    def pictures(self) -> torch.Tensor:
        """Three of noise."""
        return torch.randint(0, 256, (3, 24, 30, 3), dtype=torch.uint8)

    def test_the_reference_is_float64(self) -> None:
        """Its jitter is torchvision's in float64 to the twelfth digit, which float32 is not."""
        from torchvision.transforms.v2 import functional as tv

        recipe = Recipe([Resize((24, 30)), ColorJitter((1.3, 1.3), 0, 0, 0), Normalize()])
        pictures = self.pictures()
        draws = recipe.draw(0, 0, np.arange(3), np.full((3, 2), (24, 30)))

        found = agree.in_float64(recipe, pictures, draws)

        # Engines get parameters as float32.
        bright = tv.adjust_brightness(pictures.permute(0, 3, 1, 2).double() / 255, float(np.float32(1.3)))  # fmt: skip
        leaf = recipe.batch_leaves[-1]
        assert isinstance(leaf, Normalize)
        mean, std = (torch.tensor(v).double().view(1, 3, 1, 1) for v in (leaf.mean, leaf.std))
        assert found.dtype == torch.float64
        assert (found - (bright - mean) / std).abs().max() < 1e-6
        other = agree.carried_out("kornia", agree.Case(recipe, ""), pictures, draws, SCALE.device)
        assert 0 < (found - other.double()).abs().max() < 1e-5

    def test_nothing_is_rounded_to_float32(self) -> None:
        """Who asks for float32 gets float64, whatever the way."""
        third = torch.tensor([1 / 3], dtype=torch.float64)

        with agree.InFloat64():
            asked = [third.float(), third.to(torch.float32), third.to(dtype=torch.float32)]
            made = torch.zeros(2, dtype=torch.float32)

        assert all(torch.equal(one, third) for one in asked)
        assert made.dtype == torch.float64

    def test_a_small_difference_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Results that are a tenth of a step off pass for nothing; as they are they pass."""
        carried_out = agree.carried_out
        row: dict[str, Any] = {}
        agree._compare(self.CASE, self.pictures(), SCALE.device, row)
        assert row["control"] > row["tolerance"] > row["float64"]["max"]

        def off(engine: str, *given: Any) -> torch.Tensor:
            return carried_out(engine, *given) + (0.1 / 255 / 0.225) * (engine == "kornia")

        monkeypatch.setattr(agree, "carried_out", off)
        with pytest.raises(AssertionError, match=r"^kornia: 0\.1"):
            agree._compare(self.CASE, self.pictures(), SCALE.device, {})

    @pytest.mark.parametrize(
        ("dtype", "off", "passes"),
        [
            (torch.uint8, 1, True),
            (torch.uint8, 2, False),
            (torch.bfloat16, 2**-8, True),
            (torch.bfloat16, 2**-6, False),
        ],
    )
    def test_results_in_few_bits(self, dtype: torch.dtype, off: float, passes: bool) -> None:
        """One step of uint8 and one of bfloat16 are rounding, two are not."""
        case = agree.Case(Recipe([Resize((2, 2)), RandomPerspective()]), "matrix", dtype)
        ours = torch.full((1, 3, 2, 2), 0.75 if dtype == torch.bfloat16 else 100).to(dtype)

        _, excess = agree.gaps(ours, (ours.double() + off).to(dtype), case, 0.05)

        assert bool((excess <= 0).all()) == passes

    def test_nan_is_no_agreement(self) -> None:
        """A result that is not written differs."""
        ours = torch.full((1, 3, 2, 2), torch.nan)

        _, excess = agree.gaps(ours, torch.zeros(1, 3, 2, 2), self.CASE, 0.05)

        assert (excess > 0).all()


class TestKinds:
    """Images of every kind beside Pillow's pixels."""

    @pytest.mark.parametrize(("off", "share", "passes"), [(4, 0.2, True), (4, 0.3, False), (5, 0.01, False), (0, 1, True)])  # fmt: skip
    def test_jpegs_have_a_tolerance(self, data: Path, off: int, share: float, passes: bool) -> None:
        """4 at most and less than 1 on average pass."""
        kind = kinds.Kind(".jpg", photographs(data, (40, 50), 1)[0])
        image = kinds.upright(kind.encoded)
        changed = image.copy()
        chosen = np.random.default_rng(0).random(image.shape) < share
        changed[chosen & (image < 250)] += np.uint8(off)
        row: dict[str, Any] = {}

        if passes:
            kinds.judge(kind, [image, changed], row, SCALE)
            assert row["max"] == off
        else:
            with pytest.raises(AssertionError, match="DALI differs from Pillow"):
                kinds.judge(kind, [image, changed], row, SCALE)

    def test_what_the_cpu_decodes_is_exact(self, data: Path) -> None:
        """One step in one pixel of a PNG is too much."""
        kind = kinds.makers(data, SCALE)["PNG"]()
        image = kinds.upright(kind.encoded)
        changed = image.copy()
        changed[3, 4, 1] ^= 1

        kinds.judge(kind, [image], {}, SCALE)
        with pytest.raises(AssertionError, match="the CPU differs from Pillow by 1"):
            kinds.judge(kind, [changed], {}, SCALE)

    @pytest.mark.needs_dali
    def test_kinds_that_are_wrong_are_named(
        self, data: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A damaged kind is wrong, its neighbours in the batch are judged."""
        made = kinds.makers(data, SCALE)
        some = {name: made[name] for name in ("ordinary", "CMYK", "PNG, 16 bits", "EXIF 6")}
        broken = kinds.Kind(".jpg", cut(made["ordinary"]().encoded, 0.5))
        monkeypatch.setattr(kinds, "makers", lambda *_: {**some, "cut": lambda: broken})

        kinds.kinds(SCALE, data, notes)

        assert [name for name, row in notes.found.items() if "error" in (row or {})] == ["cut"]
        assert all(notes.found[name]["max"] == 0 for name in some)


class TestDamage:
    """Broken files among sound ones."""

    def test_files_are_broken_as_they_say(self, data: Path) -> None:
        """The CPU refuses what is cut, empty or no picture, and the header's size is the one that is claimed."""
        [sound] = photographs(data, (60, 80), 1)
        broken = broken_files(sound)
        refused = set()
        for name, content in broken.items():
            try:
                header = read_header(content)
                if header.height * header.width < 10**6:
                    opencv.decode(content, (header.height, header.width))
            except (HeaderError, DecodeError):
                refused.add(name)

        assert {"cut at 50 %", "cut in the header", "no bytes", "text", "nonsense Huffman tables"} <= refused  # fmt: skip
        assert {"PNG, cut", "PNG, wrong checksum", "WebP, cut", "height 0 in the header"} <= refused
        assert "bits flipped in the scan" not in refused
        assert read_header(resized(sound, lambda height, width: (2 * height, width))).height == 120
        assert len(set(broken.values())) == len(broken)

    def fake(self, monkeypatch: pytest.MonkeyPatch, actual: damage.Run) -> damage.Run:
        """Sound pictures of 4 samples, of which the CPU calls the second bad."""
        sound = damage.Run({n: torch.full((3, 2, 2), n / 10) for n in range(4)})
        expected = damage.Run({n: sound.images[n] for n in (0, 2, 3)}, [(1, "decode")], ["cut"])
        runs = {"dali": actual, "cpu": expected}
        monkeypatch.setattr(damage, "load", lambda _folder, decoder, *_: runs[decoder])
        return sound

    @pytest.mark.parametrize(
        ("images", "bad", "complaint"),
        [
            ((0, 2, 3), [(1, "decode")], None),
            ((0, 1, 2, 3), [], "verdicts"),
            ((0, 2, 3), [(1, "header")], "verdicts"),
            ((0, 3), [(1, "decode")], "came instead"),
            ((0, 2.1, 3), [(1, "decode")], "1 of 3 neighbours differ"),
        ],
    )
    def test_verdicts_and_neighbours_are_compared(
        self,
        monkeypatch: pytest.MonkeyPatch,
        images: tuple[float, ...],
        bad: list[tuple[int, str]],
        complaint: str | None,
    ) -> None:
        """Another verdict, a sample that is lost, and a neighbour with another bit are errors."""
        actual = damage.Run({int(n): torch.full((3, 2, 2), n / 10) for n in images}, bad, ["cut"])
        sound = self.fake(monkeypatch, actual)

        if complaint is None:
            damage.judge(Path(), {1}, 4, sound, SCALE, {})
        else:
            with pytest.raises(AssertionError, match=complaint):
                damage.judge(Path(), {1}, 4, sound, SCALE, {})

    @pytest.mark.parametrize(
        ("off", "unfinished", "on_gpu", "passes"),
        [
            (0, set(), False, True),
            (1, set(), False, False),
            (1, {2}, False, True),
            (1, {3}, False, False),
            (100, set(), True, True),
        ],
        ids=["equal", "differs", "lacks scans", "another one", "on a GPU"],
    )
    def test_broken_pictures_are_compared(
        self,
        monkeypatch: pytest.MonkeyPatch,
        off: int,
        unfinished: set[int],
        on_gpu: bool,
        passes: bool,
    ) -> None:
        """What decodes though it is broken is the same from both of the CPU's decoders; a GPU's is only stated."""
        actual = damage.Run({n: torch.full((3, 2, 2), n / 10) for n in (0, 2, 3)}, [(1, "decode")])
        sound = self.fake(monkeypatch, actual)
        actual.images[2] = actual.images[2] + off / 255
        scale: Any = SimpleNamespace(device=SCALE.device, on_gpu=on_gpu)
        row: dict[str, Any] = {}

        if passes:
            damage.judge(Path(), {1, 2}, 4, sound, scale, row, unfinished)
        else:
            with pytest.raises(AssertionError, match=r"broken pictures differ.*2: "):
                damage.judge(Path(), {1, 2}, 4, sound, scale, row, unfinished)

        assert row["broken pictures differ from the CPU's by"] == pytest.approx(off, abs=0.01)
        assert row["such differences"].startswith("only stated" if on_gpu else "judged")

    @pytest.mark.needs_dali
    def test_positions_end_well(self, data: Path, notes: Notes) -> None:
        """In a rehearsal every kind of damage is judged and is as on the CPU."""
        damage.positions(SCALE, data, notes)

        assert notes.failures == []

    def test_codes_are_legible(self, data: Path) -> None:
        """Each picture says which it is, brightened by 8 steps, too; a photograph says nothing."""
        encoded = coded_pictures(data, 40)
        images = torch.stack([self.small(content) for content in encoded])

        expected = [code_of(number) for number in range(40)]
        assert read_codes(images).tolist() == expected
        assert read_codes(images + 8 / 255).tolist() == expected
        assert len({code_of(number) for number in range(5000)}) == 5000
        plain = torch.stack([self.small(one) for one in photographs(data, (120, 160), 3)])
        assert not set(read_codes(plain).tolist()) & {code_of(number) for number in range(5000)}

    def small(self, encoded: bytes) -> torch.Tensor:
        """A picture as the soak resizes it."""
        image = Image.fromarray(kinds.upright(encoded)).resize((SIDE, SIDE), Image.Resampling.BOX)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255

    @pytest.mark.parametrize("fault", ["none", "picture", "order", "bad"])
    def test_a_row_out_of_step_is_noticed(self, data: Path, fault: str) -> None:
        """Two pictures that changed places, another order, and a bad sample end the run."""
        pictures = torch.stack([self.small(one) for one in coded_pictures(data, 12)])
        codes = np.array([code_of(number) for number in range(12)])
        expected = damage.Following(3, 4, 12, np.arange(12) == 5, codes)
        wanted = damage._indices(3, 4, 12)
        wanted[wanted == 5] = 6  # its substitute
        batches = []
        for number, indices in enumerate(wanted):
            images = pictures[indices]
            if number == 1 and fault == "picture":
                images = images[[1, 0, 2, 3]]
            if number == 1 and fault == "order":
                indices = indices[[1, 0, 2, 3]]
                images = pictures[indices]
            if number == 1 and fault == "bad":
                indices = np.where(damage._indices(3, 4, 12)[number] == 5, 5, indices)
                indices[0] = 5
            batches.append(SimpleNamespace(indices=torch.from_numpy(indices), images=images))
        loader: Any = batches

        if fault == "none":
            assert len(damage.follow(loader, expected, SCALE.device)) == 3
        else:
            with pytest.raises(AssertionError, match="batch 1"):
                damage.follow(loader, expected, SCALE.device)

    @pytest.mark.needs_dali
    def test_a_soak_ends_well(self, data: Path, notes: Notes) -> None:
        """In a rehearsal bad samples are met and every row is right."""
        damage.soak(SCALE, data, notes)

        assert notes.failures == []
        assert notes.found["bad_samples"] > 0


class TestResume:
    """Runs that go on elsewhere."""

    def whole(self) -> resume.Run:
        """A run of six samples."""
        rng = np.random.default_rng(0)
        pictures = torch.from_numpy(rng.random((6, 3, 16, 16), dtype=np.float32))
        places = [(0, at) for at in range(6)]
        return resume.Run(
            {at: 10 + at[1] for at in places},
            {at: pictures[at[1]] for at in places},
            {at: (10 + at[1], f"draw {at[1]}") for at in places},
        )

    @pytest.mark.parametrize(
        ("fault", "complaint"),
        [
            ("none", None),
            ("index", "other samples.*3.*99 instead of 13"),
            ("draw", "other draws.*strange"),
            ("pixels", "pictures differ"),
            ("missing", "other samples"),
        ],
    )
    def test_what_differs_is_an_error(self, fault: str, complaint: str | None) -> None:
        """Another sample, another draw, other pixels, and a position that nobody had."""
        whole, found = self.whole(), self.whole()
        at = (0, 3)
        match fault:
            case "index":
                found.indices[at] = 99
            case "draw":
                found.draws[at] = (13, "strange")
            case "pixels":
                found.images[at] = found.images[at].roll(1, 1)
            case "missing":
                del found.indices[at]

        if complaint is None:
            resume.compare(found, whole, {})
        else:
            with pytest.raises(AssertionError, match=complaint):
                resume.compare(found, whole, {})

    def test_an_interrupted_run_is_recorded(self, data: Path, tmp_path: Path) -> None:
        """Both parts of a run are seen, each position once, with what was drawn; another seed draws otherwise."""
        folder = loop.write_files(tmp_path / "files", photographs(data, (50, 60), 12))
        dataset = resume.open_dataset(folder)
        home, away = (resume.Place("cpu", SCALE.device, size) for size in (4, 3))
        whole, other = resume.Run(), resume.Run()
        with resume.recorded(whole):
            resume.run(dataset, home, whole, tmp_path / "whole.jsonl", epochs=2)
        with resume.recorded(other):
            resume.run(dataset, home, other, tmp_path / "other.jsonl", epochs=2, seed=1)

        found = resume.interrupted(dataset, home, away, tmp_path / "found.jsonl")

        row: dict[str, Any] = {}
        resume.compare(found, whole, row)
        assert row["draws compared"] == "24 of 24"
        assert resume.audited(tmp_path / "whole.jsonl", tmp_path / "found.jsonl").startswith("same")
        assert resume.audited(tmp_path / "whole.jsonl", tmp_path / "other.jsonl").startswith("NOT")
        assert not set(other.draws.values()) & set(whole.draws.values())


MEMCHECK = """\
one line of the program
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at planted_write+0x80 in planted.py:26
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f52ae000000 is out of bounds
=========     and is 16,777,201 bytes after the nearest allocation at 0x7f52ad000000 of size 16 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x3344e0] in libcuda.so.1
=========
========= Invalid __global__ read of size 2 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int, T2)+0x4a0
=========     by thread (0,0,0) in block (687,0,0)
=========
========= Invalid __global__ read of size 1 bytes
=========     at 0xd80 in /build/decode.cu:162:void nvjpeg::DecodeHuffman<(bool)1>(T2 *, int)
=========     by thread (63,0,0) in block (506,0,0)
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call to cuMemcpyDtoHAsync_v2.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 8 errors
========= ERROR SUMMARY: 5 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
========= Warning: Race reported between Write access at sum_gray+0x550 in triton_kernels.py:100
=========     and Read access at sum_gray+0x580 in triton_kernels.py:107 [64 hazards]
=========
========= Error: Race reported between Write access at dali::Kernel(float *)+0x550
=========     and Read access at dali::Kernel(float *)+0x580 [64 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
ENDED = f"{sanitizer.END}\n"


class TestSanitizer:
    """What compute-sanitizer printed."""

    ENGINE = sanitizer.Check("memcheck", "engine")

    def test_errors_are_told_apart_by_kernel(self) -> None:
        """Ours, torch's and others'; those not printed count as the last one; launch failures are consequences."""
        report = sanitizer.parse(MEMCHECK)

        assert report.errors == Counter({"ours": 1, "torch's": 1, "others'": 6})
        assert report.is_whole
        assert report.first[0].startswith("Invalid __global__ write of size 4 bytes; at planted_write+0x80")  # fmt: skip

    def test_hazards_within_a_warp_are_warnings(self) -> None:
        """Racecheck calls what is ordered by luck a warning."""
        report = sanitizer.parse(RACECHECK)

        assert report.errors == Counter({"others'": 1})
        assert report.warnings == Counter({"ours": 1})

    @pytest.mark.parametrize(
        ("check", "end", "text", "complaint"),
        [
            (ENGINE, "exit 0", ENDED + CLEAN, None),
            (ENGINE, "exit 99", ENDED + RACECHECK, None),
            (ENGINE, "exit 99", RACECHECK, "died before its end"),
            (ENGINE, "exit 0", CLEAN, "died before its end"),
            (ENGINE, "exit 99", MEMCHECK, "'ours': 1"),
            (ENGINE, "exit 99", MEMCHECK.replace("planted_write", "run_pass"), "'ours': 1"),
            (ENGINE, "over its 9 s", MEMCHECK[:300], "no verdict"),
            (ENGINE, "exit 1", CLEAN, "ended with exit 1"),
            (sanitizer.CHECKS[0], "exit 99", MEMCHECK, None),
            (sanitizer.CHECKS[0], "exit 0", CLEAN, "planted error is not found"),
        ],
    )
    def test_verdicts(
        self, check: sanitizer.Check, end: str, text: str, complaint: str | None
    ) -> None:
        """Others' errors pass, ours do not, nor does a run without a summary or an end, or a control that finds nothing."""
        if complaint is None:
            sanitizer.judge(check, end, text, {})
        else:
            with pytest.raises(AssertionError, match=complaint):
                sanitizer.judge(check, end, text, {})

    def test_a_rehearsal_has_to_end(self) -> None:
        """Without the tool, too, a good status alone shows nothing."""
        sanitizer.judge(self.ENGINE, "exit 0", ENDED, {}, plainly=True)

        with pytest.raises(AssertionError, match="died before its end"):
            sanitizer.judge(self.ENGINE, "exit 0", "Bye\n", {}, plainly=True)

    @pytest.mark.needs_dali
    @pytest.mark.parametrize("part", ["engine", "loader"])
    def test_the_program_runs(
        self, data: Path, part: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Both parts come to their end on the CPU, and say so in their last line."""
        sanitizer.program(part, data, rehearse=True)

        assert capsys.readouterr().out.endswith(ENDED)

    @pytest.mark.needs_dali
    def test_a_program_that_dies_says_no_end(
        self, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The line comes after the work."""
        monkeypatch.setattr(sanitizer, "run_engine", lambda _: 1 / 0)

        with pytest.raises(ZeroDivisionError):
            sanitizer.program("engine", data, rehearse=True)
        assert sanitizer.END not in capsys.readouterr().out


def event(name: str, tid: int, ts: float, cat: str = "cuda_runtime", **more: Any) -> dict[str, Any]:
    """One of the events of a trace."""
    return {"name": name, "tid": tid, "ts": ts, "cat": cat, "ph": "X", "dur": 1, **more}


LOOP = [
    event(waits.MARK, 7, 100, "user_annotation", dur=900),
    event(waits.MARK, 3, 100, "gpu_user_annotation", dur=900),
    event("cudaLaunchKernel", 7, 200),
    event("cudaMemcpyAsync", 7, 210, args={"correlation": 1}),
    event("Memcpy HtoD (Pinned -> Device)", 3, 211, "gpu_memcpy", args={"correlation": 1}),
    event("cudaStreamSynchronize", 9, 300),
    event("cudaStreamSynchronize", 7, 50),
    event("cudaDeviceSynchronize", 7, 1500),
    {"name": "process_name", "ph": "M", "tid": 7},
]


class TestWaits:
    """Traces of a loop."""

    def test_a_worker_may_wait(self) -> None:
        """Waits of another thread are told apart; those before and after the loop do not count."""
        found = waits.find_waits(LOOP)

        assert found.loop == Counter()
        assert found.others == {"9": Counter({"cudaStreamSynchronize": 1})}
        assert found.launches == 1

    @pytest.mark.parametrize(
        "name",
        [
            "cudaStreamSynchronize",
            "cudaDeviceSynchronize",
            "cudaEventSynchronize",
            "cudaMemcpy",
            "cudaMemcpy_ptds",
            "cuStreamSynchronize",
            "cuMemcpyDtoH_v2",
            "cudaStreamSynchronize_v3020",
        ],
    )
    def test_calls_that_wait_are_known(self, name: str) -> None:
        """On the loop's thread each of them is found."""
        assert waits.find_waits([*LOOP, event(name, 7, 400)]).loop.total() == 1

    @pytest.mark.parametrize(
        "name", ["cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cuLaunchKernelEx"]
    )
    def test_other_calls_do_not_wait(self, name: str) -> None:
        """Work that is only asked for is no wait."""
        assert waits.find_waits([*LOOP, event(name, 7, 400)]).loop.total() == 0

    def test_copies_to_pageable_memory_wait(self) -> None:
        """What is called asynchronous is not where the host's memory is not pinned."""
        copy = event("cudaMemcpyAsync", 7, 400, args={"correlation": 5})
        there = event("Memcpy DtoH (Device -> Pageable)", 3, 401, "gpu_memcpy", args={"correlation": 5})  # fmt: skip

        assert waits.find_waits([*LOOP, copy, there]).loop == Counter(
            {"cudaMemcpyAsync to pageable memory": 1}
        )

    def test_a_trace_without_the_loop_is_refused(self) -> None:
        """Nothing is said of a stretch that was not recorded."""
        with pytest.raises(ValueError, match="no stretch called"):
            waits.find_waits(LOOP[1:])


class TestMemory:
    """Looks at the memory of a run."""

    def looks(self, values: list[float]) -> list[dict[str, int]]:
        """Looks that differ in what the device holds."""
        return [{"torch": 10, "device": int(value), "process": 500} for value in values]

    def test_a_leak_is_growth(self) -> None:
        """Half a MiB with each of a hundred looks adds up to 19 from half to half."""
        assert memory.growth(self.looks([500 + n / 2 for n in range(100)]))["device"] >= 18

    def test_ups_and_downs_are_none(self) -> None:
        """Nor is what is taken in the first quarter."""
        values = [n * 20.0 for n in range(25)] + [500.0 + 40 * (n % 3) for n in range(75)]

        assert memory.growth(self.looks(values))["device"] == 0

    def test_growth_ends_the_run(self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        """A process that holds more and more is an error that says how much."""
        folder = tmp_path / "sizes"
        picks = memory.write_pictures(data, folder, SCALE)

        def open_loader(**options: Any) -> Any:
            return loop.loader_for(SCALE, folder, "cpu", picks=picks, **options)

        row: dict[str, Any] = {}
        memory.watch(open_loader, SCALE, row)
        assert row["batches"] == SCALE.num_batches

        grown = iter(range(0, 100_000, 100))
        monkeypatch.setattr(
            memory, "read_memory", lambda _: {"torch": 0, "device": 0, "process": next(grown)}
        )
        with pytest.raises(AssertionError, match=r"memory grows.*process"):
            memory.watch(open_loader, SCALE, {})


def test_races_are_errors(
    data: Path, notes: Notes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss that changes when nobody waits is named with its step; equal ones pass."""
    monkeypatch.setattr(loop, "decoders", lambda: ["cpu"])
    losses = loop.losses
    loop.races(SCALE, data, notes)
    assert notes.failures == []
    assert notes.found["cpu"]["control differs"]

    def racing(*given: Any, waits: bool, **more: Any) -> list[float]:
        found = losses(*given, waits=waits, **more)
        return found if waits else [*found[:2], found[2] + 1e-12, *found[3:]]

    monkeypatch.setattr(loop, "losses", racing)
    raced = Notes(tmp_path / "raced.json")
    loop.races(SCALE, data, raced)

    assert "first at step 2" in raced.found["cpu"]["error"]


def test_a_rehearsal_traces_the_loop(data: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The stretch of the loop is found in a trace of torch's own."""
    monkeypatch.setattr(loop, "decoders", lambda: ["cpu"])

    loop.synchronisations(SCALE, data, notes)

    assert notes.failures == []
    assert notes.found["cpu"]["waits of the loop per batch"] == {}


def test_the_alarm_tells_threads_apart() -> None:
    """What torch warns of on the loop's thread is an error, on another thread it is only written down."""

    def batches(*, apart: bool) -> Iterator[Any]:
        def warn() -> None:
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)

        while True:
            if apart:
                worker = threading.Thread(target=warn)
                worker.start()
                worker.join()
            else:
                warn()
            yield SimpleNamespace(images=torch.zeros(1))

    row: dict[str, Any] = {}

    assert "went off 10 times" in waits._alarm(batches(apart=False), SCALE.device, {})
    assert waits._alarm(batches(apart=True), SCALE.device, row) == ""
    assert list(row["torch's alarm"].values()) == [10]


@pytest.mark.parametrize(("visit", "outcome"), [("1", pytest.fail), ("", pytest.skip)])
def test_a_visit_needs_dali(monkeypatch: pytest.MonkeyPatch, visit: str, outcome: Any) -> None:
    """Where no GPU is a failure no DALI is one, too; elsewhere its tests are skipped."""
    monkeypatch.setenv("FAIL_WITHOUT_CUDA", visit)
    monkeypatch.setitem(sys.modules, "nvidia.dali", None)
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name == "needs_dali")

    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception)) as raised:
        conftest.pytest_runtest_setup(item)
    assert raised.type is outcome.Exception  # else a skip would skip this test
    assert "nvidia.dali" in str(raised.value)
