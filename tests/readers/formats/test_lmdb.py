"""LMDB: the tree is read as its library reads it, and every layout that datasets have."""

import os
import pickle
import random
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from readers import BadSample, Sample, SourceError
from readers.formats.lmdb.dataset import LmdbDataset
from readers.formats.lmdb.tree import Tree
from tests.support.annotated import put
from tests.support.entries import fetch_all, fetch_samples
from tests.support.opening import assert_refused

lmdb = pytest.importorskip("lmdb")

Jpeg = Callable[..., bytes]


def write(path: Path, values: Mapping[bytes, bytes], **options: object) -> Path:
    with lmdb.open(str(path), map_size=1 << 28, **options) as env, env.begin(write=True) as txn:
        for key, value in values.items():
            txn.put(key, value)
    return path


def opened(folder: Path, values: Mapping[bytes, bytes]) -> LmdbDataset:
    """Write values and open them."""
    return LmdbDataset(write(folder / "db", values))


@pytest.fixture
def image(jpeg: Jpeg) -> bytes:
    return jpeg(9, 8)


@pytest.fixture(scope="module")
def datum() -> Callable[..., bytes]:
    """A maker of Datums, as Caffe's caffe.proto defines them, by Google's own library."""
    kinds = {
        **dict.fromkeys(["channels", "height", "width"], FieldDescriptorProto.TYPE_INT32),
        "data": FieldDescriptorProto.TYPE_BYTES,
        "label": FieldDescriptorProto.TYPE_INT64,  # as wide as what is written for an int32 below 0
        "float_data": FieldDescriptorProto.TYPE_FLOAT,
        "encoded": FieldDescriptorProto.TYPE_BOOL,
    }
    file = FileDescriptorProto(name="caffe.proto", package="caffe", syntax="proto2")
    message = file.message_type.add(name="Datum")
    for number, (name, kind) in enumerate(kinds.items(), start=1):
        repeated = 3 if name == "float_data" else 1
        message.field.add(name=name, number=number, type=kind, label=repeated)
    pool = DescriptorPool()
    pool.Add(file)
    made = GetMessageClass(pool.FindMessageTypeByName("caffe.Datum"))
    return lambda **fields: made(**fields).SerializeToString()


def pixels(values: Any) -> dict[str, Any]:
    """Fields of a Datum that holds planes of pixels."""
    sides = zip(("channels", "height", "width"), values.shape, strict=True)
    return {"data": values.tobytes(), "encoded": False, **dict(sides)}


