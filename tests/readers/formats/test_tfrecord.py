import gzip
import json
import pickle
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from readers import BadSample, Sample, open_dataset
from readers.formats.protobuf.example import ExampleReader, decode_fields
from readers.formats.protobuf.wire import find_features
from readers.formats.tfrecord.crc32c import crc32c, find_checked_lengths, masked
from readers.formats.tfrecord.dataset import TfRecordDataset, looks_like_tfrecord
from tests.support.annotated import put
from tests.support.damage import flip, overwrite
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused

writer = pytest.importorskip("tfrecord.writer")
example_pb2 = pytest.importorskip("tfrecord.example_pb2")

Jpeg = Callable[..., bytes]


def frame(record: bytes) -> bytes:
    """A record as TFRecord files hold it; its checksums are those of the package crc32c."""
    length = struct.pack("<Q", len(record))
    check = writer.TFRecordWriter.masked_crc
    return length + check(length) + record + check(record)


def example(**features: object) -> bytes:
    """Bytes, int and float lists become features of their kind."""
    kinds = {bytes: "byte", int: "int", float: "float"}
    named = {}
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        named[name] = (values, kinds[type(values[0])])
    return writer.TFRecordWriter.serialize_tf_example(named)


def shard(path: Path, records: list[bytes]) -> Path:
    path.write_bytes(b"".join(map(frame, records)))
    return path


def plain(number: int) -> bytes:
    return example(image=b"\xff\xd8%03d" % number * 50, label=number, key=b"k%d" % number)


def opened(folder: Path, records: list[bytes], **options: Any) -> TfRecordDataset:
    """Write a shard of records and open it."""
    return TfRecordDataset([shard(folder / "a.tfrecord", records)], **options)


def tag(number: int, wire: int) -> bytes:
    return bytes([number << 3 | wire])


def block(number: int, content: bytes) -> bytes:
    length, left = bytearray(), len(content)
    while left >= 128:
        length.append(left & 127 | 128)
        left >>= 7
    return tag(number, 2) + bytes(length) + bytes([left]) + content


def test_checksum_is_crc32c() -> None:
    """The published vector."""
    assert crc32c(b"123456789") == 0xE3069283


def test_size_and_restarts_are_known(tmp_path: Path, jpeg: Jpeg) -> None:
    """The index says the size of the image and where its restart intervals lie."""
    image = jpeg(40, 56, restart_marker_rows=1)
    dataset = opened(tmp_path, [example(image=image, label=2)])
    [sample] = fetch_all(dataset)

    assert (sample.size, dataset.column("height").tolist()) == ((40, 56), [40])
    assert len(sample.restarts) == 4  # 40 rows are three rows of MCUs


