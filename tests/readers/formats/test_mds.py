import base64
import bz2
import gzip
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from readers import BadSample, Sample
from readers.formats.mds.dataset import MdsDataset
from tests.support.annotated import put
from tests.support.damage import flip, overwrite
from tests.support.entries import fetch_all
from tests.support.opening import assert_refused
from tests.support.writers.mds import write_mds

DATA = Path(__file__).resolve().parents[2] / "data" / "mds"
PEER = Path(__file__).resolve().parents[3] / ".peers" / "mosaic-streaming" / "bin" / "python"

Row = dict[str, bytes]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


COLUMNS = {"image": ("jpeg", None), "label": ("int", 8)}


def numbered(folder: Path, num_samples: int = 6, **options: int) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [
        {"image": b"\xff\xd8%02d" % number * 9, "label": struct.pack("<q", number)}
        for number in range(num_samples)
    ]
    write_mds(folder, COLUMNS, rows, **options)
    return folder


def changed_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    place = folder / "index.json"
    index = json.loads(place.read_text())
    change(index)
    place.write_text(json.dumps(index))
    return folder


def changed_shard(folder: Path, **changes: Any) -> Path:
    """Change what the index says of the first shard."""
    return changed_index(folder, lambda index: index["shards"][0].update(changes))


def compress_shard(folder: Path, kind: str, packed: bytes) -> Path:
    """Put compressed bytes into the place of a folder's only shard."""
    (folder / f"x.{kind}").write_bytes(packed)
    (folder / "shard.00000.mds").unlink()
    info = {"basename": f"x.{kind}", "bytes": len(packed), "hashes": {}}
    return changed_shard(folder, compression=kind, zip_data=info)


def check_field(fields: dict[str, bytes], name: str, expected: Any) -> None:
    """Compare a field, or the fields of a list, with what mosaicml-streaming returned."""
    if isinstance(expected, list):
        assert sum(field.startswith(f"{name}.") for field in fields) == len(expected)
        for place, one in enumerate(expected):
            check_field(fields, f"{name}.{place}", one)
        return
    data = bytes(fields[name])
    if not isinstance(expected, dict):
        assert (data.decode() if isinstance(expected, str) else json.loads(data)) == expected
    elif "bytes" in expected:
        assert data == base64.b64decode(expected["bytes"])
    elif "decimal" in expected:
        assert data.decode() == expected["decimal"]
    elif "values" in expected:
        array = np.load(io.BytesIO(data), allow_pickle=False)
        assert (array.dtype.name, array.tolist()) == (expected["dtype"], expected["values"])
    elif "pixels" in expected:
        picture = Image.open(io.BytesIO(data))
        assert (picture.mode, list(picture.size)) == (expected["mode"], expected["size"])
        assert np.asarray(picture).tobytes() == base64.b64decode(expected["pixels"])
        assert not expected["stored"] or data == base64.b64decode(expected["stored"])
    else:
        assert json.loads(data) == expected


def check_all(dataset: MdsDataset, expected: list[dict[str, Any]]) -> None:
    for sample, row in zip(fetch_all(dataset), expected, strict=True):
        for name, value in row.items():
            check_field(dict(sample.fields), name, value)
        assert sample.label == row["class"]
        assert sample.image == base64.b64decode(row["image"]["stored"])


def test_values_are_those_of_mosaicml_streaming() -> None:
    """Every encoding, in two shards that its MDSWriter wrote and its own reader has read."""
    dataset = MdsDataset(DATA / "plain")
    expected = json.loads((DATA / "expected.json").read_text())

    check_all(dataset, expected)
    assert len(list((DATA / "plain").glob("*.mds"))) == 2
    assert list(dataset.verify()) == []


@pytest.mark.skipif(
    not PEER.exists(), reason="gpu-aug bench compare --peers mosaic-streaming makes it"
)
def test_live(tmp_path: Path, cache: Path) -> None:
    """What the installed mosaicml-streaming writes today, as it is and compressed in each of its ways."""
    pytest.importorskip("pyarrow")
    ways = ["zstd", "gz", "bz2", "br", "snappy"]
    command = [str(PEER), str(DATA / "write.py"), str(tmp_path), *ways]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    expected = json.loads((tmp_path / "expected.json").read_text())

    for name in ("plain", *ways):
        check_all(MdsDataset(tmp_path / name), expected)
    assert len(list((cache / "unpacked").iterdir())) == 2 * len(ways)