def decoded(data: bytes, flag: int = cv2.IMREAD_COLOR) -> list[Any]:
    """The pixels of an image as OpenCV reads them."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), flag).tolist()


@pytest.mark.parametrize(
    ("count", "longest"), [(0, 9), (1, 9), (60, 9000), (4000, 200), (30, 70000)]
)
def test_tree_agrees_with_the_library(tmp_path: Path, count: int, longest: int) -> None:
    """Keys and values are those of LMDB, in a tree that was written, overwritten and thinned out."""
    rng = random.Random(count)
    with lmdb.open(str(tmp_path), map_size=1 << 28) as env:
        for _ in range(3):
            with env.begin(write=True) as txn:
                for number in rng.sample(range(count), 2 * count // 3 + (count == 1)):
                    txn.put(
                        f"{number % 7}/{number:0{rng.choice([4, 90])}}".encode(),
                        rng.randbytes(rng.randrange(longest)),
                    )
            with env.begin(write=True) as txn:
                for key in list(txn.cursor().iternext(values=False))[3::5]:
                    txn.delete(key)
        with env.begin() as txn:
            expected = [(bytes(key), bytes(value)) for key, value in txn.cursor()]
    data = memoryview((tmp_path / "data.mdb").read_bytes())

    nodes = list(Tree(data, "data.mdb").nodes())

    assert [(node.key, bytes(data[node.start : node.stop])) for node in nodes] == expected
    assert not any(node.fault for node in nodes)


def test_class_folders(tmp_path: Path, image: bytes) -> None:
    """Keys in folders have the first folder as their class, numbered as by name, not by place in the tree."""
    names = ["a-b/1.jpg", "a/1.jpg", "a/deep/2.jpg", "zebra/1.JPG"]  # "-" sorts before "/"
    dataset = opened(tmp_path, {name.encode(): image for name in reversed(names)})
    samples = dataset.fetch(range(4))

    assert [entry.key for entry in samples] == [f"data.mdb/{name[:-4]}" for name in names]
    assert dataset.class_names == ("a", "a-b", "zebra")
    assert [dataset.class_names[entry.label] for entry in samples] == ["a-b", "a", "a", "zebra"]
    assert (samples[0].size, samples[0].image) == ((9, 8), image)


def test_numbers_beat_folders(tmp_path: Path, image: bytes) -> None:
    """Where samples bring their class numbers, folders are no classes."""
    dataset = opened(tmp_path, {b"x/1.jpg": image, b"x/1.cls": b"7", b"y/2.jpg": image})

    assert (dataset.column("label").tolist(), dataset.class_names) == ([7, -1], ())


def test_values_are_images(tmp_path: Path, jpeg: Jpeg) -> None:
    """LSUN's kind: any keys; what is said about the whole is no sample. In one file without a folder."""
    values = {b"f00d": jpeg(9, 8), b"beef": jpeg(7, 8), b"__keys__": b"\x80\x04", b"length": b"2"}
    samples = fetch_samples(LmdbDataset(write(tmp_path / "one.lmdb", values, subdir=False)))

    assert [(entry.key, entry.image, entry.label) for entry in samples] == [
        ("one.lmdb/beef", values[b"beef"], -1),
        ("one.lmdb/f00d", values[b"f00d"], -1),
    ]


def test_numbered(tmp_path: Path, jpeg: Jpeg) -> None:
    """Text recognition's kind: where labels are text they are fields, also the one that is a number."""
    values = {b"num-samples": b"3", b"label-000000001": "Ä 5".encode(), b"label-000000003": b"12"}
    values |= {b"image-%09d" % number: jpeg(9, 8, seed=number) for number in (1, 2, 3)}
    samples = fetch_samples(opened(tmp_path, values))

    assert [entry.label for entry in samples] == [-1, -1, -1]
    assert bytes(samples[0].fields["label"]).decode() == "Ä 5"
    assert "label" not in samples[1].fields
    assert [entry.image for entry in samples] == [values[b"image-%09d" % n] for n in (1, 2, 3)]


@pytest.mark.parametrize("key", ["{}", "0000000{}_cat/im.jpg"])
def test_datum(tmp_path: Path, image: bytes, datum: Callable[..., bytes], key: str) -> None:
    """Encoded images as they are, planes of BGR as a PPM that OpenCV reads back, grey as PGM; convert_imageset's keys."""
    rng = np.random.default_rng(0)
    planes, grey = (rng.integers(0, 256, (number, 5, 4), np.uint8) for number in (3, 1))
    kinds = [{"data": image, "encoded": True}, pixels(planes), pixels(grey)]
    values = {
        key.format(number).encode(): datum(label=100 * number, **fields)
        for number, fields in enumerate(kinds)
    }
    samples = fetch_samples(opened(tmp_path, values))

    assert [entry.label for entry in samples] == [0, 100, 200]
    assert (samples[0].image, samples[0].image_field) == (image, "data")
    assert decoded(samples[1].fields["ppm"]) == planes.transpose(1, 2, 0).tolist()
    assert decoded(samples[2].fields["pgm"], cv2.IMREAD_GRAYSCALE) == grey[0].tolist()
    assert samples[1].size == (5, 4)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"float_data": [0.5, 1.5], "channels": 2, "height": 1, "width": 1}, "holds floats"),
        ({"data": bytes(40), "channels": 10, "height": 2, "width": 2}, "10 channels of 2x2"),
    ],
)
def test_datums_that_are_no_images_are_refused(
    tmp_path: Path, datum: Callable[..., bytes], fields: dict[str, Any], match: str
) -> None:
    """Features and stacks of more channels, of which Caffe makes Datums, too: the sentence says what they are."""
    path = write(tmp_path / "db", {b"00000000_im.jpg": datum(label=1, **fields)})
    assert_refused(f"Datums of Caffe of which none is an image.*{match}", path, by=LmdbDataset)


