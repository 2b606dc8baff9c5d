"""Parquet: columns and their types, pages, row groups, folders, and what is refused."""

import json
import os
import pickle
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from readers import BadSample, Sample, SourceError, open_dataset

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from readers.formats.parquet import groups  # noqa: E402
from readers.formats.parquet.dataset import ParquetDataset, _open_all  # noqa: E402
from readers.formats.parquet.files import find_files  # noqa: E402
from readers.formats.parquet.snappy import BLOCK_BYTES, block_starts, decompress_blocks  # noqa: E402
from tests.readers.formats.conftest import answer_of_a_fork  # noqa: E402
from tests.support.annotated import put  # noqa: E402
from tests.support.damage import overwrite  # noqa: E402
from tests.support.opening import assert_refused  # noqa: E402


def write(path: Path, images: list[Any], **options: Any) -> Path:
    labels = [k % 7 for k in range(len(images))]
    table = pa.table({"image": pa.array(images, pa.binary()), "label": labels})
    pq.write_table(table, path, **options)
    return path


def payloads(dataset: ParquetDataset, indices: Any = None) -> list[bytes | None]:
    entries = dataset.fetch(range(len(dataset)) if indices is None else indices)
    return [bytes(each.image) if isinstance(each, Sample) else None for each in entries]


def stored(folder: Path, columns: Any, **options: Any) -> ParquetDataset:
    """Write columns, or a table, as a file and open it."""
    table = pa.table(columns) if isinstance(columns, dict) else columns
    pq.write_table(table, folder / "a.parquet")
    return ParquetDataset(folder / "a.parquet", **options)


LONG = pytest.mark.long
# Pages that are not compressed and those of snappy are read without pyarrow; of the other codecs one is enough.
CODECS = [
    "none",
    "snappy",
    "zstd",
    *(pytest.param(one, marks=LONG) for one in ("gzip", "brotli", "lz4")),
]


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_every_codec_page_version_and_encoding(
    tmp_path: Path, images: list[bytes], compression: str, version: str, dictionary: bool
) -> None:
    """With nulls and repeated values, in small pages and in one, the bytes are pyarrow's."""
    values = [image[-4_000:] for image in images[:30]]
    rows = [*values, None, *values[:10], None]
    order = np.random.default_rng(0).integers(0, len(rows), 60)
    for page_bytes in (1, 10_000, 1 << 25):
        path = write(
            tmp_path / "a.parquet",
            rows,
            compression=compression,
            data_page_version=version,
            use_dictionary=dictionary,
            data_page_size=page_bytes,
            write_batch_size=3,
            row_group_size=35,
        )

        assert pq.read_table(path)["image"].to_pylist() == rows == payloads(ParquetDataset(path))
        assert payloads(ParquetDataset(path), order) == [rows[k] for k in order]


BINARY_TYPES = {
    "large_binary": pa.large_binary(),
    "dictionary": pa.dictionary(pa.int32(), pa.binary()),
    "fixed": pa.binary(5000),
}
if int(pa.__version__.partition(".")[0]) > 20:  # which reads this type and cannot write it
    BINARY_TYPES["binary_view"] = pa.binary_view()


@pytest.mark.parametrize("name", BINARY_TYPES)
def test_every_binary_type(tmp_path: Path, images: list[bytes], name: str) -> None:
    """However bytes are typed, they are those that were written."""
    rows = [image[:5000] for image in images[:20]]

    assert payloads(stored(tmp_path, {"image": pa.array(rows, BINARY_TYPES[name])})) == rows


def test_path_without_bytes_is_a_bad_sample(tmp_path: Path, images: list[bytes]) -> None:
    """A path in a struct is never opened, wherever it leads."""
    secret = put(tmp_path, {"secret.jpg": images[0]}) / "secret.jpg"
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [
        {"bytes": images[0], "path": "a.jpg"},
        {"bytes": None, "path": str(secret)},
        {"bytes": None, "path": "../../etc/passwd"},
        None,
    ]
    first, *bad = stored(tmp_path, {"image": pa.array(rows, kind)}).fetch(range(4))

    assert first.image == images[0]
    assert all("it is null or only a path" in entry.reason for entry in bad)


