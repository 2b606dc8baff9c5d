"""Where images lie: what is read there must be the samples that `fetch` returns."""

import os
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from readers import (
    BadSample,
    Dataset,
    FolderDataset,
    IndexedDataset,
    ListDataset,
    Sample,
    TarDataset,
    mix,
    open_dataset,
)
from readers.datasets.located import Located, Reads, merge
from readers.formats.path_table import PathTableDataset
from readers.formats.tfrecord.dataset import TfRecordDataset
from readers.sample import is_image_field
from readers.storage.blob import mapped
from tests.support.damage import overwrite
from tests.support.one_other import all_writers, writer_of
from tests.support.tars import write_samples, write_tar
from tests.support.writers import Written


def nothing(name: str) -> bool:
    return not name


def image(number: int) -> bytes:
    return b"\xff\xd8" + bytes([number % 251]) * (100 + number)


def read(located: Located, row: int) -> bytes:
    """Read an image as compiled code does; empty where it cannot be opened."""
    number, start, length = (
        int(of_all[row]) for of_all in (located.files, located.starts, located.lengths)
    )
    if not located.paths:
        return read_some(number, length, start)
    begin = int(located.path_starts[number])
    path = located.paths[begin : located.paths.index(0, begin)]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return read_some(descriptor, length if length >= 0 else 1 << 20, start)
    finally:
        os.close(descriptor)


def read_some(descriptor: int, length: int, start: int) -> bytes:
    try:
        return os.pread(descriptor, length, start)
    except OSError:  # a pipe
        return b""


def check(
    dataset: Dataset, indices: list[int], reads: Callable[[str], bool] = nothing
) -> list[bool]:
    """Compare what is located with what is fetched; returns which rows are located."""
    located = dataset.locate(np.array(indices, np.int64), reads)  # type: ignore[attr-defined]
    assert located is not None
    fetched = dataset.fetch(indices)
    assert len(located) == len(indices)
    keys = located.make_keys()
    for row, entry in enumerate(fetched):
        assert keys[row] == entry.key
        if not located.is_located[row]:
            assert located.files[row] == -1
            continue
        data = read(located, row)
        if not isinstance(entry, Sample):
            assert len(data) < max(1, located.lengths[row]), "a bad sample must not be readable"
            continue
        made = located.make_sample(row, data)
        assert made == entry
        assert type(made.index) is int
        assert type(made.label) is int
        assert (list(made.fields), data) == (list(entry.fields), entry.image)
        assert located.labels[row] == entry.label
        assert tuple(located.sizes[row].tolist()) == (entry.size or (0, 0))
        restarts = None if located.restarts is None else located.restarts[row]
        for one in (restarts, made.restarts):
            assert (one is None) == (entry.restarts is None)
            assert one is None or one.tolist() == entry.restarts.tolist()  # type: ignore[union-attr]
    return [bool(one) for one in located.is_located]


def tar(path: Path, number: int, fields: dict[str, bytes]) -> Path:
    """Write a shard of a few samples, each with the fields, in which # is its number."""
    return write_tar(
        path,
        (
            (
                f"n/{row:02}.{name}",
                image(row) if is_image_field(name) else data.replace(b"#", b"%d" % row),
            )
            for row in range(number)
            for name, data in fields.items()
        ),
    )


