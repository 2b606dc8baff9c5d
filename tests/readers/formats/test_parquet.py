"""Parquet: columns and their types, pages, row groups, folders, and what is refused."""

import os
import pickle
import signal
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, Sample, SourceError, open_dataset

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from readers.formats.parquet.dataset import ParquetDataset, _open_all  # noqa: E402
from readers.formats.parquet.files import find_files  # noqa: E402
from readers.formats.parquet.groups import RowGroups  # noqa: E402
from readers.formats.parquet.snappy import BLOCK_BYTES, block_starts, decompress_blocks  # noqa: E402


@pytest.fixture(scope="module")
def images(photos: list[Path]) -> list[bytes]:
    """Real photographs, cut to a length of their own so that no two are alike."""
    contents = [path.read_bytes() for path in photos]
    return [contents[k % 12][: 12_000 + 37 * k] for k in range(60)]


def write(path: Path, images: list[Any], *, kind: Any = None, **options: Any) -> Path:
    labels = [k % 7 for k in range(len(images))]
    table = pa.table({"image": pa.array(images, kind or pa.binary()), "label": labels})
    pq.write_table(table, path, **options)
    return path


def payloads(dataset: ParquetDataset, indices: Any = None) -> list[bytes | None]:
    entries = dataset.fetch(range(len(dataset)) if indices is None else indices)
    return [bytes(each.image) if isinstance(each, Sample) else None for each in entries]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_every_codec_page_version_and_encoding(
    tmp_path: Path, images: list[bytes], compression: str, version: str, dictionary: bool
) -> None:
    """With nulls and repeated values, in small pages and in one, the bytes are pyarrow's."""
    rows = [*images, None, *images[:20], None]
    for page_bytes in (1, 30_000, 1 << 25):
        path = write(
            tmp_path / "a.parquet",
            rows,
            compression=compression,
            data_page_version=version,
            use_dictionary=dictionary,
            data_page_size=page_bytes,
            write_batch_size=3,
            row_group_size=50,
        )
        read_back = pq.read_table(path)["image"].to_pylist()
        order = np.random.default_rng(0).integers(0, len(rows), 100)

        assert read_back == rows
        assert payloads(ParquetDataset(path)) == rows
        assert payloads(ParquetDataset(path), order) == [rows[k] for k in order]


@pytest.mark.parametrize("name", ["large_binary", "binary_view", "dictionary", "fixed"])
def test_every_binary_type(tmp_path: Path, images: list[bytes], name: str) -> None:
    """However bytes are typed, they are those that were written."""
    rows = [image[:5000] for image in images[:20]]
    kinds = {
        "large_binary": pa.large_binary(),
        "binary_view": pa.binary_view(),
        "dictionary": pa.dictionary(pa.int32(), pa.binary()),
        "fixed": pa.binary(5000),
    }
    path = write(tmp_path / "a.parquet", rows, kind=kinds[name])

    assert payloads(ParquetDataset(path)) == rows


@pytest.mark.usefixtures("every_payload_is_long")
def test_hugging_face_struct_and_class_names(tmp_path: Path, images: list[bytes]) -> None:
    """Files of Hugging Face's datasets give its bytes, its labels and its names of the classes."""
    hf = pytest.importorskip("datasets")
    hf.disable_progress_bars()
    names = ["cat", "dog", "owl"]
    features = hf.Features({"image": hf.Image(decode=False), "label": hf.ClassLabel(names=names)})
    rows = {
        "image": [{"bytes": image, "path": f"{k}.png"} for k, image in enumerate(images)],
        "label": [k % 3 for k in range(len(images))],
    }
    written = hf.Dataset.from_dict(rows, features=features)
    written.to_parquet(tmp_path / "a.parquet")
    read_back = hf.Dataset.from_parquet(str(tmp_path / "a.parquet"), cache_dir=str(tmp_path / "c"))
    read_back = read_back.cast_column("image", hf.Image(decode=False))
    dataset = ParquetDataset(tmp_path / "a.parquet")

    assert payloads(dataset) == [row["image"]["bytes"] for row in read_back] == images
    assert dataset.column("label").tolist() == read_back["label"][:]
    assert dataset.class_names == ("cat", "dog", "owl")
    assert isinstance(dataset.fetch([3])[0].fields["image"], memoryview)  # type: ignore[union-attr]