def test_one_foreign_value_among_datums(
    tmp_path: Path, image: bytes, datum: Callable[..., bytes]
) -> None:
    """A value that is no Datum, or holds other pixels than it says, is one BadSample."""
    good = datum(data=image, label=3, encoded=True)
    short = pixels(np.zeros((3, 5, 4), np.uint8)) | {"data": bytes(59)}
    values = {b"0": good, b"1": good[:-4] + b"\xff", b"2": datum(**short), b"3": b"3" + bytes(9)}
    kinds = [type(entry) for entry in opened(tmp_path, values).fetch(range(4))]

    assert kinds == [Sample, BadSample, BadSample, BadSample]


def test_named_databases(tmp_path: Path, image: bytes) -> None:
    """The only named database is found; of several one must be named."""
    with lmdb.open(str(tmp_path), max_dbs=3, map_size=1 << 24) as env:
        for name in (b"train", b"val"):
            with env.begin(write=True, db=env.open_db(name)) as txn:
                txn.put(name + b".jpg", image)
            if name == b"train":
                assert LmdbDataset(tmp_path).fetch([0])[0].key == "data.mdb/train"
    assert_refused(r"'train', 'val'.*database=", tmp_path, by=LmdbDataset)
    dataset = LmdbDataset(tmp_path, database="val")

    for each in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert [entry.key for entry in each.fetch([0])] == ["data.mdb/val"]


def test_keys_of_whole_numbers(tmp_path: Path, jpeg: Jpeg) -> None:
    """INTEGERKEY: the keys are numbers of this machine, in their order."""
    env = lmdb.open(str(tmp_path), max_dbs=1, map_size=1 << 24)
    with env, env.begin(write=True, db=env.open_db(b"x", integerkey=True)) as txn:
        for number in (300, 2):
            txn.put(number.to_bytes(8, "little"), jpeg(9, 8, seed=number))

    assert [entry.key for entry in fetch_all(LmdbDataset(tmp_path))] == [
        "data.mdb/2",
        "data.mdb/300",
    ]


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (pickle.dumps((b"image", 3)), "pickled.*KEY.jpg"),
        (b"\x92\xc4\x05image\x03", "MessagePack.*KEY.jpg"),
        (b"nothing known", "no known layout.*nothing"),
        (b"", "no known layout"),
    ],
)
def test_foreign_values_are_refused(tmp_path: Path, value: bytes, match: str) -> None:
    """Values that would have to be unpickled, or that nobody knows, are refused with what to do."""
    path = write(tmp_path / "db", {b"key": value})
    assert_refused(f"{path}/data.mdb.*{match}", path, by=LmdbDataset)


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("nowhere.mdb", {}, "is not a file"),
        ("text.mdb", {}, "no LMDB"),
        ("empty.mdb", {}, "no LMDB"),
        ("folder", {}, "no data.mdb"),
        ("none", {}, "holds no samples"),
        ("many", {}, "DUPSORT"),
        ("db", {"layout": "tar"}, "layout must be one of files, values, numbered, datum"),
    ],
)
def test_no_environment_is_refused(
    tmp_path: Path, image: bytes, name: str, options: dict[str, str], match: str
) -> None:
    """Missing, empty and foreign files, empty databases, several values per key: each with its reason."""
    put(tmp_path, {"text.mdb": b"no tree" * 100, "empty.mdb": b"", "folder/a": b""})
    write(tmp_path / "none", {})
    write(tmp_path / "db", {b"a.jpg": image})
    env = lmdb.open(str(tmp_path / "many"), max_dbs=1, map_size=1 << 24)
    with env, env.begin(write=True, db=env.open_db(b"x", dupsort=True)) as txn:
        txn.put(b"a", b"1")

    assert_refused(match, tmp_path / name, by=LmdbDataset, **options)


