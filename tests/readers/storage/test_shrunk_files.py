"""Files that are shortened in place while they are in use: bad samples, where a look into a map ends the process."""

import errno
import importlib
import io
import os
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import h5py
import numpy as np
import pytest

import tests.support.writers
from dali_pipes import ImageOptions, Loader
from gpu_aug import RandomResizedCrop, Recipe
from readers import BadSample, Dataset, Sample, open_dataset
from readers.formats.hdf5.dataset import Hdf5Dataset
from readers.formats.npy import NpyDataset
from readers.formats.tar import TarDataset
from readers.storage.blob import ContentFile
from readers.storage.blob.mapped import MappedFile, copied, mapped_file
from readers.storage.blob.mmap_pages import map_file
from readers.video import VideoError, read_packets, scan_video
from tests.support.index_entries import entry_of
from tests.support.jpeg_kinds import with_restarts
from tests.support.tars import write_tar
from tests.support.videos import write_video
from tests.support.writers import Written

NUM_SAMPLES = 12
WRITERS = [
    importlib.import_module(f"tests.support.writers.{found.name}")
    for found in pkgutil.iter_modules(tests.support.writers.__path__)
]
every_format = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.FORMAT)
# Frames are read by name later, as class folders are; ArrayRecord's library has so small a file in memory.
_READ_NOTHING = ("frame-folder", "arrayrecord")
_DESCRIPTIONS = (".json", ".jsonl", ".txt", ".csv", ".gpuaug-index", ".gpuaug-videos")


@pytest.fixture(scope="module")
def samples(jpeg: Callable[..., bytes]) -> list[Written]:
    """A few samples."""
    return [
        Written(f"photo-{number:03d}", jpeg(120, 140, seed=number), number % 3)
        for number in range(NUM_SAMPLES)
    ]


def opened(writer: ModuleType, folder: Path, samples: list[Written]) -> Dataset:
    source = getattr(writer, "write_plain", writer.write)(folder, samples)
    return open_dataset(source, **getattr(writer, "OPTIONS", {}))


def payloads(entry: Sample | BadSample) -> dict[str, bytes]:
    """Fields of a sample as the loader reads them; none of one that is lost."""
    if isinstance(entry, BadSample):
        return {}
    try:
        return {name: bytes(copied(payload)) for name, payload in entry.fields.items()}
    except OSError:
        return {}


def shorten(folder: Path, part: float) -> None:
    """Leave a part of every file that holds samples."""
    for path in list(folder.rglob("*")):
        if path.is_file() and path.suffix not in _DESCRIPTIONS:
            os.truncate(path, int(path.stat().st_size * part))


@every_format
@pytest.mark.parametrize(("part", "length"), [(0.5, "short"), (0, "short"), (0.5, "long")])
def test_what_is_gone_is_bad_and_what_is_left_is_right(
    writer: ModuleType,
    samples: list[Written],
    tmp_path: Path,
    part: float,
    length: str,
    request: pytest.FixtureRequest,
) -> None:
    """Of shortened files nothing else is read than before, and samples that were read before are unharmed."""
    if length == "long":
        request.getfixturevalue("every_payload_is_long")
    dataset = opened(writer, tmp_path, samples)
    before = dataset.fetch(range(len(dataset)))
    whole = [payloads(entry) for entry in before]

    shorten(tmp_path, part)
    after = dataset.fetch(range(len(dataset)))
    left = [payloads(entry) for entry in after]

    assert all(isinstance(entry, Sample) for entry in before)
    assert all(isinstance(entry, (Sample, BadSample)) for entry in after)
    for old, new, held in zip(whole, left, map(payloads, before), strict=True):
        # Who reads a file as a whole gets what is left of it, which does not decode.
        assert all(old[name].startswith(new[name]) for name in new)
        assert held in (old, {})
    assert left != whole or writer.FORMAT in _READ_NOTHING


def plain_shard(path: Path) -> Path:
    """Write a shard of twenty samples; its images are none."""
    return write_tar(path, [(f"{number:02d}.jpg", b"%02d" % number * 450) for number in range(20)])