def test_path_without_bytes_is_a_bad_sample(tmp_path: Path, images: list[bytes]) -> None:
    """A path in a struct is never opened, wherever it leads."""
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(images[0])
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [
        {"bytes": images[0], "path": "a.jpg"},
        {"bytes": None, "path": str(secret)},
        {"bytes": None, "path": "../../etc/passwd"},
        None,
    ]
    entries = ParquetDataset(write(tmp_path / "a.parquet", rows, kind=kind)).fetch(range(4))

    assert isinstance(entries[0], Sample)
    assert all(isinstance(entry, BadSample) for entry in entries[1:])
    assert all("it is null or only a path" in getattr(entry, "reason", "") for entry in entries[1:])


def test_other_columns_become_fields(tmp_path: Path, images: list[bytes]) -> None:
    """Text is UTF-8, numbers and nested values are JSON, times are ISO 8601, nothing is left out but null."""
    table = pa.table(
        {
            "image": pa.array(images[:2], pa.binary()),
            "label": pa.array(["5", None]),
            "caption": ["a “cat”", None],
            "score": [0.5, None],
            "boxes": pa.array([[[1, 2], [3, 4]], []]),
            "more": pa.array([{"a": 1, "raw": b"\xff\x00"}, None]),
            "taken": pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns")),
            "kind": pa.array(["x", "y"]).dictionary_encode(),
            "mask.png": pa.array([b"png", b"\0" * 5000]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    first, second = ParquetDataset(tmp_path / "a.parquet").fetch([0, 1])

    assert isinstance(first, Sample)
    assert isinstance(second, Sample)
    assert (first.label, second.label) == (5, -1)
    assert {name: bytes(each) for name, each in first.fields.items()} == {
        "image": images[0],
        "label": b"5",
        "caption": "a “cat”".encode(),
        "score": b"0.5",
        "boxes": b"[[1,2],[3,4]]",
        "more": b'{"a":1,"raw":"/wA="}',
        "taken": b"2023-11-14 22:13:20.123456789",
        "kind": b"x",
        "mask.png": b"png",
    }
    assert list(second.fields) == ["image", "boxes", "kind", "mask.png"]


def test_columns_that_are_asked_for(tmp_path: Path, images: list[bytes]) -> None:
    """Roles go to the columns that are named, and only those that are wanted become fields."""
    table = pa.table(
        {
            "image": pa.array(images[:3]),
            "thumb": pa.array(images[3:6]),
            "y": [1, 2, 3],
            "n": list("abc"),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    options: dict[str, Any] = {"image": "thumb", "label": "y", "key": "n"}
    dataset = open_dataset(tmp_path / "a.parquet", columns=["thumb"], **options)
    [entry] = dataset.fetch([1])

    assert isinstance(entry, Sample)
    assert (entry.key, entry.label, list(entry.fields)) == ("a.parquet/b", 2, ["thumb"])
    assert bytes(entry.image or b"") == images[4]
    assert dataset.fingerprint != open_dataset(tmp_path / "a.parquet", **options).fingerprint


def test_partitioned_folders(tmp_path: Path, images: list[bytes]) -> None:
    """Folders such as label=3 are a column; hidden files are none of the dataset."""
    table = pa.table({"image": pa.array(images[:6]), "label": [3, 3, 10, 10, 10, 3]})
    pq.write_to_dataset(table, tmp_path / "set", partition_cols=["label"])
    (tmp_path / "set" / "_metadata").write_bytes(b"")
    dataset = ParquetDataset(tmp_path / "set")
    entries = dataset.fetch(range(6))

    assert dataset.column("label").tolist() == [10, 10, 10, 3, 3, 3]
    assert [entry.label for entry in entries if isinstance(entry, Sample)] == [10] * 3 + [3] * 3
    assert entries[0].key.startswith("label=10/")
    assert entries[0].fields["label"] == b"10"  # type: ignore[union-attr]
    assert open_dataset(tmp_path / "set").column("label").tolist() == [10, 10, 10, 3, 3, 3]


def test_splits_of_one_folder_are_not_mixed(tmp_path: Path, images: list[bytes]) -> None:
    """A folder with train and test files says so."""
    for split in ("train", "test"):
        write(tmp_path / f"{split}-00000-of-00001.parquet", images[:3])

    with pytest.raises(
        SourceError,
        match=r"holds the splits train, test, .*split='train'.* or /.*train-00000-of-00001.parquet",
    ):
        ParquetDataset(tmp_path)


@pytest.mark.parametrize("count", [3, 20])
def test_files_share_a_schema(tmp_path: Path, images: list[bytes], count: int) -> None:
    """That of thousands of files stays in memory once, another one beside it; the order is that of the names."""
    for number in range(count):
        write(tmp_path / f"{number:02d}.parquet", images[number : number + 1])
    pq.write_table(pa.table({"image": images[:1], "more": [1]}), tmp_path / "99.parquet")
    files = _open_all(find_files(tmp_path))

    assert len({id(file.schema) for file in files}) == 2
    assert [file.blob.name for file in files] == sorted(path.name for path in tmp_path.iterdir())


def test_bad_labels_are_bad_samples(tmp_path: Path, images: list[bytes]) -> None:
    """A label that is no whole number spoils its sample alone."""
    table = pa.table({"image": pa.array(images[:3]), "label": [1.0, 2.5, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    dataset = ParquetDataset(tmp_path / "a.parquet")
    first, second, third = dataset.fetch(range(3))

    assert isinstance(first, Sample)
    assert first.label == 1
    assert isinstance(second, BadSample)
    assert "2.5 is not a whole number" in second.reason
    assert isinstance(third, Sample)
    with pytest.raises(SourceError, match=r"a.parquet/1 .* 2.5 is not .* 1 of 3 samples"):
        dataset.where("label == 1")
    assert dataset.take([0, 2]).column("label").tolist() == [1, -1]


def _damaged(path: Path, group: int, column: int, fraction: float = 0.5, count: int = 40) -> Path:
    told = pq.read_metadata(path).row_group(group).column(column)
    start = told.dictionary_page_offset or told.data_page_offset
    content = bytearray(path.read_bytes())
    place = start + int(told.total_compressed_size * fraction)
    content[place : place + count] = os.urandom(count)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("column", [0, 1])
def test_a_damaged_row_group_leaves_the_others(
    tmp_path: Path, images: list[bytes], column: int
) -> None:
    """Samples of other row groups stay as they are, and none is silently wrong."""
    path = write(
        tmp_path / "a.parquet",
        images,
        row_group_size=20,
        compression="zstd",
        write_page_checksum=True,
    )
    entries = ParquetDataset(_damaged(path, 1, column)).fetch(range(60))
    bad = [entry.index for entry in entries if isinstance(entry, BadSample)]

    assert bad
    assert set(bad) <= set(range(20, 40))
    for index, entry in enumerate(entries):
        assert isinstance(entry, BadSample) or bytes(entry.image or b"") == images[index]


def test_random_damage_never_escapes(tmp_path: Path, images: list[bytes]) -> None:
    """Whatever bytes the pages hold, each sample is there or is a BadSample, and the footer is judged."""
    rng = np.random.default_rng(5)
    for compression in ("none", "snappy", "zstd"):
        path = write(
            tmp_path / "a.parquet",
            images,
            row_group_size=30,
            compression=compression,
            data_page_size=50_000,
        )
        sound = path.read_bytes()
        for _ in range(40):
            content = bytearray(sound)
            for place in rng.integers(4, len(content) - 8, 20):
                content[place : place + 4] = rng.bytes(4)
            heads = [content.find(b"\x15"), *rng.integers(4, 60, 3)]
            for place in heads[: rng.integers(0, 4)]:
                content[place] = rng.integers(256)
            path.write_bytes(content)
            try:
                dataset = ParquetDataset(path)
            except SourceError:
                continue
            entries = dataset.fetch(range(len(dataset)))
            assert all(isinstance(entry, Sample | BadSample) for entry in entries)


def test_memory_stays_bounded(tmp_path: Path, images: list[bytes]) -> None:
    """What is kept does not exceed its bound, and payloads do not hold the pages they were in."""
    path = write(
        tmp_path / "a.parquet",
        images * 5,
        compression="zstd",
        data_page_size=50_000,
        use_dictionary=False,
        write_batch_size=4,
    )
    dataset = ParquetDataset(path, decoded_bytes=200_000)
    groups: RowGroups = dataset._live.groups
    for seed in range(5):
        dataset.fetch(np.random.default_rng(seed).integers(0, 300, 50))

    assert 0 < groups._pages.held_bytes <= 200_000
    assert all(isinstance(entry.image, bytes) for entry in dataset.fetch(range(5)))  # type: ignore[union-attr]


def test_a_page_is_decompressed_once_for_a_batch(
    tmp_path: Path, images: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when nothing can be kept."""
    import readers.formats.parquet.groups as groups

    decompressed = []
    real = groups.decompress
    monkeypatch.setattr(
        groups, "decompress", lambda *given: decompressed.append(given[0]) or real(*given)
    )
    path = write(tmp_path / "a.parquet", images, compression="zstd", use_dictionary=False)
    dataset = ParquetDataset(path, decoded_bytes=1)
    dataset.fetch(np.random.default_rng(0).permutation(60))

    assert decompressed == ["ZSTD"]


@pytest.mark.parametrize("content", ["noise", "photographs", "repeats", "zeros"])
def test_blocks_of_snappy(images: list[bytes], content: str) -> None:
    """Any stretch of a text is had from the 64 KiB blocks around it, unless it is too well compressed."""
    rng = np.random.default_rng(0)
    text = {
        "noise": rng.bytes(400_000),
        "photographs": b"".join(images),
        "repeats": b"".join(rng.bytes(2_000) * 3 for _ in range(70)),
        "zeros": bytes(1 << 20),
    }[content]
    codec = pa.Codec("snappy")
    compressed = codec.compress(text, asbytes=True)
    starts = block_starts(compressed)

    assert (starts is None) == (content == "zeros")
    if starts is None:
        return
    assert len(starts) == -(-len(text) // BLOCK_BYTES) + 1
    for first in range(len(starts) - 1):
        stop = min(first + 2, len(starts) - 1)
        expected = text[first * BLOCK_BYTES : stop * BLOCK_BYTES]
        blocks = compressed[starts[first] : starts[stop]]
        assert bytes(decompress_blocks(blocks, len(expected), codec.decompress)) == expected
    with pytest.raises(IndexError):
        block_starts(compressed[:-10])


def test_every_kind_of_reference_of_snappy() -> None:
    """Also those that Google's own writer does not use, and those that lead out of their block."""
    literal = bytes([(10 - 1) << 2]) + b"0123456789"
    copies = {
        1: bytes([(10 - 4) << 2 | 1, 10]),
        2: bytes([(10 - 1) << 2 | 2, 10, 0]),
        4: bytes([(10 - 1) << 2 | 3, 10, 0, 0, 0]),
    }
    for copy in copies.values():
        compressed = bytes([20]) + literal + copy
        assert pa.Codec("snappy").decompress(compressed, 20).to_pybytes() == b"0123456789" * 2
        starts = block_starts(compressed)
        assert starts is not None
        assert starts.tolist() == [1, len(compressed)]
    whole_block = bytes([61 << 2]) + (BLOCK_BYTES - 1).to_bytes(2, "little") + bytes(BLOCK_BYTES)
    head = bytes([0x80 | (BLOCK_BYTES + 10) & 127, 0x80 | (BLOCK_BYTES + 10) >> 7 & 127, 4])
    assert block_starts(head + whole_block + copies[2]) is None


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_remote(
    tmp_path: Path, images: list[bytes], monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    """Over HTTP it is the same dataset, and a known row group is read in parts where its codec lets it."""
    pytest.importorskip("obstore")
    from tests.support.remote_data import set_up
    from tests.support.s3_server import storage

    set_up(monkeypatch, tmp_path)
    (tmp_path / "bucket").mkdir()
    path = write(
        tmp_path / "bucket" / "a.parquet",
        images,
        compression=compression,
        row_group_size=30,
        use_dictionary=False,
        data_page_size=1 << 25,
    )
    with storage(tmp_path) as server:
        from readers.storage.remote import StorageOptions, Url

        url = Url("s3://bucket/a.parquet", StorageOptions(endpoint=server.url, cache_bytes=0))
        dataset, local = ParquetDataset([url], decoded_bytes=100_000), ParquetDataset(path)
        everything = dataset.fetch(range(60))

        assert everything == local.fetch(range(60))
        assert dataset.fingerprint == local.fingerprint
        assert dataset.column("label").tolist() == local.column("label").tolist()
        assert payloads(pickle.loads(pickle.dumps(dataset)), [7]) == [images[7]]
        server.count()
        dataset.fetch([31])
        num_bytes = server.count()["bytes"]
        assert compression == "zstd" or num_bytes < 200_000 < path.stat().st_size / 3


def test_small_columns_from_afar_are_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns side by side, looked at before pyarrow decodes them, are one request without a cache."""
    pytest.importorskip("obstore")
    from tests.support.remote_data import set_up
    from tests.support.s3_server import storage

    set_up(monkeypatch, tmp_path)
    (tmp_path / "bucket").mkdir()
    path, rng = tmp_path / "bucket" / "a.parquet", np.random.default_rng(0)
    table = pa.table({"image": [rng.bytes(900) for _ in range(400)], "label": rng.permutation(400)})
    pq.write_table(table, path, row_group_size=200)
    with storage(tmp_path) as server:
        from readers.storage.remote import StorageOptions, Url

        url = Url("s3://bucket/a.parquet", StorageOptions(endpoint=server.url, cache_bytes=0))
        dataset = ParquetDataset([url])
        dataset.fetch([0])
        server.count()
        sample = dataset.fetch([399])[0]
        counted = server.count()
    assert sample == ParquetDataset(path).fetch([399])[0]
    assert counted["requests"] == 1
    assert counted["bytes"] < path.stat().st_size * 0.6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_and_pickle(tmp_path: Path, images: list[bytes]) -> None:
    """A forked child, and a copy made from a pickle, read for themselves."""
    dataset = ParquetDataset(write(tmp_path / "a.parquet", images, row_group_size=10))
    expected = payloads(dataset)
    with dataset._live.groups._pages._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # else a lock that is never released holds the test
            os._exit(0 if payloads(dataset) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert payloads(pickle.loads(pickle.dumps(dataset))) == expected


@pytest.mark.usefixtures("every_payload_is_long")
def test_views_outlive_dataset_and_file(tmp_path: Path, images: list[bytes]) -> None:
    """A long payload reads from the map of the file even when it has been deleted."""
    path = write(tmp_path / "a.parquet", images, compression="none", use_dictionary=False)
    kept = ParquetDataset(path).fetch(range(60))
    path.unlink()

    assert all(isinstance(entry, Sample) and isinstance(entry.image, memoryview) for entry in kept)
    assert [bytes(entry.image) for entry in kept] == images  # type: ignore[union-attr, arg-type]


def test_a_replaced_file_gives_bad_samples(tmp_path: Path, images: list[bytes]) -> None:
    """Another file in the place of the one that was opened is not taken for it."""
    dataset = ParquetDataset(write(tmp_path / "a.parquet", images))
    write(tmp_path / "a.parquet", images[::-1][:50])
    entries = dataset.fetch([0, 5])

    assert all(isinstance(entry, BadSample) and "has changed" in entry.reason for entry in entries)


def test_zero_rows(tmp_path: Path, images: list[bytes]) -> None:
    """Files and row groups without rows are passed over; nothing but them is an error."""
    empty = write(tmp_path / "empty.parquet", [])
    dataset = ParquetDataset([empty, write(tmp_path / "a.parquet", images[:2]), empty])

    assert payloads(dataset) == images[:2]
    with pytest.raises(SourceError, match="holds no rows"):
        ParquetDataset(empty)


def _encrypted(path: Path, images: list[bytes], plain_footer: bool) -> Path:
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return key.hex().encode()

        def unwrap_key(self, key: bytes, _: str) -> bytes:
            return bytes.fromhex(key.decode())

    settings = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"image": ["image"]}, plaintext_footer=plain_footer
    )
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(), settings
    )
    return write(path, images, encryption_properties=properties)


def test_encrypted_files(tmp_path: Path, images: list[bytes]) -> None:
    """They are told from damaged ones, whether their footer is encrypted or not."""
    with pytest.raises(SourceError, match=r"a\.parquet is encrypted: write it again without"):
        ParquetDataset(_encrypted(tmp_path / "a.parquet", images[:3], plain_footer=False))
    with pytest.raises(SourceError, match=r"columns of .*b\.parquet are encrypted"):
        ParquetDataset(_encrypted(tmp_path / "b.parquet", images[:3], plain_footer=True))


def _refusals(folder: Path, images: list[bytes]) -> dict[str, tuple[Callable[[], Any], str]]:
    whole = write(folder / "whole.parquet", images[:4])
    (folder / "cut.parquet").write_bytes(whole.read_bytes()[:-100])
    (folder / "foreign.parquet").write_bytes(images[0])
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "short.parquet").write_bytes(b"PAR1")
    (folder / "liar.parquet").write_bytes(b"PAR1" + struct.pack("<I", 1 << 30) + b"PAR1")
    (folder / "noise.parquet").write_bytes(b"PAR1" + b"\x55" * 50 + struct.pack("<I", 50) + b"PAR1")
    (folder / "folder").mkdir()
    pq.write_table(pa.table({"image": ["a.jpg"], "label": [1]}), folder / "text.parquet")
    pq.write_table(pa.table({"image": [7], "label": [1]}), folder / "numbers.parquet")
    pq.write_table(pa.table({"a": [b"x"], "b": [b"y"]}), folder / "which.parquet")
    pq.write_table(pa.table({"image": [b"x"], "boxes": [[1]]}), folder / "lists.parquet")
    pickled = pa.field(
        "x", pa.binary(), metadata={"ARROW:extension:name": "arrow.py_extension_type"}
    )
    pq.write_table(
        pa.table([[b"x"], [b"x"]], schema=pa.schema([("image", pa.binary()), pickled])),
        folder / "pickled.parquet",
    )

    def opened(name: str, **options: Any) -> Callable[[], Any]:
        return lambda: ParquetDataset(folder / name, **options)

    return {
        "cut off": (opened("cut.parquet"), "is cut off: a Parquet file ends in"),
        "foreign": (opened("foreign.parquet"), "is not a Parquet file"),
        "empty": (opened("empty.parquet"), "is empty .0 bytes."),
        "short": (opened("short.parquet"), "cut off"),
        "liar": (opened("liar.parquet"), "its footer would be longer"),
        "noise": (opened("noise.parquet"), "the footer of .* cannot be read"),
        "missing": (opened("missing.parquet"), "is not a file"),
        "folder": (opened("folder"), "holds no .parquet files"),
        "image of text": (
            opened("text.parquet"),
            "'image' .* holds string, not the bytes of images",
        ),
        "image of numbers": (opened("numbers.parquet"), "'image' .* holds int64, not the bytes"),
        "no image": (
            opened("which.parquet"),
            "no column that looks like an image or video: name one of a, b",
        ),
        "wrong image": (opened("whole.parquet", image="photo"), "no column 'photo' for image="),
        "wrong label": (
            opened("lists.parquet", label="boxes"),
            "'boxes' .* holds list<.*class number",
        ),
        "wrong columns": (
            opened("whole.parquet", columns=["size"]),
            "no column 'size' for columns=",
        ),
        "text for columns": (opened("whole.parquet", columns="image"), r"write \['image'\]"),
        "pickled": (opened("pickled.parquet"), "pickled Python object, which is never loaded"),
        "two kinds": (
            lambda: ParquetDataset([folder / "whole.parquet", folder / "which.parquet"]),
            "which.parquet has no column",
        ),
    }


REFUSALS = (
    *("cut off", "foreign", "empty", "short", "liar", "noise", "missing", "folder"),
    *("image of text", "image of numbers", "no image", "wrong image", "wrong label"),
    *("wrong columns", "text for columns", "pickled", "two kinds"),
)


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(tmp_path: Path, images: list[bytes], case: str) -> None:
    """What cannot be opened is told in one sentence that says what to do."""
    attempt, text = _refusals(tmp_path, images)[case]

    with pytest.raises(SourceError, match=text):
        attempt()


def test_pickles_stay_bytes(tmp_path: Path, images: list[bytes]) -> None:
    """A column of pickles is a column of bytes."""
    trap = pickle.dumps(Exception("loaded"))
    pq.write_table(pa.table({"image": [images[0]], "extra": [trap]}), tmp_path / "a.parquet")
    [entry] = ParquetDataset(tmp_path / "a.parquet").fetch([0])

    assert isinstance(entry, Sample)
    assert entry.fields["extra"] == trap


def test_a_footer_damaged_since_it_was_opened(tmp_path: Path, images: list[bytes]) -> None:
    """Its samples are BadSamples: a change that keeps size and time is found when it is read again."""
    path = write(tmp_path / "a.parquet", images[:4])
    dataset = ParquetDataset(path)
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(b"\xff" * 190)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert all(isinstance(entry, BadSample) for entry in dataset.fetch(range(4)))


@pytest.mark.parametrize("number", [-4, 2**62, 5, 10**9])
def test_row_groups_of_no_such_length(tmp_path: Path, images: list[bytes], number: int) -> None:
    """A footer whose row group claims other rows than its columns have is refused in a sentence, at once."""
    path = write(tmp_path / "a.parquet", images[:4])
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    place = footer.rindex(
        b"\x16\x08"
    )  # a field of 64 bits that holds 4: the last are the row group's rows
    footer = footer[: place + 1] + _zigzag(number) + footer[place + 2 :]
    end = len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(content[: -8 - length] + footer + end)
    with pytest.raises(SourceError, match=r"stands where a number must|has a column of 4 values"):
        ParquetDataset(path)


def _zigzag(number: int) -> bytes:
    """A number as Thrift's compact protocol writes it."""
    number, digits = number << 1 ^ number >> 63, bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


@pytest.mark.parametrize("names", [None, 7, "cat", {"a": 1}])
def test_class_names_that_are_no_list(tmp_path: Path, images: list[bytes], names: Any) -> None:
    """What a writer noted of them is passed over."""
    import json

    noted = {"info": {"features": {"label": {"names": names}}}}
    table = pa.table({"image": images[:2], "label": [0, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(noted)})
    pq.write_table(table, tmp_path / "a.parquet")

    assert ParquetDataset(tmp_path / "a.parquet").class_names == ()