def test_cut_off_file(tmp_path: Path, jpeg: Jpeg) -> None:
    """What lies behind the cut is lost, by name; what lies before it is not."""
    values = {b"%03d.jpg" % number: jpeg(99, 98, seed=number) for number in range(40)}
    path = write(tmp_path / "db", values) / "data.mdb"
    sound = len(LmdbDataset(path))
    os.truncate(path, path.stat().st_size * 3 // 5)
    entries = fetch_all(LmdbDataset(path))
    good = [entry for entry in entries if isinstance(entry, Sample)]
    stored = [values[entry.key.partition("/")[2].encode() + b".jpg"] for entry in good]

    assert 0 < len(good) < sound
    assert [entry.image for entry in good] == stored
    assert all("cut off" in entry.reason for entry in entries if isinstance(entry, BadSample))


def test_damaged_trees_end(tmp_path: Path, jpeg: Jpeg) -> None:
    """Whatever stands in the pages, the walk ends, and no value leads out of the file."""
    values = {b"%03d.jpg" % number: jpeg(30, 30, seed=number) for number in range(200)}
    sound = (write(tmp_path / "db", values) / "data.mdb").read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        data = bytearray(sound)
        for _ in range(8):
            page = rng.randrange(2, len(data) // 4096) * 4096
            place = page + rng.choice(
                [0, 10, 12, 14, 16 + 2 * rng.randrange(40), rng.randrange(4096)]
            )
            struct.pack_into("<H", data, min(place, len(data) - 2), rng.randrange(1 << 16))
        try:
            nodes = list(Tree(memoryview(data), "data.mdb").nodes())
        except SourceError:
            continue
        assert len(nodes) < 40_000
        assert all(0 <= node.start <= node.stop <= len(data) for node in nodes)


def test_written_while_in_use(tmp_path: Path, jpeg: Jpeg) -> None:
    """An environment that was written to since it was opened gives BadSamples, not other bytes."""
    path = write(tmp_path / "db", {b"a.jpg": jpeg(9, 8)})
    dataset = LmdbDataset(path)
    write(path, {b"b.jpg": jpeg(9, 8), b"a.jpg": jpeg(8, 8)})
    [entry] = dataset.fetch([0])

    assert "changed" in entry.reason
    assert len(LmdbDataset(path)) == 2


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("wrong", [{"height": -2, "width": -2}, {"label": -2}, {"label": -(2**63)}])
def test_one_bad_datum(
    tmp_path: Path, datum: Callable[..., bytes], first: bool, wrong: dict[str, int]
) -> None:
    """Lengths below zero and labels that are no class numbers are that record's fault alone."""
    fields = {"label": 4, **pixels(np.zeros((3, 2, 2), np.uint8))}
    good, bad = datum(**fields), datum(**fields | wrong)
    dataset = opened(tmp_path, {b"a": bad if first else good, b"b": good if first else bad})
    entries = dataset.fetch([0, 1])

    assert [isinstance(entry, BadSample) for entry in entries] == [first, not first]
    if "label" not in wrong:
        assert dataset.column("label").tolist() == ([-1, 4] if first else [4, -1])
    else:
        with pytest.raises(SourceError, match="1 of 2 samples have a label that cannot be read"):
            dataset.column("label")


@pytest.mark.parametrize("key", [b"a\0b", b"\xed\xa0\x80", b"\xff"])
def test_keys_that_are_no_text(tmp_path: Path, image: bytes, key: bytes) -> None:
    """Zeros, half characters and bytes that are no UTF-8 are kept, in keys and names of fields."""
    values = {key + b".jpg": image, key + b"." + key: b"x", b"zz.jpg": image}
    first, second = fetch_samples(opened(tmp_path, values))

    assert b"x" in map(bytes, {**first.fields, **second.fields}.values())
