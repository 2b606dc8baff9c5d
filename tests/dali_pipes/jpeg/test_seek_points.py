"""SeekPoints: where they lie, and that decoding from them gives the pixels of the whole picture."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numba import njit

from dali_pipes.jpeg import REASONS
from dali_pipes.jpeg.decode import check_files, new_scratch
from dali_pipes.jpeg.memory import memory_at
from dali_pipes.jpeg.scan import _note_seek_point
from dali_pipes.jpeg.seek_point_stores import SeekPointMemory
from dali_pipes.jpeg.seek_points import (
    SEEK_POINT,
    SeekPoints,
    find_all_seek_points,
    find_seek_points,
    spans_of,
)
from dali_pipes.jpeg.status import GOOD
from tests.support.jpegs import (
    NO_SEEK_POINTS,
    REDUCED,
    SAMPLINGS,
    assert_decodes,
    cut_of,
    draw_crop,
    encode,
    opencv,
    ours,
    picture,
    reason_of,
    turned,
)

KINDS = [*SAMPLINGS, "gray"]


@pytest.mark.parametrize("restart", [0, 3])
@pytest.mark.parametrize("sampling", KINDS)
def test_crops_from_seek_points_equal_cuts(sampling: str, restart: int) -> None:
    """Any crop of pictures of odd sizes, turned as EXIF says, in all sizes while decoding."""
    rng = np.random.default_rng(restart)
    for trial in range(16):
        orientation, shrink = 1 + trial % 8, 1 << trial % 4
        sides = [int(side) for side in rng.integers(1, 150, 2)]
        data = turned(encode(picture(*sides, trial), sampling, restart=restart), orientation)
        whole = opencv(data, REDUCED[shrink])
        size = (sides[1], sides[0]) if orientation >= 5 else (sides[0], sides[1])
        every = int(rng.integers(1, 12))
        _, rows = find_seek_points(data, every)
        for _ in range(8):
            top, left, height, width = draw_crop(rng, *size)
            if shrink > 1:  # whole pixels of the smaller picture
                top, left, height, width = 0, 0, *size

            status, pixels = ours(
                data, size, (top, left, height, width), shrink, seek_points=rows, every=every
            )

            assert REASONS[status] == "decoded"
            cut = whole[top // shrink :, left // shrink :][: pixels.shape[0], : pixels.shape[1]]
            np.testing.assert_array_equal(pixels, cut)


def test_seek_points_of_mcus_shorter_than_what_is_read_ahead() -> None:
    """MCUs of few bits with stuffed zeros, in a scan that refills the buffer several times."""
    tiles = np.random.default_rng(0).random((160, 160)) < 0.5
    image = np.kron(tiles, np.full((8, 8), 255)).astype(np.uint8)[..., None]
    data = encode(image, "gray", quality=100)
    assert len(data) > 40_000
    assert data.count(b"\xff\x00") > 1_000
    _, rows = find_seek_points(data, 1)

    for row, column in np.ndindex(tiles.shape):
        crop = (8 * row, 8 * column, 8, 8)
        status, pixels = ours(data, (1280, 1280), crop, seek_points=rows, every=1)
        assert REASONS[status] == "decoded"
        assert (pixels == 255 * tiles[row, column]).all()


def test_what_lies_before_a_checkpoint_is_not_read() -> None:
    """Damage above the crop does no harm with seek points, and is found without."""
    data = encode(picture(90, 130), "4:2:0")
    _, rows = find_seek_points(data, 9)  # a row of MCUs
    scan = data.index(b"\xff\xda") + 14
    start, stop = scan + int(rows["bit"][1]) // 8 + 1, scan + int(rows["bit"][2]) // 8
    damaged = data[:start] + bytes(stop - start) + data[stop:]
    crop = (70, 20, 20, 40)

    assert_decodes(opencv(data)[70:90, 20:60], damaged, (90, 130), crop, seek_points=rows, every=9)

    status, pixels = ours(damaged, (90, 130), crop)
    assert status != 0 or (pixels != opencv(data)[70:90, 20:60]).any()


def test_columns_beside_the_crop_are_jumped_over() -> None:
    """Damage to the left and to the right of a crop is not read either."""
    data = encode(picture(60, 400), "4:4:4")
    _, rows = find_seek_points(data, 5)  # ten to a row of MCUs
    scan = data.index(b"\xff\xda") + 14
    damaged = bytearray(data)
    for first, last in ((10, 12), (16, 18)):  # the second row, beside its MCUs 20 to 29
        start, stop = (scan + int(rows["bit"][number]) // 8 + 1 for number in (first, last))
        damaged[start:stop] = bytes(stop - start)

    assert_decodes(
        opencv(data)[:, 170:230],
        bytes(damaged),
        (60, 400),
        (0, 170, 60, 60),
        seek_points=rows,
        every=5,
    )


@pytest.mark.parametrize("sampling", KINDS)
def test_decoding_finds_what_the_pass_finds(sampling: str) -> None:
    """A crop that is decoded with a verdict on the file leaves the same seek points."""
    rng = np.random.default_rng(7)
    for restart in (0, 4):
        data = encode(picture(75, 90), sampling, restart=restart)
        _, expected = find_seek_points(data, 3)
        for _ in range(6):
            crop = draw_crop(rng, 75, 90)
            rows = np.zeros(len(expected), SEEK_POINT)

            cut = cut_of(opencv(data), crop)
            assert_decodes(cut, data, (75, 90), crop, seek_points=rows, every=3, judge=True)
            np.testing.assert_array_equal(rows, expected)


def test_the_verdict_is_that_of_the_whole_file() -> None:
    """Whatever the crop, however small it comes out, a damaged file gets the status that the pass gives."""
    rng = np.random.default_rng(3)
    seen = set()
    for trial in range(120):
        sampling = KINDS[trial % 6]
        data = bytearray(encode(picture(64, 80, trial), sampling, restart=trial % 3))
        scan = data.index(b"\xff\xda") + 14
        for offset in rng.integers(scan, len(data), trial % 2 + 1).tolist():
            data[offset] ^= 1 << int(rng.integers(8))
        if trial % 10 == 0:  # steps for which numbers are out of range
            start = data.index(b"\xff\xdb") + 5
            data[start : start + 64] = bytes([255]) * 64
        expected, rows = find_seek_points(bytes(data), 4)
        seen.add(expected)
        for crop in (None, (0, 0, 1, 1), draw_crop(rng, 64, 80)):
            for shrink in (1, 4):
                if shrink > 1 and crop is not None:
                    continue
                room = np.zeros(200, SEEK_POINT)
                options = {"seek_points": room, "every": 4, "judge": True}
                said = reason_of(bytes(data), (64, 80), crop, shrink, **options)
                assert said == REASONS[expected], (trial, crop)
                assert not len(rows) or (room[: len(rows)] == rows).all()
    assert len(seen) >= 4


def test_files_that_are_sound_decode_with_any_crop() -> None:
    """No crop of a file whose verdict is good is refused later, numbers out of range included."""
    rng = np.random.default_rng(5)
    refused = 0
    for trial in range(60):
        data = bytearray(encode(picture(40, 48, trial), "4:2:0", quality=96))
        start = data.index(b"\xff\xdb") + 5
        data[start : start + 64] = bytes([int(rng.integers(1, 60))]) * 64
        status, rows = find_seek_points(bytes(data), 2)
        refused += status != 0
        for shrink in (1, 2, 4, 8):
            again, _ = ours(bytes(data), (40, 48), None, shrink, seek_points=rows, every=2)
            assert again == 0 or status != 0
    assert 5 < refused < 55


def test_a_checkpoint_behind_the_scan_is_refused() -> None:
    """A place past the end is noticed, and what follows from other wrong places is a status or other pixels."""
    data = encode(picture(90, 130), "4:2:0")
    _, rows = find_seek_points(data, 9)
    rows["bit"] = 8 * len(data)

    assert (
        reason_of(data, (90, 130), (70, 20, 20, 40), seek_points=rows, every=9)
        == "the seek points are those of another file"
    )


@njit  # type: ignore[untyped-decorator]
def _note_at(address: int, scan: int) -> int:
    """Note a seek point where reading stands, of a scan that begins there; returns how many there are."""
    memory = memory_at(address)
    memory.header.scan = scan
    memory.intervals.mcu = memory.job.every
    if _note_seek_point(memory) != GOOD:
        return -1
    return memory.job.noted


@pytest.mark.parametrize(("bytes_short", "count"), [(1, 1), (-1, 0)])
def test_a_scan_of_more_than_32_bits_has_none(bytes_short: int, count: int) -> None:
    """A place that does not fit into a row is not kept, nor are those before it, and the verdict stays good."""
    data = np.frombuffer(encode(picture(40, 40), "4:2:0"), np.uint8)
    files = np.array([[data.ctypes.data, data.size]], np.int64)
    scratch, rows = new_scratch(), np.zeros(9, SEEK_POINT)
    statuses, ends = np.empty(1, np.int32), np.empty(1, np.int64)
    check_files(files, 1, scratch, statuses, rows, ends)
    assert ends[0] == 8
    end = data.size - 2  # reading stands at the marker

    assert _note_at(scratch.ctypes.data, end - (1 << 29) + bytes_short) == count


def test_too_few_mcus_have_none() -> None:
    """A picture of one MCU, and one that is as long as the distance."""
    for width, count in ((8, 0), (16, 0), (24, 1)):
        status, rows = find_seek_points(encode(picture(8, width), "4:4:4"), 2)
        assert (status, len(rows)) == (0, count)


def test_other_files_have_none() -> None:
    """What is no sound baseline JPEG has a reason and no row."""
    data = encode(picture(60, 70), "4:2:0")
    for damaged, reason in (
        (b"", "does not begin and end like a JPEG"),
        (data[:-40] + data[-2:], "damaged: the scan ends too early"),
    ):
        status, rows = find_seek_points(damaged, 4)
        assert REASONS[status] == reason
        assert len(rows) == len(NO_SEEK_POINTS)
    with pytest.raises(ValueError, match="at least 1 MCU"):
        find_seek_points(data, 0)


@pytest.mark.parametrize("in_pool", [False, True])
def test_many_files_are_read_as_one_by_one(in_pool: bool) -> None:
    """By several threads at once, also where the calling one is the only one of the pool; damage costs a file itself alone."""
    encoded = [encode(picture(50 + number, 60, number), "4:2:0") for number in range(70)]
    encoded[5] = encoded[5][:300]
    encoded[40] = b"no JPEG"
    held = [np.frombuffer(data, np.uint8) for data in encoded]
    with ThreadPoolExecutor(1 if in_pool else 3) as pool:
        if in_pool:
            found = pool.submit(find_all_seek_points, spans_of(held), 3, pool).result()
        else:
            found = find_all_seek_points(spans_of(held), 3, pool)

    assert len(found) == len(encoded)
    for data, one in zip(encoded, found, strict=True):
        status, rows = find_seek_points(data, 3)
        assert (one.status, one.every) == (status, 3)
        assert np.array_equal(one.rows, rows)
    assert find_all_seek_points(np.empty((0, 2), np.int64), 3) == []


def test_no_thread_reads_files_that_the_caller_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are known by their addresses: who is told of an error may free them at once."""
    begun, may_end, threads = threading.Event(), threading.Event(), []

    def find(files: Any, every: int) -> list[SeekPoints]:
        del files, every
        begun.set()
        threads.append(threading.get_ident())
        assert may_end.wait(60)
        threads.remove(threading.get_ident())
        return []

    class Ending(ThreadPoolExecutor):
        """Takes one task, and is then shut down by another thread."""

        def submit(self, *arguments: Any) -> Future[Any]:  # type: ignore[override]
            if begun.is_set():
                threading.Timer(0.2, may_end.set).start()
                raise RuntimeError("cannot schedule new futures after shutdown")
            task = super().submit(*arguments)
            assert begun.wait(60)
            return task

    monkeypatch.setattr("dali_pipes.jpeg.seek_points._find", find)
    with Ending(1) as pool:
        with pytest.raises(RuntimeError, match="after shutdown"):
            find_all_seek_points(np.zeros((70, 2), np.int64), 3, pool)
        assert not threads


