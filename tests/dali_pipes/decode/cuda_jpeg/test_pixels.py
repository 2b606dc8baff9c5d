"""The kernels of the GPU's JPEG decoder, compiled by g++, against libjpeg-turbo and the CPU's decode stage: the same bits."""

from pathlib import Path

import numpy as np
import pytest

from dali_pipes.decode.cuda_jpeg.plan import UNKNOWN_STARTS
from dali_pipes.jpeg.seek_points import SeekPoints, find_seek_points
from dali_pipes.jpeg.status import GOOD, SEVERAL_SCANS
from readers import HeaderError, read_header
from readers.image.restarts import restart_offsets
from tests.support.cuda_jpegs import (
    Cut,
    assert_canvases,
    empty_canvases,
    files_of,
    list_files,
    render,
    render_on_cpu,
    render_whole,
    size_of,
    wanted_of,
    whole,
)
from tests.support.jpegs import SAMPLINGS, WAYS, damage, draw_crop, encode, opencv, picture, turned


@pytest.mark.parametrize("sampling", [*SAMPLINGS, "gray"])
@pytest.mark.parametrize("every", [0, 3])
def test_all_sizes_equal_opencv(sampling: str, every: int) -> None:
    """Odd and tiny sizes, all turns, qualities from worst to best, optimised tables; by restart markers and by seek points."""
    rng = np.random.default_rng(7)
    encoded = []
    for trial in range(40):
        height, width = (int(side) for side in rng.integers(1, 90, 2))
        restart, optimise = 0 if every else 1 + trial % 6, bool(trial % 2)
        quality = int(rng.integers(1, 101))
        image = picture(height, width, trial)
        plain = encode(image, sampling, quality=quality, restart=restart, optimise=optimise)
        encoded.append(turned(plain, 1 + trial % 8))
    statuses, canvases = render_whole(encoded, every)
    assert not statuses.any()
    assert_canvases(canvases, map(opencv, encoded))


def test_photographs_equal_opencv(photos: list[Path]) -> None:
    """Whole photographs, by seek points; progressive ones are left to others."""
    num_decoded = 0
    for path in photos:
        data = path.read_bytes()
        [status], canvases = render_whole([data], every=8)
        assert status in (GOOD, SEVERAL_SCANS)
        if status == GOOD:
            assert_canvases(canvases, [opencv(data)])
            num_decoded += 1
    assert num_decoded >= 6


