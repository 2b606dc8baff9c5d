"""Programs that run the GPU decoder's kernels under g++'s sanitizers: ``python -m tests.support.cuda_jpeg_checks fuzz 1000 0``.

Each section of memory is an allocation of its own, so that AddressSanitizer sees what reaches beyond it.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import Planned, Planner
from dali_pipes.decode.cuda_jpeg.on_cpu import CpuKernels
from dali_pipes.decode.cuda_jpeg.on_gpu import NAMES
from dali_pipes.decode.cuda_jpeg.records import GROUP, IMAGE_BYTES, JOB, VIEW_BYTES
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


class Apart:
    """The memory of a planned batch, each section by itself."""

    def __init__(self, planned: Planned) -> None:
        total, arena = planned.totals[0], planned.arena.numpy()
        num_images = int(total["num_images"])
        num_views = num_images * planned.num_views
        views_at = len(planned.numbers) * IMAGE_BYTES
        ends = {
            "images": (0, num_images * IMAGE_BYTES),
            "views": (views_at, views_at + num_views * VIEW_BYTES),
            "data": (int(total["data_at"]), int(total["tables_at"])),
            "tables": (int(total["tables_at"]), int(total["groups_at"])),
            "groups": (int(total["groups_at"]), int(total["intervals_at"])),
            "intervals": (int(total["intervals_at"]), int(total["used"])),
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


def planned_of(encoded: Sequence[bytes], seed: int) -> tuple[Planned, list[list[torch.Tensor]]]:
    """A batch of crops in two views, by checkpoints or restart markers; and its canvases."""
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
    files = files_of(encoded, 2)
    files.files["keep"] = rng.random(len(encoded)) < rng.choice((0.0, 0.5, 1.0))
    return Planner(pinned=False).plan(files, wanted), canvases


def fuzz(count: int, seed: int) -> None:
    """Damage the codes, and the intervals' beginnings and levels, of planned batches; print what became of the images."""
    rng = np.random.default_rng(seed)
    kernels = CpuKernels(FLAGS["fuzz"])
    found: Counter[int] = Counter()
    done, reached = 0, 0
    while done < count:
        planned, canvases = planned_of(list(pictures(12, int(rng.integers(1 << 30)))), done)
        for _ in range(4):
            apart = Apart(planned)
            _damage(apart, rng)
            for name in NAMES:
                kernels.run(name, 0, apart.units(name), apart.job)
            found.update(apart.statuses.tolist())
            done += len(apart.statuses)
            reached += int((apart.sections["depths"] != 0).any()) * len(apart.statuses)
        del canvases
    told = (
        f"{done} damaged images, {reached} in batches with decoded blocks, statuses {dict(found)}"
    )
    sys.stdout.write(f"{told}\n")
    assert found[GOOD] < done


def _damage(apart: Apart, rng: np.random.Generator) -> None:
    filled = [
        one for one in map(apart.sections.get, ("data", "fresh")) if one is not None and one.size
    ]
    data = filled[int(rng.integers(len(filled)))]
    num = int(rng.integers(1, 2 + data.size // 40))
    places = rng.integers(0, data.size, num)
    data[places] = rng.choice([0, 1, 0x7F, 0xFE, 0xFF, 0xD0, 0xD9], num) if rng.random() < 0.5 else rng.integers(0, 256, num)  # fmt: skip


def _run_one(kernels: CpuKernels, name: str, apart: Apart, unit: int) -> None:
    kernels.run(name, unit, unit + 1, apart.job)


def race() -> None:
    """Run single intervals, images and views in any order in four threads; the bits are those of one thread in order."""
    kernels = CpuKernels(FLAGS["race"] if "libtsan" in sys.argv[-1] else ())
    encoded = list(pictures(24, 5))
    planned, canvases = planned_of(encoded, 5)
    apart = Apart(planned)
    for name in NAMES:
        kernels.run(name, 0, apart.units(name), apart.job)
    expected = [canvas.clone() for view in canvases for canvas in view]
    rng = np.random.default_rng(0)
    for _ in range(3):
        apart = Apart(planned)
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