@pytest.mark.parametrize("part", [0.5, 0])
def test_neighbours_of_what_is_gone_are_untouched(tmp_path: Path, part: float) -> None:
    """A sample is bad if and only if the shard ends before it does, and says that the shard has shrunk."""
    shard = plain_shard(tmp_path / "a.tar")
    dataset = TarDataset([shard, plain_shard(tmp_path / "b.tar")])
    before = dataset.fetch(range(40))
    ends = [entry_of(dataset._open(0).index, row).members[-1][2] for row in range(20)]
    size_bytes = shard.stat().st_size
    os.truncate(shard, int(size_bytes * part))
    after = dataset.fetch(range(40))

    bad = [isinstance(entry, BadSample) for entry in after]
    assert bad == [end > size_bytes * part for end in ends] + [False] * 20
    assert all(new == old for new, old, lost in zip(after, before, bad, strict=True) if not lost)
    assert f"it has shrunk from {size_bytes} to {int(size_bytes * part)} bytes" in after[19].reason  # type: ignore[union-attr]


def test_no_descriptors_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may open nothing more reads on, and a file that has shrunk is found out all the same."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(range(200)) * 100)
    view = map_file(path)

    full = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(os, "open", Mock(side_effect=full))
    assert copied(view[5:9]) == bytes([5, 6, 7, 8])
    os.truncate(path, 10)
    with pytest.raises(OSError, match="has shrunk from 20000 to 10 bytes"):
        copied(view[5:9])


def test_the_index_may_shrink(tmp_path: Path) -> None:
    """A side-car index that is shortened while it is in use is built anew."""
    dataset = TarDataset([plain_shard(tmp_path / "a.tar")])
    before = dataset.fetch(range(20))
    os.truncate(tmp_path / "a.tar.gpuaug-index", 100)

    assert dataset.fetch(range(20)) == before
    assert dataset.column("num_bytes").tolist() == [900] * 20