SELECTIONS: dict[str, Callable[[IndexedDataset], Dataset]] = {
    "all": lambda data: data,
    "taken": lambda data: data.take([8, 2, 2, 5, 0, 7, 3, 1, 4, 6, 9]),
    "split": lambda data: data.split(0.9, 0.1)[0],
    "labelled": lambda data: data.with_labels([7 - n % 9 for n in range(len(data))]),
    "classes named": lambda data: data.take(slice(9, None, -1)).with_labels(["b", "a"] * 5),
    "balanced": lambda data: data.with_labels([n % 2 for n in range(len(data))]).balanced(),
    "mixed": lambda data: mix([data.take(3), data, data.take([1])], names=["x", "y", "z"]),
    "offset": lambda data: mix(
        [data.with_labels(["q", "r"] * (len(data) // 2))] * 2, labels="offset"
    ),
}
LOCATED = ("folder", "list", "imagenet", "csv", "tar", "lmdb")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six images, of which the fifth has a caption beside it."""
    for number in range(12):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number:02}\udcff ä.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image(number))
    beside = sorted((tmp_path / "photos/b").iterdir())[2]
    beside.with_suffix(".json").write_text("{}")
    return tmp_path / "photos"


ROWS = [11, 0, 3, 3, 7, 8, 1]
SHARD = {"jpg": b"", "cls": b"#"}


def test_folder(folder: Path) -> None:
    photos = FolderDataset(folder)
    assert check(photos, ROWS) == [True, True, True, True, True, False, True]
    assert check(photos, []) == []
    (folder / photos.keys()[3]).unlink()
    (folder / photos.keys()[0]).unlink()
    os.mkfifo(folder / photos.keys()[0])
    (folder / photos.keys()[7]).write_bytes(b"")
    check(photos, ROWS)
    with pytest.raises(IndexError):
        photos.locate(np.array([-1]), nothing)


def test_names_that_no_file_has(folder: Path) -> None:
    names = ["a\0b.jpg", "\ud800.jpg", *sorted(map(str, folder.rglob("*.jpg"))), "nowhere.jpg"]
    photos = ListDataset(names)
    assert check(photos, [0, 1, 2, 3, 14]) == [False, False, True, True, True]
    assert check(ListDataset(["x\0y/a.jpg", "x\0y/b.jpg"]), [1, 0, 1]) == [False] * 3


def test_mixtures_of_files_and_shards(folder: Path, tmp_path: Path) -> None:
    """Names and descriptors in one batch; with a dataset that locates nothing there is nothing."""

    class Own:
        class_names, fingerprint = (), "own"

        def __len__(self) -> int:
            return 2

        def fetch(self, indices: object) -> list[Sample | BadSample]:
            raise AssertionError(indices)

    shard = tar(tmp_path / "a.tar", 8, SHARD)
    photos, shards = FolderDataset(folder), TarDataset([shard])
    both = mix([photos, shards.take([7, 0]), photos.take(3)], names=["x", "y", "z"])
    assert all(check(both, [12, 13]))
    shard.rename(tmp_path / "b.tar")
    tar(tmp_path / "a.tar", 8, {"jpg": b""})
    assert check(both, [13, 0, 8, 12, 16, 13]) == [True, True, False, True, True, True]
    own = mix([photos, Own()])
    assert own.locate(np.array([0]), nothing) is not None
    assert own.locate(np.array([0, 13]), nothing) is None


def test_samples_of_mixtures_hold_no_file_open(tmp_path: Path) -> None:
    """Steps keep what makes their samples for long: it must not keep all of their shards open."""

    class Held:
        pass

    part = TarDataset([tar(tmp_path / "a.tar", 2, {"jpg": b""})]).locate(np.arange(2), nothing)
    assert part is not None
    held = Held()
    located = merge([replace(part, held=held)], [np.arange(2)])
    make_sample, still_held = located.make_sample, weakref.ref(held)
    del located, held
    assert still_held() is None
    assert make_sample(1, image(1)).key == "a.tar/n/01"


def test_table(folder: Path) -> None:
    for number, path in enumerate(sorted(folder.glob("a/*.jpg"))):
        path.rename(folder / "a" / f"{number}.jpg")
    rows = [f"a/{number}.jpg,{'xy'[number % 2]},hello {number}" for number in range(6)]
    table = folder / "table.csv"
    table.write_text("\n".join(["path,label,caption", *rows]))
    photos = PathTableDataset(table)
    assert all(check(photos, [5, 0, 0, 3]))
    assert photos.locate(np.array([0]), lambda name: name == "caption") is None
    assert all(check(photos, [1], lambda name: name == "other"))
    vectors = PathTableDataset(table, multi_label=True)
    assert vectors.locate(np.array([0]), nothing) is None


def test_who_replaces_reading_is_fetched(folder: Path) -> None:
    class Doubled(FolderDataset):
        def fetch(self, indices: object) -> list[object]:  # type: ignore[override]
            return [one for one in super().fetch(indices) for _ in range(2)]  # type: ignore[arg-type]

    class Mixin:
        def fetch(self, indices: object) -> list[object]:
            raise AssertionError(indices)

    class Mixed(Mixin, FolderDataset):  # type: ignore[misc]
        """Reads as the mixin does."""

    class Around:
        """Passes on what it does not have."""

        def __init__(self, inner: FolderDataset) -> None:
            self.inner = inner

        def __len__(self) -> int:
            return len(self.inner)

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    class Other(FolderDataset):
        """Replaces nothing that is read."""

    assert Doubled(folder).locate(np.array([0]), nothing) is None
    assert Mixed(folder).locate(np.array([0]), nothing) is None
    around: Any = Around(FolderDataset(folder))
    assert mix([around, around]).locate(np.array([0]), nothing) is None
    assert Other(folder).locate(np.array([0]), nothing) is not None


@pytest.mark.parametrize("format_name", all_writers())
def test_every_format_and_selection(
    format_name: str, jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    """Formats that locate images do so through all selections, and the others through none."""
    samples = [
        Written(f"photo-{number:03d}", jpeg(20, 30 + number, seed=number), number % 3)
        for number in range(12)
    ]
    writer = writer_of(format_name)
    source = getattr(writer, "write_plain", writer.write)(tmp_path, samples)
    dataset = open_dataset(source, **getattr(writer, "OPTIONS", {}))
    for selection, select in SELECTIONS.items():
        data = select(dataset)
        locate = getattr(data, "locate", lambda *_: None)
        is_located = locate(np.arange(3), nothing) is not None
        assert is_located == (format_name in LOCATED), selection
        if is_located:
            assert all(check(data, [*range(len(data))[::-3], 4, 4, 0])), selection
            assert check(data, []) == []


def test_shards(tmp_path: Path) -> None:
    """What lies beside an image, what is no image or a bad sample, and an environment of pixels."""
    plain = tar(tmp_path / "a.tar", 3, SHARD)
    others = tar(tmp_path / "b.tar", 3, {"cls": b"#", "json": b"{}", "left.jpg": b"", "b.png": b""})
    video = tar(tmp_path / "c.tar", 2, {"mp4": b"", "cls": b"#"})
    bad = tar(tmp_path / "d.tar", 1, {"jpg": b"", "cls": b"99999999999999999999"})
    shards = TarDataset([plain, others, video, bad])
    assert shards.members >= {"json", "mp4"}
    assert check(shards, [7, 0, 4, 8, 1, 0]) == [False, True, True, False, True, True]
    read = check(shards, [7, 0, 4, 3, 1, 0], "json".__eq__)
    assert read == [False, True, False, False, True, True]
    assert check(shards, [5, 6, 2], "b.png".__eq__) == [False, False, True]
    assert not any(check(shards, [0, 5], "cls".__eq__))
    with pytest.raises(IndexError):
        shards.locate(np.array([9]), nothing)


def test_restart_intervals(jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    marked = [jpeg(40, 60, restart_marker_blocks=number) for number in (0, 1, 2)]
    for name, images in (("a", marked), ("b", marked[:1])):
        samples = {str(number): {"jpg": image} for number, image in enumerate(images)}
        write_samples(tmp_path / f"{name}.tar", samples)
    shards = TarDataset([tmp_path / "a.tar", tmp_path / "b.tar"])
    assert all(check(shards, [3, 2, 0, 1, 2]))
    assert shards.locate(np.array([3]), nothing).restarts is None  # type: ignore[union-attr]
    assert all(check(mix([shards.take([0]), shards]), [0, 3, 4, 1]))


def test_records_and_pixels(tmp_path: Path) -> None:
    """Records without features of numbers; such features, and pixels without a file, are read one by one."""
    tfrecord = pytest.importorskip("tfrecord.writer")
    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    for number in range(3):
        feature = {"image": (image(number), "byte"), "label": (number, "int")}
        writer.write({**feature, "text": (b"hello", "byte")})
    writer.close()
    whole = open_dataset(tmp_path / "a.tfrecord")
    assert whole.locate(np.array([0]), nothing) is None
    stored = TfRecordDataset([tmp_path / "a.tfrecord"], columns=["image", "text"], label="label")
    assert all(check(stored, [2, 0, 1]))
    assert not any(check(stored, [2, 0, 1], "text".__eq__))


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


# Each gets the shard and its index.
CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "cut": lambda shard, _: halve(shard),
    "empty": lambda shard, _: os.truncate(shard, 0),
    "replaced": lambda shard, _: tar(shard.with_name("new.tar"), 9, SHARD).replace(shard),
    "removed": lambda shard, _: shard.unlink(),
    "index cut": lambda _, index: halve(index),
    "index damaged": lambda _, index: overwrite(index, index.stat().st_size - 300, bytes(300)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_read", [False, True], ids=["unread", "read before"])
def test_changed_shards(tmp_path: Path, change: str, is_read: bool) -> None:
    """What is located is what `fetch` returns, whatever happened to the shard since it was opened."""
    paths = [tar(tmp_path / f"{name}.tar", 8, SHARD) for name in "ab"]
    shards = TarDataset(paths)
    if is_read:
        assert all(check(shards, [*range(16)]))
    CHANGES[change](paths[0], shards._found[0].path)
    located = check(shards, [9, 0, 7, 3, 15, 3])
    assert (located[0], located[4]) == (True, True)
    assert all(check(shards, [9, 15]))


def test_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are held leave the process enough for its other files."""
    shards = TarDataset([tar(tmp_path / f"{n}.tar", 2, {"jpg": b""}) for n in range(3)])
    held = shards.locate(np.array([0]), nothing)
    monkeypatch.setattr(mapped, "_most_descriptors", lambda: len(mapped._open_numbers) // 2)
    assert check(shards, [3, 0, 5, 1]) == [False, True, False, True]
    assert held is not None


def test_a_forked_process_locates(folder: Path, tmp_path: Path) -> None:
    """Descriptors of before the fork, and those of the child."""
    shards = TarDataset([tar(tmp_path / f"{n}.tar", 4, SHARD) for n in range(3)])
    before = shards.locate(np.array([5, 0]), nothing)
    assert before is not None
    child = os.fork()
    if not child:
        status = 1
        try:
            shards.locate(np.array([9]), nothing)
            good = [read(before, row) == image(number) for row, number in enumerate((1, 0))]
            status = not all([*good, *check(shards, [9, 5, 0]), *check(FolderDataset(folder), [0])])
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    assert all(check(shards, [11, 5, 0]))


@pytest.mark.parametrize("field", ["starts", "lengths", "labels", "sizes", "files"])
def test_the_comparison_sees_what_is_wrong(tmp_path: Path, field: str) -> None:
    class Wrong(TarDataset):
        def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
            found = super().locate(indices, reads)
            assert found is not None
            return replace(found, **{field: getattr(found, field)[::-1] - 1})

    shard = tar(tmp_path / "a.tar", 3, SHARD)
    with pytest.raises(AssertionError):
        check(Wrong([shard]), [0, 2])
