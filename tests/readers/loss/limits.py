"""What would take more memory than is allowed is one bad sample, and is not read."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from readers import Sample, SourceError, open_dataset
from readers.detect.registry import FORMATS
from readers.storage.limits import VARIABLE
from readers.video.frame_folder import FrameFolderDataset
from tests.support.loss import Cell, NotApplicable
from tests.support.one_other import (
    jpeg,
    reason_of,
    reasons,
    samples_with,
    write_and_open,
    write_stream,
    writer_of,
)

LIMIT = 50_000
LARGE = jpeg(0) + bytes(2 * LIMIT)


@contextmanager
def limited(limit: int = LIMIT) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(limit))
        yield


def one_is_bad(format_name: str, folder: Path, *, unit: int = 1) -> None:
    """The large sample is bad, and no other: but for those of its `unit`, which are decompressed with it."""
    with limited():
        found = [reason for reason in reasons(write_and_open(format_name, folder, LARGE)) if reason]

    assert 1 <= len(found) <= unit
    assert all(f"more than {LIMIT}" in reason and VARIABLE in reason for reason in found)


def stream(folder: Path) -> None:
    path = write_stream(folder, LARGE)
    with limited():
        found = [reason_of(one) for one in open_dataset(path, format="stream")]

    assert [f"more than {LIMIT}" in reason for reason in found] == [False, False, False, True, False, False]  # fmt: skip


def frames(folder: Path) -> None:
    (folder / "video").mkdir()
    for number, content in enumerate((jpeg(0), LARGE)):
        (folder / "video" / f"img_{number:04d}.jpg").write_bytes(content)
    with limited():
        sound, bad = FrameFolderDataset(folder).fetch_frames(0, [0, 1])

    assert sound == jpeg(0)
    assert f"more than {LIMIT}" in bad.reason  # type: ignore[union-attr]


def rows(folder: Path) -> None:
    """All rows of an array are as large, so that it is refused."""
    np.save(folder / "images.npy", np.zeros((4, 200, 200, 3), np.uint8))
    with limited(), pytest.raises(SourceError, match=f"more than {LIMIT}"):
        open_dataset(folder / "images.npy")


def videos_are_read_by_parts(format_name: str, folder: Path) -> None:
    """The limit is not for them."""
    source = writer_of(format_name).write(folder, samples_with(jpeg(0)))
    with limited(100):
        entries = open_dataset(source).fetch(range(6))

    assert all(isinstance(one, Sample) and isinstance(one.video, memoryview) for one in entries)


CELLS: dict[str, Cell] = {name: partial(one_is_bad, name) for name in FORMATS}
CELLS |= {
    **{name: partial(one_is_bad, name, unit=6) for name in ("parquet", "delta", "iceberg")},
    "stream": stream,
    "frame-folder": frames,
    "npy": rows,
    "video-folder": partial(videos_are_read_by_parts, "video-folder"),
    "clip-list": partial(videos_are_read_by_parts, "clip-list"),
    "lance": NotApplicable("Its library tells no length of a value before it has read it."),
    "arrayrecord": NotApplicable("Its library tells no length of a record before it has read it."),
    "lerobot": NotApplicable("Its frames lie in videos, which are read by parts."),
}