def test_writer_of_these_tests_writes_what_the_package_writes(tmp_path: Path) -> None:
    """Shards and index are the same bytes, so that other tests may use it."""
    rows = [
        {
            "image": bytes([number]) * (40 * number),
            "key": b"k%d" % number,
            "label": struct.pack("<q", number - 1),
        }
        for number in range(7)
    ]
    write_mds(tmp_path, {**COLUMNS, "key": ("str", None)}, rows, size_limit=600)
    ours, theirs = (
        {path.name: path.read_bytes() for path in folder.iterdir()}
        for folder in (tmp_path, DATA / "small")
    )

    assert ours == theirs
    assert len(ours) > 2


def test_nothing_is_written(tmp_path: Path, cache: Path) -> None:
    """A folder of shards that are not compressed needs no index and no cache."""
    before = sorted(numbered(tmp_path / "mds").iterdir())
    fetch_all(MdsDataset(tmp_path / "mds"))

    assert sorted((tmp_path / "mds").iterdir()) == before
    assert not cache.exists()


def test_columns_and_roles(tmp_path: Path) -> None:
    """The caller names columns, a pickled one may stay unread, and a pickled copy keeps the options."""
    columns = {
        "a": ("pkl", None),
        "b": ("jpeg", None),
        "c": ("str_int", None),
        "d": ("str", None),
        "image": ("bytes", None),
    }
    row = {"a": b"\x80", "b": b"\xff\xd8b", "c": b"7", "d": b"seven", "image": b"\xff\xd8i"}
    write_mds(tmp_path, columns, [row])
    options = {"image": "b", "label": "c", "key": "d", "columns": ["b", "d"]}
    dataset = MdsDataset(tmp_path, **options)
    [sample] = fetch_all(dataset)

    assert (sample.image, sample.label, sample.key) == (b"\xff\xd8b", 7, "shard.00000.mds/seven")
    assert sample.fields.keys() == {"b", "d"}
    assert dataset.column("num_bytes").tolist() == [8]
    assert fetch_all(pickle.loads(pickle.dumps(dataset))) == [sample]


def test_first_column_of_images_is_the_image(tmp_path: Path) -> None:
    """Where no name says so the encoding does."""
    write_mds(tmp_path, {"a": ("str", None), "left": ("png", None)}, [{"a": b"a", "left": b"png"}])

    assert MdsDataset(tmp_path).fetch([0])[0].image == b"png"


def raw(width: int, height: int, mode: bytes, num_bytes: int) -> bytes:
    return struct.pack("<III", width, height, len(mode)) + mode + bytes(num_bytes)


BAD_VALUES = [
    ("pil", raw(2, 2, b"RGB", 11), "2 x 2 RGB in 11 bytes"),
    ("pil", raw(2, 2, b"CMYK", 16), "mode 'CMYK'"),
    ("pil", raw(2**32 - 1, 2**32 - 1, b"L", 5), "in 5 bytes"),
    ("pil", struct.pack("<III", 1, 1, 2**32 - 1) + b"L", "mode has 4294967295 letters"),
    ("pil", b"short", "a raw picture of 5 bytes"),
    ("int", b"1234567", "a number of 8 bytes in 7"),
    ("ndarray", b"", "neither type nor shape"),
    ("ndarray", b"\x01\x04\x02ab", "neither type nor shape"),
    ("ndarray", b"\x08\x04\x03ab", "an array of 3 bytes in 2"),
    ("ndarray", b"\x08\x0b" + b"\xff" * 16 + b"ab", "in 2"),
    ("ndarray:float32:2,2", bytes(15), "an array of 16 bytes in 15"),
    ("list[jpeg]", bytes(4), "a list of 4 bytes"),
    ("list[jpeg]", struct.pack("<II", 0, 2**32 - 1), "says it has 4294967295 items"),
    ("list[jpeg]", struct.pack("<III", 0, 1, 5) + b"1234", "a list of 16 bytes whose items say 17"),
    ("list[pil]", struct.pack("<III", 0, 1, 3) + b"123", "a raw picture of 3 bytes"),
    ("jpeg_array", struct.pack("<II", 1, 9), "whose items say"),
]