def test_other_columns_become_fields(tmp_path: Path, images: list[bytes]) -> None:
    """Text is UTF-8, numbers and nested values are JSON, times are ISO 8601, nothing is left out but null."""
    columns = {
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
    first, second = stored(tmp_path, columns).fetch([0, 1])

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
    columns = {
        "image": pa.array(images[:3]),
        "thumb": pa.array(images[3:6]),
        "y": [1, 2, 3],
        "n": list("abc"),
    }
    options = {"image": "thumb", "label": "y", "key": "n"}
    all_fields = stored(tmp_path, columns, **options)
    dataset = open_dataset(tmp_path / "a.parquet", columns=["thumb"], **options)
    [entry] = dataset.fetch([1])

    assert (entry.key, entry.label, list(entry.fields)) == ("a.parquet/b", 2, ["thumb"])
    assert bytes(entry.image or b"") == images[4]
    assert dataset.fingerprint != all_fields.fingerprint


def test_partitioned_folders(tmp_path: Path, images: list[bytes]) -> None:
    """Folders such as label=3 are a column; hidden files are none of the dataset."""
    table = pa.table({"image": pa.array(images[:6]), "label": [3, 3, 10, 10, 10, 3]})
    pq.write_to_dataset(table, tmp_path / "set", partition_cols=["label"])
    (tmp_path / "set" / "_metadata").write_bytes(b"")
    dataset = open_dataset(tmp_path / "set")
    entries = dataset.fetch(range(6))

    assert isinstance(dataset, ParquetDataset)
    assert (
        dataset.column("label").tolist() == [entry.label for entry in entries] == [10] * 3 + [3] * 3
    )
    assert entries[0].key.startswith("label=10/")
    assert entries[0].fields["label"] == b"10"


@pytest.mark.parametrize("count", [3, 20])
def test_files_share_a_schema(tmp_path: Path, images: list[bytes], count: int) -> None:
    """That of thousands of files stays in memory once, another one beside it; the order is that of the names."""
    for number in range(count):
        write(tmp_path / f"{number:02d}.parquet", images[number : number + 1])
    pq.write_table(pa.table({"image": images[:1], "more": [1]}), tmp_path / "99.parquet")
    files = _open_all(find_files(tmp_path))

    assert len({id(file.schema) for file in files}) == 2
    assert [file.blob.name for file in files] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize("column", [0, 1])
def test_a_damaged_row_group_leaves_the_others(
    tmp_path: Path, images: list[bytes], column: int
) -> None:
    """Samples of other row groups stay as they are, and none is silently wrong."""
    options = {"row_group_size": 20, "compression": "zstd", "write_page_checksum": True}
    path = write(tmp_path / "a.parquet", images, **options)
    told = pq.read_metadata(path).row_group(1).column(column)
    place = (told.dictionary_page_offset or told.data_page_offset) + told.total_compressed_size // 2
    found = payloads(ParquetDataset(overwrite(path, place, os.urandom(40))))
    bad = {index for index, image in enumerate(found) if image is None}

    assert bad
    assert bad <= set(range(20, 40))
    assert all(index in bad or image == images[index] for index, image in enumerate(found))


def test_random_damage_never_escapes(tmp_path: Path, images: list[bytes]) -> None:
    """Whatever bytes the pages hold, each sample is there or is a BadSample, and the footer is judged."""
    rng = np.random.default_rng(5)
    rows = [image[-4_000:] for image in images]
    for compression in ("none", "snappy", "zstd"):
        options = {"row_group_size": 30, "compression": compression, "data_page_size": 16_000}
        path = write(tmp_path / "a.parquet", rows, **options)
        sound = path.read_bytes()
        for _ in range(25):
            content = bytearray(sound)
            for place in rng.integers(4, len(content) - 8, 20):
                content[place : place + 4] = rng.bytes(4)
            heads = [content.find(b"\x15"), *rng.integers(4, 60, 3)]
            for place in heads[: rng.integers(0, 4)]:
                content[place] = rng.integers(256)
            path.write_bytes(content)
            with suppress(SourceError):
                dataset = ParquetDataset(path)
                for entry in dataset.fetch(range(len(dataset))):
                    assert isinstance(entry, Sample | BadSample)


def test_memory_stays_bounded(tmp_path: Path, images: list[bytes]) -> None:
    """What is kept does not exceed its bound, and payloads do not hold the pages they were in."""
    options = {"data_page_size": 50_000, "use_dictionary": False, "write_batch_size": 4}
    path = write(tmp_path / "a.parquet", images * 5, compression="zstd", **options)
    dataset = ParquetDataset(path, decoded_bytes=200_000)
    for seed in range(5):
        dataset.fetch(np.random.default_rng(seed).integers(0, 300, 50))

    assert 0 < dataset._groups.get()._pages.held_bytes <= 200_000
    assert all(isinstance(entry.image, bytes) for entry in dataset.fetch(range(5)))


def test_a_page_is_decompressed_once_for_a_batch(
    tmp_path: Path, images: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even when nothing can be kept."""
    decompress = Mock(wraps=groups.decompress)
    monkeypatch.setattr(groups, "decompress", decompress)
    path = write(tmp_path / "a.parquet", images, compression="zstd", use_dictionary=False)
    ParquetDataset(path, decoded_bytes=1).fetch(np.random.default_rng(0).permutation(60))

    assert [call.args[0] for call in decompress.call_args_list] == ["ZSTD"]


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
        assert block_starts(compressed).tolist() == [1, len(compressed)]
    whole_block = bytes([61 << 2]) + (BLOCK_BYTES - 1).to_bytes(2, "little") + bytes(BLOCK_BYTES)
    head = bytes([0x80 | (BLOCK_BYTES + 10) & 127, 0x80 | (BLOCK_BYTES + 10) >> 7 & 127, 4])
    assert block_starts(head + whole_block + copies[2]) is None


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A store that serves the folder `bucket`, and whose `dataset` has no cache."""
    pytest.importorskip("obstore")
    from readers.storage.remote import StorageOptions, Url
    from tests.support.remote_data import set_up
    from tests.support.s3_server import storage

    set_up(monkeypatch, tmp_path)
    (tmp_path / "bucket").mkdir()
    with storage(tmp_path) as running:
        options = StorageOptions(endpoint=running.url, cache_bytes=0)
        running.a_parquet = Url("s3://bucket/a.parquet", options)
        yield running


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_remote(tmp_path: Path, images: list[bytes], server: Any, compression: str) -> None:
    """Over HTTP it is the same dataset, and a known row group is read in parts where its codec lets it."""
    options = {"row_group_size": 30, "use_dictionary": False, "data_page_size": 1 << 25}
    path = write(tmp_path / "bucket" / "a.parquet", images, compression=compression, **options)
    dataset = ParquetDataset([server.a_parquet], decoded_bytes=100_000)

    assert dataset.fetch(range(60)) == ParquetDataset(path).fetch(range(60))
    assert payloads(pickle.loads(pickle.dumps(dataset)), [7]) == [images[7]]
    server.count()
    dataset.fetch([31])
    num_bytes = server.count()["bytes"]
    assert compression == "zstd" or num_bytes < 200_000 < path.stat().st_size / 3


def test_small_columns_from_afar_are_fetched_once(tmp_path: Path, server: Any) -> None:
    """Two columns side by side, looked at before pyarrow decodes them, are one request without a cache."""
    path, rng = tmp_path / "bucket" / "a.parquet", np.random.default_rng(0)
    table = pa.table({"image": [rng.bytes(900) for _ in range(400)], "label": rng.permutation(400)})
    pq.write_table(table, path, row_group_size=200)
    dataset = ParquetDataset([server.a_parquet])
    dataset.fetch([0])
    server.count()
    sample = dataset.fetch([399])
    counted = server.count()

    assert sample == ParquetDataset(path).fetch([399])
    assert counted["requests"] == 1
    assert counted["bytes"] < path.stat().st_size * 0.6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_and_pickle(tmp_path: Path, images: list[bytes]) -> None:
    """A forked child, and a copy made from a pickle, read for themselves."""
    dataset = ParquetDataset(write(tmp_path / "a.parquet", images, row_group_size=10))
    expected = payloads(dataset)
    with dataset._groups.get()._pages._lock:  # as if another thread held it
        assert answer_of_a_fork(lambda: payloads(dataset) == expected)
    assert payloads(pickle.loads(pickle.dumps(dataset))) == expected


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
    assert_refused("holds no rows", empty, by=ParquetDataset)


@pytest.mark.parametrize(
    ("plain_footer", "message"),
    [
        (False, r"a\.parquet is encrypted: write it again without"),
        (True, r"columns of .*a\.parquet are encrypted"),
    ],
)
def test_encrypted_files(
    tmp_path: Path, images: list[bytes], plain_footer: bool, message: str
) -> None:
    """They are told from damaged ones, whether their footer is encrypted or not."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
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
    path = write(tmp_path / "a.parquet", images[:3], encryption_properties=properties)

    assert_refused(message, path, by=ParquetDataset)


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory, images: list[bytes]) -> Path:
    """A folder with a good file, whole.parquet, and those that are refused."""
    folder = put(tmp_path_factory.mktemp("odd"), {"folder/a.txt": b""})
    whole = write(folder / "whole.parquet", images[:4])
    contents = {
        "cut": whole.read_bytes()[:-100],
        "foreign": images[0],
        "empty": b"",
        "short": b"PAR1",
        "liar": b"PAR1" + struct.pack("<I", 1 << 30) + b"PAR1",
        "noise": b"PAR1" + b"\x55" * 50 + struct.pack("<I", 50) + b"PAR1",
    }
    put(folder, {f"{name}.parquet": content for name, content in contents.items()})
    extension = {"ARROW:extension:name": "arrow.py_extension_type"}
    fields = [("image", pa.binary()), pa.field("x", pa.binary(), metadata=extension)]
    tables = {
        "text": pa.table({"image": ["a.jpg"], "label": [1]}),
        "numbers": pa.table({"image": [7], "label": [1]}),
        "which": pa.table({"a": [b"x"], "b": [b"y"]}),
        "lists": pa.table({"image": [b"x"], "boxes": [[1]]}),
        "pickled": pa.table([[b"x"], [b"x"]], schema=pa.schema(fields)),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("cut.parquet", {}, "is cut off: a Parquet file ends in"),
    ("foreign.parquet", {}, "is not a Parquet file"),
    ("empty.parquet", {}, "is empty .0 bytes."),
    ("short.parquet", {}, "cut off"),
    ("liar.parquet", {}, "its footer would be longer"),
    ("noise.parquet", {}, "the footer of .* cannot be read"),
    ("missing.parquet", {}, "is not a file"),
    ("folder", {}, "holds no .parquet files"),
    ("text.parquet", {}, "'image' .* holds string, not the bytes of images"),
    ("numbers.parquet", {}, "'image' .* holds int64, not the bytes"),
    ("which.parquet", {}, "no column that looks like an image or video: name one of a, b"),
    ("whole.parquet", {"image": "photo"}, "no column 'photo' for image="),
    ("lists.parquet", {"label": "boxes"}, "'boxes' .* holds list<.*class number"),
    ("whole.parquet", {"columns": ["size"]}, "no column 'size' for columns="),
    ("whole.parquet", {"columns": "image"}, r"write \['image'\]"),
    (
        "pickled.parquet",
        {},
        "pickled Python object, which is never loaded|pickle-based deserialization",
    ),
    ("whole.parquet which.parquet", {}, "which.parquet has no column"),
]


@pytest.mark.parametrize(("names", "options", "message"), REFUSALS)
def test_refusals(odd_files: Path, names: str, options: dict[str, Any], message: str) -> None:
    """What cannot be opened is told in one sentence that says what to do."""
    paths = [odd_files / name for name in names.split()]

    assert_refused(message, paths if len(paths) > 1 else paths[0], by=ParquetDataset, **options)


def test_a_footer_damaged_since_it_was_opened(tmp_path: Path, images: list[bytes]) -> None:
    """Its samples are BadSamples: a change that keeps size and time is found when it is read again."""
    path = write(tmp_path / "a.parquet", images[:4])
    dataset = ParquetDataset(path)
    status = path.stat()
    overwrite(path, status.st_size - 200, b"\xff" * 190)
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
    assert_refused(r"stands where a number must|has a column of 4 values", path, by=ParquetDataset)


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
    noted = {"info": {"features": {"label": {"names": names}}}}
    table = pa.table({"image": images[:2], "label": [0, 1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(noted)})

    assert stored(tmp_path, table).class_names == ()
