"""Programs that run the GPU decoder's kernels under g++'s sanitizers: ``python -m tests.support.cuda_jpeg_checks fuzz 1000 0``.

Each section of memory is an allocation of its own, so that AddressSanitizer sees what reaches beyond it.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import Arenas, LaunchPlan, Planner
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.cuda_jpeg.on_gpu import NAMES
from dali_pipes.decode.cuda_jpeg.records import (
    ANY_REST,
    FRESH,
    GROUP,
    IMAGE,
    IMAGE_BYTES,
    INTERVAL,
    INTERVAL_BYTES,
    JOB,
    KEPT,
    UPLOADED,
    VIEW_BYTES,
)
from dali_pipes.jpeg.status import GOOD
from tests.support.cuda_jpegs import empty_canvases, files_of, size_of, wanted_of
from tests.support.jpegs import SAMPLINGS, draw_crop, encode, picture, turned

FLAGS = {
    "fuzz": ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    "race": ("-g", "-fsanitize=thread"),
}
_LIBRARIES = {"fuzz": ("libasan.so", "libubsan.so"), "race": ("libtsan.so",)}


def environment(program: str) -> dict[str, str]:
    """The variables with which Python runs sanitized code."""
    paths = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in _LIBRARIES[program]
    ]
    return {
        "LD_PRELOAD": ":".join(paths),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TSAN_OPTIONS": "exitcode=66:report_signal_unsafe=0",
    }


@dataclass(frozen=True)
class Batch:
    """A batch that is planned.

    Attributes:
        planned: It.
        kept: Scans that are on the device, by the numbers of their images; the kernels get their addresses.
        canvases: Where pixels go.
    """

    planned: LaunchPlan
    kept: Mapping[int, NDArray[np.uint8]]
    canvases: list[list[torch.Tensor]]


class Apart:
    """The memory of a planned batch, each section and each kept scan by itself."""

    def __init__(self, batch: Batch) -> None:
        planned = batch.planned
        total, arena = planned.totals[0], planned.arena.numpy()
        num_images = int(total["num_images"])
        num_views = num_images * planned.num_views
        intervals_at, num_intervals = int(total["intervals_at"]), int(total["num_intervals"])
        views_at = len(planned.numbers) * IMAGE_BYTES
        ends = {
            "images": (0, num_images * IMAGE_BYTES),
            "views": (views_at, views_at + num_views * VIEW_BYTES),
            "data": (int(total["data_at"]), int(total["tables_at"])),
            "tables": (int(total["tables_at"]), int(total["groups_at"])),
            "groups": (int(total["groups_at"]), intervals_at),
            "intervals": (intervals_at, intervals_at + num_intervals * INTERVAL_BYTES),
            "fresh": (arena.size - int(total["fresh"]), arena.size),
        }
        self.sections = {name: _aligned_copy(arena[first:last]) for name, (first, last) in ends.items()}  # fmt: skip
        blocks = int(total["blocks"])
        sizes = {
            "coefficients": 128 * blocks,
            "depths": blocks,
            "statuses": 4 * num_images,
            "bits": 8 * num_views,
            "workspace": int(total["memory"]),
        }
        self.sections |= {name: _aligned_copy(np.zeros(size, np.uint8)) for name, size in sizes.items()}  # fmt: skip
        self.job = np.zeros(1, JOB)
        self.job["num_groups"], self.job["num_images"] = total["num_groups"], num_images
        self.job["num_views"] = num_views
        self.kept = {number: _aligned_copy(scan) for number, scan in batch.kept.items()}
        for number, scan in batch.kept.items():
            moved = self.kept[number].ctypes.data - scan.ctypes.data
            self.images["bytes"][number] = int(self.images["bytes"][number]) + moved
        self.point()

    def point(self) -> None:
        """Write where the sections lie into the job."""
        for name, section in self.sections.items():
            self.job[name] = section.ctypes.data
        self.job["fresh"] += self.sections["fresh"].size

    @property
    def statuses(self) -> NDArray[np.int32]:
        """int32 [images decoded here]."""
        return self.sections["statuses"].view(np.int32)

    @property
    def images(self) -> "NDArray[np.void]":
        """IMAGE [images decoded here]."""
        return self.sections["images"].view(IMAGE)

    def reached(self) -> NDArray[np.bool_]:
        """Of which images a block with more than its DC value was decoded: bool [images decoded here]."""
        first = self.images["coefficients"].astype(np.int64)
        return np.maximum.reduceat(self.sections["depths"], first) > 0

    def units(self, name: str) -> int:
        """How many units of work a kernel has."""
        if name == "read_codes":
            return int(self.job["num_groups"][0] + 2 * self.job["num_views"][0])
        return int(self.job["num_views" if name == "resize" else "num_images"][0])

    def split_groups(self) -> None:
        """Make a group of every interval."""
        single = [
            (int(group["first"]) + number, 1, int(group["tables"]), 0)
            for group in self.sections["groups"].view(GROUP)[: int(self.job["num_groups"][0])]
            for number in range(int(group["count"]))
        ]
        self.sections["groups"] = np.array(single, GROUP).view(np.uint8)
        self.job["num_groups"] = len(single)
        self.point()


def _aligned_copy(source: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # malloc aligns to 16 bytes; what lies behind the last byte belongs to nobody.
    copy = np.empty(source.size, np.uint8)
    assert copy.ctypes.data % 16 == 0
    copy[:] = source
    return copy


def pictures(count: int, seed: int) -> Iterator[bytes]:
    """Small JPEGs of all kinds."""
    rng = np.random.default_rng(seed)
    for trial in range(count):
        height, width = (int(side) for side in rng.integers(1, 60, 2))
        sampling = [*SAMPLINGS, "gray"][trial % 6]
        image = picture(height, width, int(rng.integers(1 << 30)))
        restart = int(rng.integers(0, 4))
        quality = int(rng.integers(1, 101))
        yield turned(
            encode(
                image, sampling, quality=quality, restart=restart, optimise=bool(trial % 5 == 0)
            ),
            1 + trial % 8,
        )


def planned_of(encoded: Sequence[bytes], seed: int) -> Batch:
    """A batch of crops in two views, by seek points or restart markers; some scans come to the device, some are there."""
    rng = np.random.default_rng(seed)
    sizes = [size_of(data) for data in encoded]
    cuts = [
        [
            (*draw_crop(rng, *size), *(int(side) for side in rng.integers(1, 40, 2)), 3, -2)
            for size in sizes
        ]
        for _ in range(2)
    ]
    canvases = [empty_canvases([(20, 30)] * len(sizes)) for _ in range(2)]
    wanted = wanted_of(sizes, cuts, canvases)  # type: ignore[arg-type]
    files, planner = files_of(encoded, 2), Planner(Arenas(pinned=False))
    files.files["keep"] = 1
    starts = planner.plan(files, wanted).fresh[:, 1].tolist()
    files.files["keep"] = rng.random(len(encoded)) < rng.choice((0.0, 0.5, 1.0))
    scans = {}
    for row in np.flatnonzero(rng.random(len(encoded)) < rng.choice((0.0, 0.5))).tolist():
        scans[row] = _aligned_copy(np.frombuffer(encoded[row], np.uint8)[starts[row] :])
        files.files["kept"][row] = scans[row].ctypes.data
        files.files["kept_start"][row] = starts[row]
    planned = planner.plan(files, wanted)
    assert not planned.statuses.any()
    return Batch(planned, scans, canvases)


def fuzz(count: int, seed: int) -> None:
    """Damage codes and intervals of planned batches; print what became of the images."""
    rng = np.random.default_rng(seed)
    kernels = CpuKernels(FLAGS["fuzz"])
    found: Counter[int] = Counter()
    places: Counter[int] = Counter()
    done, reached = 0, 0
    while done < count:
        batch = planned_of(list(pictures(12, int(rng.integers(1 << 30)))), done)
        for number in range(12):
            apart = Apart(batch)
            if number % 3 != 1:
                _damage_codes(apart, rng)
            if number % 3:
                _damage_intervals(apart, rng)
            for name in NAMES:
                kernels.run(name, 0, apart.units(name), apart.job)
            found.update(apart.statuses.tolist())
            places.update(apart.images["place"].tolist())
            done += len(apart.statuses)
            reached += int(apart.reached().sum())
    sys.stdout.write(
        f"{done} damaged images, {reached} with decoded blocks, places {dict(places)}, statuses {dict(found)}\n"
    )
    assert found[GOOD] < done
    assert 2 * reached > done
    assert min(places[place] for place in (UPLOADED, FRESH, KEPT)) > done // 10


def _damage_codes(apart: Apart, rng: np.random.Generator) -> None:
    """Change bytes of what was uploaded, and of scans that are kept."""
    for data in (apart.sections["data"], apart.sections["fresh"], *apart.kept.values()):
        if not data.size:
            continue
        num = int(rng.integers(0, 2 + data.size // 40))
        places = rng.integers(0, data.size, num)
        data[places] = rng.choice([0, 1, 0x7F, 0xFE, 0xFF, 0xD0, 0xD9], num) if rng.random() < 0.5 else rng.integers(0, 256, num)  # fmt: skip


def _damage_intervals(apart: Apart, rng: np.random.Generator) -> None:
    """Change fields of a tenth of the intervals to others that the host may write of damaged seek points.

    Bytes stay in the image's data, and MCUs in the image.
    """
    intervals = apart.sections["intervals"].view(INTERVAL)
    for number in np.flatnonzero(rng.random(len(intervals)) < 0.1).tolist():
        one = intervals[number]
        others = intervals[intervals["image"] == one["image"]]
        low, high = int(others["begin"].min()), int(others["end"].max())
        one["begin"] = begin = int(rng.integers(low, high))
        one["end"] = rng.integers(begin + 1, high + 1)
        one["mcu"] = rng.choice(others["mcu"])
        one["count"] = rng.integers(1, others["count"].min() + 1)
        one["skip"], one["rest"] = rng.integers(0, 8), rng.choice([*range(8), ANY_REST])
        one["level"], one["after"] = rng.integers(-(1 << 15), 1 << 15, (2, 3))


def _run_one(kernels: CpuKernels, name: str, apart: Apart, unit: int) -> None:
    kernels.run(name, unit, unit + 1, apart.job)


def race() -> None:
    """Run single intervals, images and views in any order in four threads; the bits are those of one thread in order."""
    kernels = CpuKernels(FLAGS["race"] if "libtsan" in sys.argv[-1] else ())
    encoded = list(pictures(24, 5))
    batch = planned_of(encoded, 5)
    apart, canvases = Apart(batch), batch.canvases
    for name in NAMES:
        kernels.run(name, 0, apart.units(name), apart.job)
    expected = [canvas.clone() for view in canvases for canvas in view]
    rng = np.random.default_rng(0)
    for _ in range(3):
        apart = Apart(batch)
        apart.split_groups()
        for view in canvases:
            for canvas in view:
                canvas.fill_(7)
        with ThreadPoolExecutor(4) as pool:
            for name in NAMES:
                units = rng.permutation(apart.units(name)).tolist()
                list(pool.map(partial(_run_one, kernels, name, apart), units))
        assert not apart.statuses.any()
        for canvas, known in zip([one for view in canvases for one in view], expected, strict=True):
            assert torch.equal(canvas, known)
    sys.stdout.write(f"{len(encoded)} images in any order\n")


if __name__ == "__main__":
    if sys.argv[1] == "fuzz":
        fuzz(int(sys.argv[2]), int(sys.argv[3]))
    else:
        race()