@pytest.mark.parametrize(("encoding", "value", "message"), BAD_VALUES)
def test_bad_values(tmp_path: Path, encoding: str, value: bytes, message: str) -> None:
    """A value that is not what its encoding says costs its own sample, and the reason names the column."""
    write_mds(tmp_path, {"x": (encoding, None)}, [{"x": value}])
    [bad] = fetch_all(MdsDataset(tmp_path))

    assert "the column x holds" in bad.reason
    assert message in bad.reason


def test_places_that_lead_out_of_the_shard(tmp_path: Path) -> None:
    """Places of samples that are out of order, or behind the end, cost the samples that they bound."""
    shard = numbered(tmp_path) / "shard.00000.mds"
    overwrite(shard, 4 + 4 * 3, struct.pack("<I", 2**32 - 1))
    kinds = [type(sample) for sample in fetch_all(MdsDataset(tmp_path))]

    assert kinds == [Sample, Sample, BadSample, BadSample, Sample, Sample]


def test_wrong_hash_is_found_by_verify(tmp_path: Path) -> None:
    """A byte of an image that was changed is found by the hash that MDSWriter wrote."""
    shutil.copytree(DATA / "plain", tmp_path / "plain")
    shard = tmp_path / "plain" / "shard.00001.mds"
    flip(shard, shard.read_bytes().index(b"JFIF"), 1)
    before, after = MdsDataset(DATA / "plain"), MdsDataset(tmp_path / "plain")
    [bad] = after.verify()

    assert "sha1 is not the one" in bad.reason
    assert after.fingerprint != before.fingerprint


@pytest.mark.parametrize("compression", [gzip, bz2])
@pytest.mark.parametrize("damage", ["none", "cut off", "too long", "foreign", "within"])
def test_compressed_shards(
    tmp_path: Path, cache: Path, compression: ModuleType, damage: str
) -> None:
    """They are decompressed once; one that is damaged, or a bomb, gives BadSamples and leaves nothing."""
    folder = numbered(tmp_path / "mds")
    expected = fetch_all(MdsDataset(folder))
    bomb = bytes(10**7 if damage == "too long" else 0)
    packed = compression.compress((folder / "shard.00000.mds").read_bytes() + bomb)
    damaged = {
        "cut off": packed[:-9],
        "foreign": b"foreign",
        "within": packed[:10] + b"\xff" * 20 + packed[30:],
    }
    compress_shard(folder, {gzip: "gz", bz2: "bz2"}[compression], damaged.get(damage, packed))
    samples = fetch_all(MdsDataset(folder))

    if damage == "none":
        assert samples == expected
        assert len(list((cache / "unpacked").iterdir())) == 1
    else:
        assert all("the shard cannot be read" in sample.reason for sample in samples)
        assert not list((cache / "unpacked").iterdir())


BAD_INDEXES = [
    (lambda index: index.update(version=1), "is of version 1"),
    (lambda index: index.pop("shards"), "no index of an MDS folder"),
    (lambda index: index.update(shards=[]), "holds no samples"),
    (lambda index: index["shards"].append(7), "no index of an MDS folder"),
    (
        lambda index: index["shards"][0].update(format="json"),
        r"'json' - at `\$\.shards\[0\]\.format`",
    ),
    (lambda index: index["shards"][0].update(samples=-1), "no index of an MDS folder"),
    (lambda index: index["shards"][0].update(samples=10**30), "no index of an MDS folder"),
    (lambda index: index["shards"][0].update(samples=10**12), "1000000000000 samples in"),
    (lambda index: index["shards"][0]["column_sizes"].pop(), "no index of an MDS folder"),
    (
        lambda index: index["shards"][0].update(column_encodings=["pkl", "int"]),
        "pickled values in the column image",
    ),
    (
        lambda index: index["shards"][0].update(column_encodings=["mine", "int"]),
        "the encoding 'mine'",
    ),
    (
        lambda index: index["shards"][0].update(column_encodings=["ndarray:object", "int"]),
        "'ndarray:object'",
    ),
    (lambda index: index["shards"][0]["raw_data"].update(bytes=99), "index.json says 99"),
    (
        lambda index: index["shards"][0]["raw_data"].update(basename="../shard.00000.mds"),
        "outside its folder",
    ),
    (
        lambda index: index["shards"][0]["raw_data"].update(basename="/etc/passwd"),
        "outside its folder",
    ),
    (
        lambda index: index["shards"][0]["raw_data"].update(basename="a/../../b"),
        "outside its folder",
    ),
    (lambda index: index["shards"][0]["raw_data"].update(basename="..\\b"), "outside its folder"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="C:b"), "outside its folder"),
    (lambda index: index["shards"][0]["raw_data"].update(basename="other.mds"), "is not a file"),
    *((text, "no index of an MDS folder") for text in (b"", b"{", b"[]", b"[" * 100_000, b"\xff")),
]


