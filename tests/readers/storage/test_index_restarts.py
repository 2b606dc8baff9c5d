"""Restart intervals of JPEGs: where they are found, and how the index of a shard keeps them."""

import io
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from readers import FolderDataset, Sample, TarDataset, restart_offsets
from readers.storage.blob import LocalBlob
from readers.storage.index import Entry, Scan, ShardIndex, open_index
from tests.support.index_entries import entry_of
from tests.support.tars import write_tar

Jpeg = Callable[..., bytes]


def by_regular_expression(data: bytes) -> list[int]:
    """The offsets, found in another way: by a search for the markers as text."""
    (start,) = (
        found.end()
        for found in re.finditer(rb"\xff\xda\x00\x0c\x03.{6}\x00\x3f\x00", data, re.DOTALL)
    )
    marks = [found.end() for found in re.finditer(rb"\xff[\xd0-\xd7]", data[start:])]
    return [start, *(start + mark for mark in marks), data.rindex(b"\xff\xd9")]


@pytest.mark.parametrize(
    "options", [{}, {"subsampling": 0}, {"subsampling": 1}, {"optimize": True}]
)
@pytest.mark.parametrize("blocks", [1, 3, 500])
def test_offsets_are_where_the_markers_are(
    jpeg: Jpeg, options: dict[str, int], blocks: int
) -> None:
    """Files that libjpeg wrote with restart markers, of several samplings and intervals."""
    data = jpeg(83, 171, restart_marker_blocks=blocks, **options)

    found = restart_offsets(data)

    assert found is not None
    assert (found.dtype, found.tolist()) == (np.int64, by_regular_expression(data))
    assert restart_offsets(memoryview(data)).tolist() == found.tolist()  # type: ignore[union-attr]


def test_grey_pictures_have_units_of_one_block() -> None:
    """A single component has units of 8 x 8 whatever its sampling factors say."""
    stream = io.BytesIO()
    Image.new("L", (83, 30)).save(stream, "JPEG", restart_marker_blocks=4)
    data = bytearray(stream.getvalue())
    plain = restart_offsets(bytes(data))
    data[data.index(b"\xff\xc0") + 11] = 0x22
    strange = restart_offsets(bytes(data))

    assert plain is not None
    assert len(plain) == 11 * 4 // 4 + 1
    assert strange is not None
    assert strange.tolist() == plain.tolist()


def test_every_interval_decodes_to_its_part(jpeg: Jpeg) -> None:
    """An interval of a row, cut out by its offsets, is that row for another decoder."""
    data = jpeg(64, 80, subsampling=0, restart_marker_rows=1)
    offsets = restart_offsets(data)
    whole = np.asarray(Image.open(io.BytesIO(data)))
    assert offsets is not None
    header = bytearray(data[: offsets[0]])
    frame = header.index(b"\xff\xc0")
    header[frame + 5 : frame + 7] = (8).to_bytes(2, "big")

    for row, (start, stop) in enumerate(pairwise(offsets.tolist())):
        end = stop if row == len(offsets) - 2 else stop - 2
        part = Image.open(io.BytesIO(bytes(header) + data[start:end] + b"\xff\xd9"))

        np.testing.assert_array_equal(np.asarray(part), whole[8 * row : 8 * row + 8])


def damaged(data: bytes) -> dict[str, bytes]:
    """A JPEG with restart markers, damaged in many ways."""
    marks = [found.start() for found in re.finditer(rb"\xff[\xd0-\xd7]", data)]
    frame = data.index(b"\xff\xc0")
    return {
        "marker lost": data[: marks[3]] + data[marks[3] + 2 :],
        "marker twice": data[: marks[3]] + data[marks[3] : marks[3] + 2] + data[marks[3] :],
        "marker out of turn": data[: marks[3]] + b"\xff\xd7" + data[marks[3] + 2 :],
        "filled with 0xFF": data[: marks[3]] + b"\xff" + data[marks[3] :],
        "other marker": data[: marks[3]] + b"\xff\xfe" + data[marks[3] + 2 :],
        "no end": data[:-2],
        "no scan": data[: data.index(b"\xff\xda")],
        "more rows": data[: frame + 5] + (200).to_bytes(2, "big") + data[frame + 7 :],
        "no rows": data[: frame + 5] + bytes(2) + data[frame + 7 :],
        "12 bits": data[: frame + 4] + b"\x0c" + data[frame + 5 :],
        "progressive": data[: frame + 1] + b"\xc2" + data[frame + 2 :],
        "no components": data[: frame + 9] + b"\x00" + data[frame + 10 :],
        "no JPEG": b"\x89P" + data[2:],
        "empty": b"",
    }