BAD = 7


def rows_of(count: int, first: int = 0) -> np.ndarray:
    rows = np.zeros(count, SEEK_POINT)
    rows["bit"], rows["dc"] = np.arange(first, first + count), first
    return rows


def ask(memory: SeekPointMemory, *digests: int) -> list[SeekPoints | None]:
    known = memory.look_up(np.arange(len(digests)), np.array(digests, np.uint64))
    assert known.files["num_rows"].tolist() == [
        0 if one is None else len(one.rows) for one in known.held
    ]
    return list(known.held)


def test_what_is_kept_is_found() -> None:
    """By its digest, whatever its index, as a copy of its own."""
    memory, rows = SeekPointMemory(), rows_of(5, first=3)
    memory.store_all(
        [(0, 2**64 - 1, SeekPoints(0, 8, rows)), (1, 12, SeekPoints(BAD, 8, rows[:0]))]
    )
    rows["bit"] = 99

    bad, none, good = ask(memory, 12, 13, 2**64 - 1)

    assert none is None
    assert bad is not None
    assert (bad.status, len(bad.rows)) == (BAD, 0)
    assert good is not None
    assert (good.status, good.every) == (0, 8)
    np.testing.assert_array_equal(good.rows, rows_of(5, first=3))


def test_verdicts_outlast_the_room_for_rows() -> None:
    """Of further files the verdicts are kept, and then nothing; it stays within its limit."""
    memory = SeekPointMemory(limit_bytes=20_000)
    for digest in range(1, 201):
        memory.store_all([(0, digest, SeekPoints(0, 4, rows_of(100)))])
        assert memory.num_bytes <= 20_000
    found = ask(memory, *range(1, 201))
    kinds = ["" if one is None else "rows" if len(one.rows) else "verdict" for one in found]

    assert [kinds.count(kind) for kind in ("rows", "verdict")] == [12, 21]
    assert kinds == sorted(kinds, key=["rows", "verdict", ""].index)


def test_what_is_found_again_takes_no_more_room() -> None:
    """Threads that meet a file at the same time keep it once."""
    memory = SeekPointMemory(limit_bytes=20_000)
    for first in range(100):
        memory.store_all([(0, 5, SeekPoints(0, 4, rows_of(100, first)))])
    (found,) = ask(memory, 5)

    assert found is not None
    assert found.rows["bit"][0] == 99
    assert memory.num_bytes < 2_000


def test_threads() -> None:
    """Whoever asks while others keep gets all of a file or nothing."""
    memory = SeekPointMemory(limit_bytes=1_000_000)

    def work(part: int) -> int:
        seen = 0
        for number in range(1, 400):
            memory.store_all([(0, number, SeekPoints(0, 4, rows_of(10, number)))])
            asked = (number * (part + 3)) % 400 + 1
            for one in ask(memory, asked):
                if one is not None:
                    seen += 1
                    np.testing.assert_array_equal(one.rows, rows_of(10, asked))
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(work, range(4))) > 100
    assert memory.num_bytes == 399 * (240 + 100)