def fields_and_values(record: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of an Example, and what they must be by the library's reading of it."""
    members = ExampleReader().read(record).members
    fields = decode_fields({name: record[start:stop] for name, start, stop in members})
    expected: dict[str, Any] = {}
    for name, feature in example_pb2.Example.FromString(record).features.feature.items():
        kind = feature.WhichOneof("kind")
        found = list(getattr(feature, kind).value)
        if len(found) == 1:
            expected[name] = found[0]
        elif kind == "bytes_list":
            expected |= {f"{name}.{place}": one for place, one in enumerate(found)}
        else:
            expected[name] = found
    read = {
        name: value if isinstance(expected.get(name), bytes) else json.loads(value)
        for name, value in fields.items()
    }
    return read, expected


@pytest.mark.parametrize("packed", [True, False])
def test_lists_packed_and_not(packed: bool) -> None:
    """Both ways in which protocol buffers write numbers are read, and the library agrees."""
    floats, integers = struct.pack("<3f", 0.5, -1, 3e8), b"\x05\xac\x02" + b"\xff" * 9 + b"\x01"
    if packed:
        lists = block(2, block(1, floats)), block(3, block(1, integers))
    else:
        each = [floats[place : place + 4] for place in (0, 4, 8)]
        lists = (
            block(2, b"".join(tag(1, 5) + one for one in each)),
            block(3, tag(1, 0) + b"\x05" + tag(1, 0) + b"\xac\x02" + tag(1, 0) + integers[3:]),
        )
    entries = [
        block(1, block(1, name) + block(2, one))
        for name, one in zip([b"f", b"i"], lists, strict=True)
    ]
    fields, expected = fields_and_values(block(1, b"".join(entries)))

    assert fields == expected == {"f": [0.5, -1, 3e8], "i": [5, 300, -1]}


def test_unknown_fields_are_passed_over() -> None:
    """Fields that an Example does not have change nothing, wherever they stand."""
    odd = (
        tag(9, 0) + b"\x96\x01" + tag(10, 1) + bytes(8) + tag(11, 5) + bytes(4) + block(12, b"text")
    )
    value = block(3, odd + block(1, b"\x07") + odd) + odd
    entry = block(1, b"label") + block(2, value)
    record = odd + block(1, odd + block(1, entry) + odd) + odd
    features = example_pb2.Example.FromString(record).features.feature

    assert ExampleReader().read(record).label == 7
    assert list(features["label"].int64_list.value) == [7]
    # Inside the entry of a map the library's Python version drops all of it, that for C++ does not.
    assert ExampleReader().read(block(1, block(1, odd + entry + odd))).label == 7


def test_random_examples_agree_with_the_library() -> None:
    """Examples of random names, kinds and lengths, 300 of them."""
    rng = random.Random(0)

    def value() -> list[object]:
        length = rng.choice([0, 1, 1, 2, 50])
        kind = rng.randrange(3)
        if kind == 0:
            return [rng.randbytes(rng.choice([0, 3, 127, 128, 20_000])) for _ in range(length)]
        if kind == 1:
            return [rng.randrange(-(2**63), 2**63) >> rng.randrange(63) for _ in range(length)]
        return [rng.uniform(-1e9, 1e9) for _ in range(length)]

    for _ in range(300):
        names = {rng.choice("abcdefgé") * rng.choice([1, 5, 200]) for _ in range(rng.randrange(9))}
        values = {name: value() for name in names}
        record = example(**{name: one for name, one in values.items() if one})
        fields, expected = fields_and_values(record)
        assert fields == expected


def test_hostile_records_are_errors_and_nothing_else() -> None:
    """Every record that is cut off, and 3000 with changed bytes, either parses or is a ValueError."""
    rng = random.Random(0)
    record = example(
        image=b"i" * 200, label=3, floats=[1.0, 2.0], texts=[b"a", b"b"], big=[2**40, -1]
    )
    cut = [record[:stop] for stop in range(len(record))]
    for _ in range(3000):
        changed = bytearray(record)
        for _ in range(rng.choice([1, 1, 2, 8])):
            changed[rng.randrange(len(record))] = rng.choice(
                [0, 7, 10, 127, 128, 255, rng.randrange(256)]
            )
        cut.append(bytes(changed))
    failures = 0
    for data in cut:
        try:
            members = ExampleReader().read(data).members
            assert all(0 <= start <= stop <= len(data) for _, start, stop in members)
            fields = decode_fields({name: data[start:stop] for name, start, stop in members})
            assert sum(map(len, fields.values())) < 100 * len(record)
        except ValueError:
            failures += 1

    assert 100 < failures < len(cut)


@pytest.mark.parametrize(
    "record", [b"\x0a" + b"\xff" * 11, b"\x0a" + b"\xff" * 8 + b"\x7f", b"\x0a", b"\x0b\x0c"]
)
def test_length_without_an_end_is_an_error(record: bytes) -> None:
    """A varint of eleven bytes, and a length of 2 to the 63, lead nowhere."""
    with pytest.raises(ValueError, match=r"no end|leads out|ends at|no field"):
        find_features(record)


DAMAGES = {"length": [0, 5], "checksum of the length": [9], "both": range(12)}


@pytest.mark.parametrize("damage", DAMAGES)
def test_records_behind_damage_are_found(tmp_path: Path, damage: str) -> None:
    """Where a length is wrong the next record is searched, and one BadSample stands for what is lost."""
    path = shard(tmp_path / "a.tfrecord", [plain(number) for number in range(8)])
    size = len(frame(plain(0)))
    for place in DAMAGES[damage]:
        flip(path, 3 * size + place, 0x55)
    found = fetch_all(TfRecordDataset([path]))

    assert f"damaged at byte {3 * size}" in found.pop(3).reason
    assert [sample.label for sample in found] == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("start", range(9))
def test_lengths_with_their_checksum_are_found(start: int) -> None:
    """At every offset to a word, up to the last; longer ones are none."""
    length = struct.pack("<Q", 300)
    data = bytes(start) + length + struct.pack("<I", masked(crc32c(length)))

    assert find_checked_lengths(data, 300).tolist() == [start]
    assert [*find_checked_lengths(data, 299), *find_checked_lengths(data[:-1], 300)] == []


@pytest.mark.parametrize(
    "noise", [*(random.Random(0).randbytes(n) for n in range(12, 21)), bytes(99), b"\xff" * 2_000_003],
    ids=len,
)  # fmt: skip
def test_garbage_between_records(tmp_path: Path, noise: bytes) -> None:
    """Noise of any length, which is none of words, costs one BadSample and not the rest."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(plain(1)) + noise + frame(plain(2)))
    first, lost, second = fetch_all(TfRecordDataset([path]))

    assert (first.label, second.label, type(lost)) == (1, 2, BadSample)


@pytest.mark.parametrize("missing", [1, 4, 5, 100, 188])
def test_cut_off_shard(tmp_path: Path, missing: int) -> None:
    """The samples before the cut are read, and one BadSample stands for the loss."""
    path = shard(tmp_path / "a.tfrecord", [plain(number) for number in range(4)])
    path.write_bytes(path.read_bytes()[:-missing])
    *samples, bad = fetch_all(TfRecordDataset([path]))

    assert [sample.label for sample in samples] == [0, 1, 2]
    assert "cut off" in bad.reason


def test_changed_byte_is_found_by_its_checksum(tmp_path: Path) -> None:
    """A changed image reads like any other; with verify=True, and in verify(), it is bad, and its neighbours are not."""
    path = shard(tmp_path / "a.tfrecord", [plain(number) for number in range(4)])
    sound = TfRecordDataset([path])
    assert list(sound.verify()) == []
    assert TfRecordDataset([path], verify=True).fingerprint == sound.fingerprint
    flip(path, path.read_bytes().index(b"\xff\xd8002") + 20, 1)
    dataset, checked = open_dataset(path), open_dataset(path, verify=True)
    [bad] = dataset.verify()

    assert (bad.index, "checksum is wrong" in bad.reason) == (2, True)
    assert [type(sample) for sample in fetch_all(dataset)] == [Sample] * 4
    for each in (checked, pickle.loads(pickle.dumps(checked))):
        kinds = [type(sample) for sample in fetch_all(each)]
        assert kinds == [Sample, Sample, BadSample, Sample]


def test_records_of_another_kind(tmp_path: Path, jpeg: Jpeg) -> None:
    """Records that are no Examples are one field, and images where they begin like one."""
    records = [jpeg(20, 30), b"\xff\xd8 no image", jpeg(10, 10)]
    found = fetch_all(opened(tmp_path, records))

    assert [bytes(sample.fields["record"]) for sample in found] == records
    assert [sample.size for sample in found] == [(20, 30), None, (10, 10)]
    assert [sample.image is not None for sample in found] == [True, False, True]
    assert {sample.label for sample in found} == {-1}


def test_damaged_first_example_does_not_make_the_others_plain(tmp_path: Path) -> None:
    """What kind of records there are is not told by one whose checksum is wrong."""
    path = shard(tmp_path / "a.tfrecord", [plain(number) for number in range(3)])
    bad, *samples = fetch_all(TfRecordDataset([overwrite(path, 12, b"\x07")]))

    assert isinstance(bad, BadSample)
    assert [sample.label for sample in samples] == [1, 2]


def test_columns_and_roles(tmp_path: Path) -> None:
    """The caller names features, and only those asked for become fields."""
    features = {"photo": b"\xff\xd8photo", "image": b"\xff\xd8image", "label": 1}
    record = example(**features, number=2, name=b"n", id=7)
    options = {"image": "photo", "label": "number", "key": "name", "columns": ["photo", "id"]}
    dataset = opened(tmp_path, [record], **options)
    [sample] = fetch_all(dataset)
    [usual] = fetch_all(opened(tmp_path, [record]))

    assert (sample.image, sample.label, sample.key) == (b"\xff\xd8photo", 2, "a.tfrecord/n")
    assert sample.fields.keys() == {"photo", "id"}
    assert (usual.image, usual.label, usual.key) == (b"\xff\xd8image", 1, "a.tfrecord/7")
    assert fetch_all(pickle.loads(pickle.dumps(dataset))) == [sample]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        *(("label", label) for label in (0.5, b"cat", [1, 2], b"9" * 40, [b"1", b"2"])),
        ("image/class/label", [1, 2]),
        *((name, [1, 2]) for name in ("fine_label", "category", "y")),
    ],
)  # fmt: skip
def test_label_that_is_no_whole_number(tmp_path: Path, label: object, name: str) -> None:
    """Its sample is bad and says why; the next one is not."""
    records = [example(image=b"i", **{name: each}) for each in (label, 1)]
    bad, good = fetch_all(opened(tmp_path, records))

    assert "the label" in bad.reason
    assert good.label == 1


def test_missing_features_of_later_records(tmp_path: Path) -> None:
    """A record without a label has none; one without the image that was asked for is bad."""
    records = [plain(0), example(image=b"i"), example(label=3)]
    _, unlabelled, bad = fetch_all(opened(tmp_path, records, image="image"))

    assert (unlabelled.label, unlabelled.key) == (-1, "a.tfrecord/1")
    assert "no feature image" in bad.reason


SEQUENCE = block(1, b"") + block(2, block(1, block(1, b"f")))
BAD_FILES = [
    (b"", {}, "is empty"),
    (b"hello", {}, "is not a TFRecord file"),
    (b"hello world, this is no TFRecord", {}, "is not a TFRecord file"),
    (gzip.compress(frame(SEQUENCE), mtime=0), {}, "is compressed"),
    (zlib.compress(frame(SEQUENCE)), {}, "is compressed"),
    (frame(SEQUENCE), {}, "SequenceExamples, which are not read"),
    (frame(plain(0)), {"image": "photo"}, "no column 'photo' for image="),
    (frame(plain(0)), {"label": "cls"}, "no column 'cls' for label="),
    (frame(plain(0)), {"columns": ["image", "x"]}, "no column 'x' for columns="),
    (frame(plain(0)), {"image": "label"}, "int64 values in the feature label"),
    (frame(b"\xff\xd8\xff"), {"label": "cls"}, "are no tf.train.Example .* leave out label="),
    (None, {}, "is not a file"),
]


@pytest.mark.parametrize(("content", "options", "message"), BAD_FILES)
def test_bad_files(
    tmp_path: Path, content: bytes | None, options: dict[str, str], message: str
) -> None:
    """What cannot be read is one sentence."""
    put(tmp_path, {} if content is None else {"a.tfrecord": content})

    assert_refused(message, [tmp_path / "a.tfrecord"], by=TfRecordDataset, **options)


def test_recognised_by_content() -> None:
    """ImageNet's shards have no extension; other files do not begin with a checked length."""
    data = frame(plain(0))
    others = [b"PAR1" + bytes(12), bytes(16), b"\xff\xd8\xff\xe0" + bytes(12), b""]

    assert looks_like_tfrecord(data[:16])
    assert [looks_like_tfrecord(one) for one in (*others, data[1:17], data[:11])] == [False] * 6


def test_num_bytes_where_fields_are_bytes(tmp_path: Path) -> None:
    """The index knows the size of fields that it keeps as they are, and says so of no others."""
    for options, expected in (({}, -1), ({"columns": ["image", "key"]}, 252)):
        dataset = opened(tmp_path, [plain(0), plain(1)], **options)
        assert dataset.column("num_bytes").tolist() == [expected] * 2