def _draw_cut(rng: np.random.Generator, size: tuple[int, int], canvas: tuple[int, int]) -> Cut:
    """A crop, resized to anything, anywhere on the canvas or beside it."""
    crop = draw_crop(rng, *size)
    resize = tuple(int(side) for side in rng.integers(1, 80, 2))
    paste = tuple(int(rng.integers(-40, side + 10)) for side in canvas)
    return (*crop, *resize, *paste)  # type: ignore[return-value]


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("kind", ["seek_points", "restarts", "known restarts"])
def test_crops_equal_those_of_the_cpu(kind: str, *, antialias: bool) -> None:
    """Crops of two views, enlarged and shrunk, pasted inside and beyond the canvas, from turned images of all samplings."""
    rng = np.random.default_rng(3)
    encoded = []
    for trial in range(36):
        height, width = (int(side) for side in rng.integers(20, 150, 2))
        sampling = [*SAMPLINGS, "gray"][trial % 6]
        restart = 0 if kind == "seek_points" else 1 + trial % 5
        plain = encode(picture(height, width, trial), sampling, restart=restart)
        encoded.append(turned(plain, 1 + trial // 6 % 8))
    sizes = [size_of(data) for data in encoded]
    shapes = [(48, 64), (31, 17)]
    cuts = [[_draw_cut(rng, size, shape) for size in sizes] for shape in shapes]
    canvases = [empty_canvases([shape] * len(sizes)) for shape in shapes]
    offsets = [restart_offsets(data) for data in encoded] if kind == "known restarts" else ()
    files = files_of(encoded, 2 if kind == "seek_points" else 0, offsets)
    wanted = wanted_of(sizes, cuts, canvases, antialias=antialias)

    statuses, _ = render(files, wanted)

    expected_statuses, expected = render_on_cpu(files, wanted)
    assert not statuses.any()
    assert not expected_statuses.any()
    for view, other in zip(canvases, expected, strict=True):
        assert_canvases(view, other)


def test_odd_files_have_the_verdicts_and_pixels_of_the_cpu(shared_data: Path) -> None:
    """Every odd or broken file that has a header, all in one batch, by seek points and by restart markers."""
    encoded, sizes = [], []
    for path in sorted((shared_data / "odd").iterdir()):
        if path.suffix in (".csv", ".md") or path.is_dir():
            continue
        try:
            header = read_header(path.read_bytes())
        except HeaderError:
            continue
        if header.height * header.width < 10**7:
            encoded.append(path.read_bytes())
            sizes.append((header.height, header.width))
    canvases = empty_canvases(sizes)
    cuts = [(0, 0, *size, *size, 0, 0) for size in sizes]
    files, wanted = files_of(encoded, 4), wanted_of(sizes, [cuts], [canvases])

    statuses, _ = render(files, wanted)

    expected_statuses, expected = render_on_cpu(files, wanted)
    here = statuses != SEVERAL_SCANS
    np.testing.assert_array_equal((statuses == GOOD)[here], (expected_statuses == GOOD)[here])
    for row in np.flatnonzero(statuses == GOOD).tolist():
        np.testing.assert_array_equal(canvases[row].numpy(), expected[0][row].numpy())
    assert (statuses == GOOD).sum() > 20
    assert (statuses != GOOD).sum() > 10


@pytest.mark.parametrize("way", WAYS)
def test_damaged_files_have_the_verdicts_of_the_cpu(way: str) -> None:
    """By restart markers, every second file sound: its pixels are right, and what is called sound is what the CPU calls sound."""
    rng = np.random.default_rng(len(way))
    encoded = []
    for trial in range(240):
        sampling = [*SAMPLINGS, "gray"][trial % 6]
        sound = encode(picture(33, 47, trial), sampling, quality=40 + trial % 60, restart=1 + trial % 3)  # fmt: skip
        sound = turned(sound, 1 + trial % 8)
        encoded.append(damage(sound, way, rng) if trial % 2 else sound)
    sizes = [(33, 47) if trial % 8 < 4 else (47, 33) for trial in range(240)]
    canvases = empty_canvases(sizes)
    cuts = [(0, 0, *size, *size, 0, 0) for size in sizes]
    files, wanted = files_of(encoded), wanted_of(sizes, [cuts], [canvases])

    statuses, _ = render(files, wanted)

    expected_statuses, expected = render_on_cpu(files, wanted)
    np.testing.assert_array_equal(statuses == GOOD, expected_statuses == GOOD)
    assert not statuses[::2].any()
    assert (statuses != GOOD).sum() > 40
    for status, canvas, known in zip(statuses, canvases, expected[0], strict=True):
        if status == GOOD:
            np.testing.assert_array_equal(canvas.numpy(), known.numpy())


@pytest.mark.parametrize("what", ["bit", "dc"])
def test_wrong_checkpoints_are_noticed(what: str) -> None:
    """One changed number in the rows of an image is that image's verdict; the images beside it are right."""
    rng = np.random.default_rng(0)
    data = encode(picture(64, 80), "4:2:0")
    status, rows = find_seek_points(data, 2)
    assert status == GOOD
    trials = []
    for trial in range(40):
        changed = rows.copy()
        if trial % 2:
            place = int(rng.integers(len(rows)))
            if what == "bit":
                changed["bit"][place] ^= 1 << int(rng.integers(32))
            else:
                changed["dc"][place, int(rng.integers(3))] ^= 1 << int(rng.integers(15))
        trials.append(SeekPoints(GOOD, 2, changed))
    canvases = empty_canvases([(64, 80)] * 40)
    wanted = wanted_of([(64, 80)] * 40, [[whole(data)] * 40], [canvases])

    statuses, _ = render(list_files([data] * 40, [None] * 40, trials), wanted)

    assert (statuses[1::2] != GOOD).all()
    assert (statuses[::2] == GOOD).all()
    assert_canvases(canvases[::2], [opencv(data)] * 20)


def test_files_without_known_starts_are_left_to_others() -> None:
    """Neither restart markers nor seek points, or seek points of another image."""
    data = encode(picture(64, 80), "4:2:0")
    other = SeekPoints(*find_seek_points(encode(picture(64, 90), "4:2:0"), 2)[:1], 2, find_seek_points(encode(picture(64, 120), "4:2:0"), 2)[1])  # fmt: skip
    canvases = empty_canvases([(64, 80)] * 2)
    wanted = wanted_of([(64, 80)] * 2, [[whole(data)] * 2], [canvases])

    statuses, launched = render(list_files([data] * 2, [None] * 2, [None, other]), wanted)

    assert statuses.tolist() == [UNKNOWN_STARTS] * 2
    assert launched.planned.numbers.tolist() == [-1, -1]