def test_rows_that_the_library_reads(tmp_path: Path) -> None:
    """Of what a file no longer has HDF5 makes zeros, without a word; here they are bad samples."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "images", data=np.ones((64, 32, 32, 3), np.uint8), chunks=(1, 32, 32, 3)
        )
    dataset = Hdf5Dataset(path)
    [whole] = dataset.fetch([0])
    os.truncate(path, path.stat().st_size // 2)
    after = dataset.fetch(range(64))

    assert any(isinstance(entry, BadSample) for entry in after)
    assert all(isinstance(entry, BadSample) or entry.image == whole.image for entry in after)  # type: ignore[union-attr]


def test_fortran_order(tmp_path: Path) -> None:
    """Rows that lie all over a file are gone when its end is."""
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(np.ones((20, 50, 50, 3), np.uint8)))
    dataset = NpyDataset(path)
    os.truncate(path, path.stat().st_size // 2)

    assert all(isinstance(entry, BadSample) for entry in dataset.fetch(range(20)))


class Late:
    """Hands over what was fetched before its shard shrank."""

    fingerprint, class_names = "0" * 32, ()

    def __init__(self, fetched: Sequence[Sample | BadSample]) -> None:
        self._fetched = fetched

    def __len__(self) -> int:
        return len(self._fetched)

    def fetch(self, indices: Sequence[int]) -> list[Sample | BadSample]:
        """As they were."""
        return [self._fetched[index] for index in indices]


def load(fetched: Sequence[Sample | BadSample], **options: Any) -> Loader:
    return Loader(
        Late(fetched),
        Recipe([RandomResizedCrop(8)]),
        batch_size=8,
        on_bad_sample="skip",
        device="cpu",
        **options,
    )


def test_long_images_in_a_loader(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """An image of more than 1 MiB is a view, which no decoder gets to see."""
    images = [jpeg(60, 50, seed=seed) + bytes(1 << 20) for seed in range(8)]
    names = [f"{number}.jpg" for number in range(8)]
    shard = write_tar(tmp_path / "a.tar", list(zip(names, images, strict=True)))
    fetched = TarDataset([shard]).fetch(range(8))
    os.truncate(shard, shard.stat().st_size // 2)
    loader = load(fetched)
    [batch] = loader

    assert isinstance(fetched[0], Sample)
    assert mapped_file(fetched[0].fields["jpg"]) is not None
    assert sorted(batch.indices.tolist()) == [0, 1, 2, 3]
    assert all("has shrunk" in record.reason for record in loader.bad_samples)


@pytest.mark.parametrize("name", ["bin", "jpeg", "json"])
def test_long_fields_that_nobody_wants(
    tmp_path: Path, jpeg: Callable[..., bytes], name: str
) -> None:
    """They are not read: a sample of which only such a field is gone is sound."""
    long = b'{"boxes": []}' + b" " * (2 << 20)
    shard = write_tar(tmp_path / "a.tar", [("0.jpg", jpeg(60, 50)), (f"0.{name}", long)])
    fetched = TarDataset([shard]).fetch([0]) * 8
    os.truncate(shard, shard.stat().st_size - (1 << 20))
    loader = load(fetched, images=ImageOptions(targets=[]))
    [batch] = loader

    assert len(batch) == 8
    assert not loader.bad_samples
    if name == "json":
        assert len(next(iter(load(fetched)))) == 0


def test_long_images_in_restart_intervals(
    tmp_path: Path, jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay in the map, since a part of each is wanted; where the file has shrunk they are bad samples."""
    image = with_restarts(jpeg(1500, 1500), quality=100)
    shard = write_tar(tmp_path / "a.tar", [("0.jpg", image)])
    fetched = TarDataset([shard]).fetch([0]) * 8
    sizes: list[int] = []
    read = MappedFile.read
    monkeypatch.setattr(
        MappedFile,
        "read",
        lambda file, start, stop: sizes.append(stop - start) or read(file, start, stop),
    )
    [batch] = load(fetched)
    os.truncate(shard, len(image) // 2)
    loader = load(fetched)

    assert isinstance(fetched[0], Sample)
    assert mapped_file(fetched[0].fields["jpg"]) is not None
    assert fetched[0].restarts is not None
    assert len(batch) == 8
    assert max(sizes, default=0) < len(image) // 10
    assert len(next(iter(loader))) == 0
    assert "has shrunk" in loader.bad_samples[0].reason


@pytest.mark.parametrize("suffix", ["mp4", "mts", "mpg", "wmv"])
def test_packets_of_a_video(tmp_path: Path, suffix: str) -> None:
    """Those that the file still has are read, and behind them it is said why there are no more."""
    codec = {"mpg": "mpeg2video", "wmv": "wmv2"}.get(suffix, "libx264")
    frames = np.random.default_rng(0).integers(0, 255, (60, 128, 160, 3), dtype=np.uint8)
    path = write_video(tmp_path / f"a.{suffix}", frames, codec=codec)
    view = map_file(path)
    info = scan_video(view)
    whole = list(read_packets(view, info, 0, 60))
    os.truncate(path, path.stat().st_size // 2)
    packets = read_packets(view, info, 0, 60)

    assert len(info.packet_offsets) == (60 if suffix == "mp4" else 0)
    assert next(packets) == whole[0]
    with pytest.raises(VideoError, match="has shrunk"):
        list(packets)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("read", (3,)),
        ("read", ()),
        ("read", (99,)),
        ("seek", (2,)),
        ("seek", (1, io.SEEK_CUR)),
        ("seek", (-4, io.SEEK_END)),
        ("seek", (99,)),
        ("tell", ()),
    ],
    ids=str,
)
def test_a_file_object_over_a_map_does_what_one_over_bytes_does(
    method: str, arguments: tuple[int, ...], tmp_path: Path
) -> None:
    """ContentFile returns, and then reads, what io.BytesIO does."""
    (tmp_path / "ten").write_bytes(b"0123456789")
    file, other = ContentFile(map_file(tmp_path / "ten")), io.BytesIO(b"0123456789")
    for one in (file, other):
        one.seek(5)
    assert getattr(file, method)(*arguments) == getattr(other, method)(*arguments)
    assert file.read() == other.read()
    with pytest.raises(ValueError, match="cannot seek to -1"):
        file.seek(-1)


def test_a_file_object_over_a_map_that_has_shrunk_raises(tmp_path: Path) -> None:
    """The bytes are read from the file, so that the process does not end."""
    path = tmp_path / "photo"
    path.write_bytes(bytes(3 * 4096))
    file = ContentFile(map_file(path))
    os.truncate(path, 1)
    with pytest.raises(OSError, match="it has shrunk"):
        file.read(2 * 4096)