def test_what_does_not_fit_has_no_offsets(jpeg: Jpeg) -> None:
    """A file whose markers are not those that its size and interval call for is left to the decoder."""
    data = jpeg(83, 171, restart_marker_blocks=3)

    assert restart_offsets(data) is not None
    found = {kind: restart_offsets(broken) for kind, broken in damaged(data).items()}
    assert found == dict.fromkeys(found)


def test_any_cut_is_survived(jpeg: Jpeg) -> None:
    """A file that ends anywhere has no offsets, and raises nothing."""
    data = jpeg(40, 60, restart_marker_blocks=3)

    assert all(restart_offsets(data[:length]) is None for length in range(len(data) - 1))
    assert restart_offsets(data + b"\xff\xd0 behind the end \xff\xd9") is not None


def test_ordinary_and_progressive_files_have_none(jpeg: Jpeg) -> None:
    """Without an interval there is nothing to find; with several scans there is no one place."""
    assert restart_offsets(jpeg(83, 171)) is None
    assert restart_offsets(jpeg(83, 171, progressive=True, restart_marker_blocks=3)) is None


def test_a_shard_knows_the_offsets_of_its_images(tmp_path: Path, jpeg: Jpeg) -> None:
    """Samples come with offsets where their image has them, from the scan and from the index file."""
    images = [jpeg(60, 90, n, **({"restart_marker_blocks": n} if n % 3 else {})) for n in range(9)]
    path = write_tar(tmp_path / "a.tar", [(f"{n}.jpg", image) for n, image in enumerate(images)])

    for _ in range(2):
        for sample, data in zip(TarDataset([path]).fetch(range(9)), images, strict=True):
            assert isinstance(sample, Sample)
            np.testing.assert_equal(sample.restarts, restart_offsets(data))
            assert (sample.restarts is None) == (sample.index % 3 == 0)


def test_folders_do_not_look(tmp_path: Path, jpeg: Jpeg) -> None:
    """A folder has no index: whoever needs the offsets finds them."""
    (tmp_path / "a.jpg").write_bytes(jpeg(60, 90, restart_marker_blocks=3))
    (sample,) = FolderDataset(tmp_path).fetch([0])

    assert isinstance(sample, Sample)
    assert sample.restarts is None


def shard_index(path: Path, offsets: list[list[int] | None]) -> ShardIndex:
    path.write_bytes(b"a shard, for an index that is not scanned")
    entries = [
        Entry(str(number), (), restarts=None if given is None else np.array(given))
        for number, given in enumerate(offsets)
    ]
    return open_index(LocalBlob(path), Scan("any", 1, lambda _, __: entries)).map()


def test_offsets_come_back_as_they_were(tmp_path: Path) -> None:
    """Long headers and long intervals are kept; what exceeds 64 kB is left out."""
    offsets = [
        [600, 700, 66_235, 66_240],
        None,
        [2**31, 2**31 + 9],
        [600, 66_136],
        [2**32, 2**32 + 9],
    ]

    index = shard_index(tmp_path / "a.tar", offsets)
    found = [entry_of(index, row).restarts for row in range(5)]

    assert [None if row is None else row.tolist() for row in found] == [*offsets[:3], None, None]


def test_an_interval_takes_two_bytes(tmp_path: Path) -> None:
    """A hundred images of 200 intervals take 40 kB and 12 bytes for each image; none take nothing."""
    sizes = []
    for name, offsets in [
        ("plain", [None] * 100),
        ("tiled", [list(range(600, 600 + 201 * 500, 500))] * 100),
    ]:
        shard_index(tmp_path / f"{name}.tar", offsets)  # type: ignore[arg-type]
        sizes.append((tmp_path / f"{name}.tar.gpuaug-index").stat().st_size)

    assert 0 <= sizes[1] - sizes[0] - 100 * (200 * 2 + 12) < 96
