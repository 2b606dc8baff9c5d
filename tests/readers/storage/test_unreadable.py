"""What the storage fails to give is stored nowhere, and never taken for what is not there."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, Sample, SourceError, open_dataset
from readers.formats.folder import FolderDataset
from readers.image import sizes
from readers.prepare.errors import TransientError
from readers.storage.paths import find_paths
from readers.storage.unreadable import OptionalFile, files_below, size_or_missing


@pytest.fixture
def photos(tmp_path: Path, jpeg: Callable[..., bytes]) -> Path:
    for number in range(4):
        folder = tmp_path / "photos" / f"class{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(jpeg(20, 30, seed=number))
    return tmp_path / "photos"


class Failing(FolderDataset):
    """Class folders of which one sample cannot be read as often as `times` says."""

    times = 0

    def fetch(self, indices: Any) -> list[Sample | BadSample]:
        """See `Dataset.fetch`."""
        samples = super().fetch(indices)
        for row, sample in enumerate(samples):
            if sample.index == 1 and self.times:
                self.times -= 1
                samples[row] = BadSample(1, sample.key, "read", "EIO", transient=True)
        return samples


def test_a_size_that_cannot_be_read_is_not_kept(photos: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sizes, "_STORED_FROM", 1)
    data = Failing(photos)
    data.times = 1  # is read again
    assert sizes.image_sizes(data).tolist() == [[20, 30]] * 4
    data = Failing(photos, classes=["class0", "class1"])
    data.times = 100
    for path in (Path(os.environ["GPU_AUG_CACHE"]) / "sizes").glob("*.npy"):
        path.unlink()
    with pytest.raises(TransientError, match=r"1\.jpg|3\.jpg|2\.jpg"):
        sizes.image_sizes(data)
    data.times = 0
    assert sizes.image_sizes(data).tolist() == [[20, 30]] * 4


def failing(wanted: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any = ".", *rest: Any, **options: Any) -> Any:
        if not isinstance(path, int) and os.fspath(path).endswith(wanted):
            raise OSError(errno.EIO, os.strerror(errno.EIO), os.fspath(path))
        return real(path, *rest, **options)

    return call


@pytest.mark.parametrize(
    "look",
    [
        lambda photos: list(files_below(photos)),
        lambda photos: open_dataset(photos),
        lambda photos: find_paths(f"{photos}/*/*.jpg", None),
    ],
)
def test_a_folder_that_cannot_be_listed_is_not_empty(
    photos: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], Any]
) -> None:
    assert look(photos)
    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, failing("class1", getattr(os, name)))
    with pytest.raises(SourceError, match=r"class1 cannot be listed \(Input/output error\)"):
        look(photos)


def test_the_size_of_a_file_that_cannot_be_looked_at(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = open_dataset(photos)
    assert size_or_missing(f"{photos}/nothing") == -1
    monkeypatch.setattr(os, "stat", failing("3.jpg", os.stat))
    with pytest.raises(SourceError, match=r"3\.jpg cannot be read: Input/output error"):
        _ = data.fingerprint


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.EISDIR])
def test_a_file_that_is_not_there_is_done_without(number: int) -> None:
    with OptionalFile("a"):
        raise OSError(number, "")


def test_what_is_fetched_again_stands_in_its_place(photos: Path) -> None:
    data = Failing(photos)
    wanted: Sequence[int] = [2, 1, 3, 1]
    data.times = 3
    assert [sample.index for sample in data.fetch(np.array(wanted))] == wanted
    assert all(isinstance(sample, Sample) for sample in data.take(3).fetch([1, 0]))
