"""JPEGs of several scans against OpenCV's and Pillow's libjpeg-turbo: the same pixels, bit for bit."""

from pathlib import Path

import numpy as np
import pytest

from dali_pipes.jpeg.progressive.bits import ONE, choose, deposit, one_by_one
from dali_pipes.jpeg.progressive.memory import MOST_SCANS
from gpu_aug.compiled.jit import kernel
from readers.image.jpeg_process import jpeg_process
from tests.support.jpegs import (
    SAMPLINGS,
    assert_decodes,
    check_all_sizes,
    encode,
    opencv,
    reason_of,
)
from tests.support.scan_scripts import Script, draw_parts, draw_scripts, write_scans

FACTORS = {
    "gray": [(1, 1)],
    "4:4:4": [(1, 1)] * 3,
    "4:2:0": [(2, 2), (1, 1), (1, 1)],
    "4:2:2": [(2, 1), (1, 1), (1, 1)],
    "4:4:0": [(1, 2), (1, 1), (1, 1)],
    "4:1:1": [(4, 1), (1, 1), (1, 1)],
    "mixed": [(2, 2), (2, 1), (1, 2)],
    "fine colours": [(1, 1), (2, 2), (1, 1)],
}


@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
def test_all_sizes_equal_opencv_and_pillow(sampling: str) -> None:
    """The script of libjpeg itself, in odd and tiny sizes, qualities from worst to best, with restart markers."""
    check_all_sizes(sampling, 40, progressive=True, judge=True)


@pytest.mark.parametrize("sampling", FACTORS)
@pytest.mark.parametrize("long_codes", [False, True])
def test_any_script_equals_opencv(sampling: str, long_codes: bool) -> None:
    """Bands and precisions of any kind, DC in one scan or in several, tables and restart intervals that change."""
    rng = np.random.default_rng(long_codes)
    num_decoded = 0
    for _ in range(6):
        height, width = (int(side) for side in rng.integers(1, 60, 2))
        parts = draw_parts(rng, (height, width), FACTORS[sampling], int(rng.choice([3, 40])))
        scripts = draw_scripts(rng, len(parts))
        data = write_scans((height, width), parts, scripts, progressive=True, long_codes=long_codes)

        if len(scripts) > MOST_SCANS:
            said = reason_of(data, (height, width), judge=True)
            assert said == "more scans than there is memory for"
            continue
        assert_decodes(opencv(data), data, (height, width), judge=True)
        num_decoded += 1
    assert num_decoded >= 3


@pytest.mark.parametrize("sampling", [name for name in FACTORS if name != "gray"])
@pytest.mark.parametrize("long_codes", [False, True])
@pytest.mark.parametrize("split", [[(0,), (1,), (2,)], [(0,), (1, 2)], [(0, 1), (2,)]])
def test_sequential_files_of_several_scans(
    sampling: str, long_codes: bool, split: list[tuple[int, ...]]
) -> None:
    """Components that do not come together, each scan with restart intervals of its own."""
    rng = np.random.default_rng(len(split))
    parts = draw_parts(rng, (45, 61), FACTORS[sampling], 40)
    scripts = [Script(group, restart=restart) for restart, group in enumerate(split)]
    data = write_scans((45, 61), parts, scripts, progressive=False, long_codes=long_codes)

    assert_decodes(opencv(data), data, (45, 61), judge=True)


@pytest.mark.parametrize(
    "few", [pytest.param(4, id="some"), pytest.param(99, id="all", marks=pytest.mark.long)]
)
def test_photographs_equal_opencv(shared_data: Path, few: int) -> None:
    """Progressive photographs as they are found."""
    files = sorted((shared_data / "photos").rglob("*.jp*g"))
    found = [path for path in files if jpeg_process(path.read_bytes()) == "progressive"]
    assert len(found) >= 40
    for path in sorted(found, key=lambda path: path.stat().st_size)[:few]:
        data = path.read_bytes()
        image = opencv(data)

        assert_decodes(image, data, (image.shape[0], image.shape[1]), judge=True)


def test_steps_are_those_at_the_first_scan_of_a_component() -> None:
    """Quantisation tables between scans: what begins later has the new steps, what began before keeps its own."""
    parts = draw_parts(np.random.default_rng(5), (40, 50), FACTORS["4:2:0"], 20)
    scripts = [Script((part,), 0, 0) for part in range(3)]
    scripts += [Script((part,), 1, 63) for part in range(3)]
    data = write_scans((40, 50), parts, scripts, progressive=True)
    steps = b"\xff\xdb\x00\x43\x00" + bytes(range(3, 67))
    second = data.index(b"\xff\xc4", data.index(b"\xff\xda"))
    changed = data[:second] + steps + data[second:]

    assert_decodes(opencv(changed), changed, (40, 50), judge=True)
    assert (opencv(changed) != opencv(data)).any()


def test_long_runs_of_empty_blocks() -> None:
    """The longest that can be written, 32767 blocks, and what follows them."""
    image = np.full((1000, 2200), 90, np.uint8)
    image[-3:, -5:] = 200
    data = encode(image[..., None], "gray", quality=95, progressive=True)

    assert_decodes(opencv(data), data, image.shape, judge=True)


deposit_slowly, choose_slowly = one_by_one


@kernel
def count_differences(words: np.ndarray, members: np.ndarray) -> int:
    num = 0
    for at in range(len(words)):
        num += deposit(words[at], members[at]) != deposit_slowly(words[at], members[at])
        for number in range(16):
            num += choose(members[at], number) != choose_slowly(members[at], number)
    return num


def test_bits_are_spread_the_same_way_without_the_instruction() -> None:
    """The code for any processor gives the result of this processor's own instruction."""
    rng = np.random.default_rng(3)
    words, members = rng.integers(0, 1 << 64, (2, 2000), np.uint64)
    members[::2] &= rng.integers(0, 1 << 64, 1000, np.uint64)
    members[:3] = 0, 1, ONE << np.uint64(63)
    assert count_differences(words, members) == 0
