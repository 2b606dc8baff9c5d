"""Samples at known places of shard files, whatever their format."""

import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, Sample, SourceError
from readers.storage.blob import Content, LocalBlob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.mmap_pages import PagePrefetcher, address_of, map_file
from readers.storage.index import Entry, Scan
from readers.storage.shards import ShardDataset


def scan(content: Content, name: str) -> Iterator[Entry]:
    """A sample per 10 bytes; the first of them is its label, and a label of 9 cannot be read."""
    if len(content) % 10:
        raise SourceError(f"{name} is cut off: write it again")
    for number, start in enumerate(range(0, len(content), 10)):
        label = content[start : start + 1][0]
        if label == 9:
            yield Entry(str(number), (), fault="nine")
        else:
            members = (("head", start, start + 4), ("img", start + 4, start + 10))
            yield Entry(str(number), members, label, (label + 1, 2), image_field="img")


class Tens(ShardDataset):
    """Shards that are read by the scan of these tests."""

    def __init__(self, shards: Any) -> None:
        super().__init__(shards, Scan("tens", 1, scan))


class Decoded(Tens):
    """A dataset that makes more of what is stored, or refuses it."""

    @staticmethod
    def _decode(fields: dict[str, Any], size: Any) -> dict[str, Any]:
        assert size
        if bytes(fields["img"])[0] == 17:
            raise ValueError("seventeen")
        return {"double": bytes(fields["img"]) * 2}


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Shards of 5, 1 and 7 samples whose bytes are all different within a shard."""
    paths = []
    for name, labels in (("a", [0, 1, 2, 9, 4]), ("b", [3]), ("c", range(7))):
        data = b"".join(
            bytes([label, *range(10 * number + 1, 10 * number + 10)])
            for number, label in enumerate(labels)
        )
        paths.append(tmp_path / f"{name}.bin")
        paths[-1].write_bytes(data)
    return paths


def test_samples_come_in_the_order_that_was_asked_for(shards: list[Path]) -> None:
    """Over several shards, with repetitions, and with a sample that cannot be read among them."""
    dataset = Tens(shards)
    data = b"".join(path.read_bytes() for path in shards)
    indices = [12, 0, 5, 3, 12, 4, 6, 0]
    found = dataset.fetch(indices)

    assert [entry.index for entry in found] == indices
    assert found[3] == BadSample(3, "a.bin/3", "read", "nine")
    for index, sample in zip(indices, found, strict=True):
        if index != 3:
            assert sample.image == data[10 * index + 4 : 10 * index + 10]
            assert sample.fields["head"] == data[10 * index : 10 * index + 4]
            assert (sample.label, sample.size) == (data[10 * index], (data[10 * index] + 1, 2))
    assert found[2].key == "b.bin/0"
    assert dataset.fetch([]) == []


def test_threads_do_not_disturb_each_other(shards: list[Path]) -> None:
    """Many batches at once give what one gives."""
    dataset = Tens(shards)
    indices = np.random.default_rng(0).integers(0, 13, 100)
    expected = Tens(shards).fetch(indices)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(dataset.fetch, [indices] * 50):
            assert found == expected


def test_columns_are_those_of_the_samples(shards: list[Path]) -> None:
    """Labels, sizes and bytes, without a fetch; of a bad sample nothing is known."""
    dataset = Tens(shards)
    labels = [0, 1, 2, -1, 4, 3, *range(7)]

    assert dataset.column("label").tolist() == labels
    assert dataset.column("height").tolist() == [label + 1 for label in labels]
    assert dataset.column("width").tolist() == [0 if label < 0 else 2 for label in labels]
    assert dataset.column("num_bytes").tolist() == [-1 if label < 0 else 10 for label in labels]
    assert dataset.column("label").dtype == np.int64


@pytest.mark.parametrize("change", ["fewer samples", "other bytes", "same size and time"])
def test_what_is_unpickled_is_what_was_pickled(shards: list[Path], change: str) -> None:
    """A shard that is another one by then gives BadSamples there as here; the others are read."""
    expected = Tens(shards).fetch(range(13))
    dataset = Tens(shards)
    pickled = pickle.dumps(dataset)
    data = bytearray(shards[0].read_bytes())
    data[19] ^= 1  # neither key nor size nor label
    new = shards[0].with_name("new")
    new.write_bytes(data[:30] if change == "fewer samples" else data)
    if change == "same size and time":
        status = shards[0].stat()
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.replace(shards[0])
    Tens(shards)  # its index is of the new one
    there = pickle.loads(pickled)
    again = pickle.loads(pickle.dumps(there))

    for one in (dataset, there, again):
        found = one.fetch(range(13))
        assert (len(one), found[5:]) == (13, expected[5:])
        assert all(isinstance(entry, BadSample) for entry in found[:5])
        assert "open it again" in found[0].reason
    assert len(Tens(shards)) == (11 if change == "fewer samples" else 13)
    assert there.fingerprint == again.fingerprint == dataset.fingerprint


def test_other_rights_are_no_other_content(shards: list[Path]) -> None:
    """While a dataset is open a shard may get other rights and another name beside its own."""
    expected = Tens(shards).fetch(range(13))
    dataset = Tens(shards)
    time.sleep(0.02)
    shards[0].chmod(0o600)
    os.link(shards[1], shards[1].with_name("link"))

    assert dataset.fetch(range(13)) == expected


def test_a_block_is_about_eight_megabytes(tmp_path: Path) -> None:
    """As many samples as that holds, and no more than there are."""
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(20_000_000))

    def few(content: Content, name: str) -> Iterator[Entry]:  # noqa: ARG001
        for number in range(200):
            yield Entry(str(number), (("jpg", number * 100_000, (number + 1) * 100_000),))

    assert ShardDataset([path], Scan("few", 1, few)).block_size == 80
    path.write_bytes(bytes(2_000_000))
    assert ShardDataset([path], Scan("few", 1, few)).block_size == 200


def test_subclasses_decode_further(shards: list[Path]) -> None:
    """What `_decode` returns are the fields, and what it raises is the reason."""
    found = Decoded(shards).fetch([1, 0])

    assert found[0] == Sample(
        1, "a.bin/1", {"double": shards[0].read_bytes()[14:20] * 2}, 1, (2, 2), None, "img"
    )
    shards[0].write_bytes(bytes([0, 1, 1, 1, 17, 1, 1, 1, 1, 1]))
    assert Decoded(shards[:1]).fetch([0]) == [BadSample(0, "a.bin/0", "read", "seventeen")]


def test_no_shards_are_refused() -> None:
    """An empty list is no dataset."""
    with pytest.raises(SourceError, match="list of shards is empty"):
        Tens([])


def test_a_map_goes_with_its_last_view(tmp_path: Path) -> None:
    """Views outlive the file; empty files have an empty map."""
    path = tmp_path / "a"
    path.write_bytes(b"content")
    view = map_file(path)[3:]
    path.unlink()

    assert bytes(view) == b"tent"
    assert view.readonly
    path.touch()
    assert bytes(map_file(path)) == b""


def test_a_blob_notices_that_it_has_changed(tmp_path: Path) -> None:
    """Bytes of another state of the file are not given."""
    path = tmp_path / "a"
    path.write_bytes(b"content")
    blob = LocalBlob(path)
    path.write_bytes(b"another")

    with pytest.raises(OSError, match="has changed since it was indexed"):
        blob.read([(0, 2)])


def test_of_a_file_of_the_same_time_the_content_decides(tmp_path: Path) -> None:
    """A file of the size and time of the first one took its place: a copy is read, other bytes are not given."""
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"content")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    for content in (b"content", b"another"):
        blob = LocalBlob(path)
        blob.pin = pin_content(blob.unmapped())
        other.write_bytes(content)
        os.utime(other, ns=times)
        other.replace(path)
        if content == b"content":
            assert bytes(blob.content()) == b"content"
        else:
            with pytest.raises(OSError, match="has changed since it was indexed"):
                blob.content()


def test_missing_pages_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a probe misses a page the whole batch is asked for, neighbours in one piece; else nothing is."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "readers.storage.blob.mmap_pages.advise", lambda extent, _: asked.append(extent)
    )
    path = tmp_path / "a"
    path.write_bytes(bytes(1 << 20))
    view = map_file(path)
    start = address_of(view)
    extents = [
        (start, start + 100),
        (start + 5000, start + 9000),
        (start + 900_000, start + 900_001),
    ]
    foresight = PagePrefetcher()
    bytes(view)
    foresight.look(lambda _: start, lambda: extents)
    before = list(asked)
    monkeypatch.setattr("readers.storage.blob.mmap_pages.is_resident", lambda _: False)
    foresight.look(lambda _: start, lambda: extents)

    assert before == []
    assert asked == [(start, start + 9000), (start + 900_000, start + 900_001)]