@pytest.mark.parametrize(("change", "message"), BAD_INDEXES)
def test_bad_indexes(
    tmp_path: Path, change: Callable[[dict[str, Any]], object] | bytes, message: str
) -> None:
    """An index that does not hold what it must, or is no JSON, is one sentence."""
    folder = numbered(tmp_path / "mds")
    if isinstance(change, bytes):
        put(folder, {"index.json": change})
    else:
        changed_index(folder, change)

    assert_refused(message, folder, by=MdsDataset)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": "x"}, "no column 'x' for image="),
        ({"label": "image"}, "jpeg values in the column image, which is unfit for label="),
        ({"image": "label"}, "int values in the column label, which is unfit for image="),
        ({"columns": ["x"]}, "no column 'x' for columns="),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """A column that is not there or holds something else is one sentence."""
    assert_refused(message, numbered(tmp_path), by=MdsDataset, **options)


def test_bad_folders(tmp_path: Path) -> None:
    """No folder, the folder above, a shard that is cut off."""
    shard = numbered(tmp_path / "mds") / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes()[:-5])
    for folder, message in (
        (tmp_path / "nowhere", "holds no index"),
        (tmp_path, r"give one of its splits, such as .*mds"),
        (tmp_path / "mds", r"copy the folder again"),
    ):
        assert_refused(message, folder, by=MdsDataset)


@pytest.mark.parametrize("how", ["gone", "longer", "foreign", "a folder"])
def test_a_shard_lost_before_its_first_use(tmp_path: Path, how: str) -> None:
    """Its samples are BadSamples, those of other shards are not, and nothing else is raised."""
    folder = numbered(tmp_path / "mds", num_samples=20, size_limit=400)
    dataset = MdsDataset(folder)
    lost = sorted(folder.glob("*.mds"))[1]
    before = lost.read_bytes()
    lost.unlink()
    if how == "a folder":
        lost.mkdir()
    elif how != "gone":
        lost.write_bytes(before + b"x" if how == "longer" else bytes(len(before)))
    if how == "foreign":
        dataset = MdsDataset(folder)

    entries = fetch_all(dataset)
    bad = [entry for entry in entries if isinstance(entry, BadSample)]

    assert 0 < len(bad) < len(entries)
    assert {entry.key.split("/")[0] for entry in bad} == {lost.name}
    reason = (
        "does not begin like an MDS shard" if how == "foreign" else "the shard cannot be read: "
    )
    assert all(reason in entry.reason for entry in bad)
    assert str(tmp_path) not in bad[0].reason
    assert len(list(dataset.verify())) == len(bad)


def test_half_characters_in_the_index(tmp_path: Path) -> None:
    """A name that no file can have is refused; the name of a column is only a name."""
    folder = numbered(tmp_path / "mds")
    changed_index(folder, lambda index: index["shards"][0]["column_names"].__setitem__(1, "\ud800"))
    dataset = MdsDataset(folder)
    assert (dataset.fetch([3])[0].fields["\ud800"], len(dataset.fingerprint)) == (b"3", 32)

    changed_index(folder, lambda index: index["shards"][0]["raw_data"].update(basename="\ud800"))
    assert_refused(r"index\.json", folder, by=MdsDataset)
