"""Arrow files and Hugging Face's saved datasets: formats, views, damage, and what is refused."""

import json
import os
import pickle
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers import BadSample, Sample, SourceError, open_dataset

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")
from readers.formats.arrow.dataset import ArrowDataset  # noqa: E402
from tests.readers.formats.conftest import answer_of_a_fork  # noqa: E402
from tests.support.annotated import put  # noqa: E402
from tests.support.damage import overwrite  # noqa: E402
from tests.support.opening import assert_refused  # noqa: E402


def write(
    path: Path,
    columns: dict[str, Any],
    *,
    stream: bool = False,
    rows: int = 8,
    codec: str | None = None,
) -> Path:
    table = pa.table(columns)
    options = ipc.IpcWriteOptions(compression=codec)
    open_writer = ipc.new_stream if stream else ipc.new_file
    with open_writer(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def payloads(dataset: ArrowDataset, indices: Any = None) -> list[bytes | None]:
    entries = dataset.fetch(range(len(dataset)) if indices is None else indices)
    return [bytes(each.image) if isinstance(each, Sample) else None for each in entries]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["binary", "large_binary", "binary_view", "dictionary"])
@pytest.mark.usefixtures("every_payload_is_long")
def test_every_layout(
    tmp_path: Path, images: list[bytes], stream: bool, codec: str | None, kind: str
) -> None:
    """Either format, compressed or not, of any type of bytes, with nulls, gives the bytes that were written."""
    rows = [*images[:20], None, *images[20:30]]
    kinds = {
        "binary": pa.binary(),
        "large_binary": pa.large_binary(),
        "binary_view": pa.binary_view(),
        "dictionary": pa.dictionary(pa.int32(), pa.binary()),
    }
    columns = {"image": pa.array(rows, kinds[kind]), "label": list(range(31))}
    dataset = ArrowDataset(write(tmp_path / "a.arrow", columns, stream=stream, codec=codec))
    order = np.random.default_rng(0).integers(0, 31, 100)

    assert payloads(dataset, order) == [rows[k] for k in order]
    assert (dataset.column("label").tolist(), dataset.block_size) == (list(range(31)), 8)
    is_view = isinstance(dataset.fetch([3])[0].image, memoryview)
    assert is_view or codec or kind not in ("binary", "large_binary")


@pytest.fixture(scope="module")
def hugging_face() -> Any:
    """Hugging Face's library, without bars."""
    hf = pytest.importorskip("datasets")
    hf.disable_progress_bars()
    return hf


@pytest.fixture(scope="module")
def made(hugging_face: Any, images: list[bytes]) -> Any:
    """A dataset of theirs."""
    features = hugging_face.Features(
        {
            "image": hugging_face.Image(decode=False),
            "label": hugging_face.ClassLabel(names=["cat", "dog", "owl"]),
            "text": hugging_face.Value("string"),
        }
    )
    rows = {
        "image": [{"bytes": image, "path": f"{k}.png"} for k, image in enumerate(images)],
        "label": [k % 3 for k in range(60)],
        "text": [f"number {k}" for k in range(60)],
    }
    return hugging_face.Dataset.from_dict(rows, features=features)


@pytest.mark.parametrize("shuffled", [False, True])
def test_saved_to_disk(made: Any, hugging_face: Any, tmp_path: Path, shuffled: bool) -> None:
    """A folder of save_to_disk gives the rows that load_from_disk gives, in its order."""
    saved = made.shuffle(seed=1).select(range(40)) if shuffled else made
    saved.save_to_disk(tmp_path / "s", num_shards=3)
    read_back = hugging_face.load_from_disk(tmp_path / "s")
    dataset = open_dataset(tmp_path / "s")
    found = [(s.label, bytes(s.image), bytes(s.fields["text"]).decode()) for s in dataset]

    assert found == [(row["label"], row["image"]["bytes"], row["text"]) for row in read_back]
    assert dataset.class_names == ("cat", "dog", "owl")


def test_cache_of_hugging_face(made: Any, hugging_face: Any, tmp_path: Path) -> None:
    """What load_dataset keeps is a stream; results of map and the like beside it are none of it."""
    made.to_parquet(tmp_path / "a.parquet")
    cached = hugging_face.Dataset.from_parquet(
        str(tmp_path / "a.parquet"), cache_dir=str(tmp_path / "cache")
    )
    folder = Path(cached.cache_files[0]["filename"]).parent
    cached.shuffle(seed=0)  # leaves cache-*.arrow there
    raw = made[:]

    assert payloads(ArrowDataset(folder)) == [row["bytes"] for row in raw["image"]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # Rows selected by a file of indices would come in the wrong order.
        (
            {"_indices_data_files": [{"filename": "indices.arrow"}]},
            r"a selection of its rows by indices.*save it again",
        ),
        # A folder names its own files only.
        (
            {"_data_files": [{"filename": "../other.arrow"}]},
            r"'\.\./other\.arrow', which is not a file of that folder",
        ),
    ],
)
def test_files_outside_of_the_folder_are_refused(
    made: Any, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """So are saved datasets that are a selection of their rows."""
    made.save_to_disk(tmp_path / "s")
    shutil.copy(tmp_path / "s" / "data-00000-of-00001.arrow", tmp_path / "other.arrow")
    state = tmp_path / "s" / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | changes))

    assert_refused(message, tmp_path / "s", by=ArrowDataset)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_and_pickle(tmp_path: Path, images: list[bytes]) -> None:
    """A forked child, and a copy made from a pickle, read for themselves."""
    dataset = ArrowDataset(write(tmp_path / "a.arrow", {"image": pa.array(images)}))
    expected = payloads(dataset)
    with (
        dataset._recent.get()._lock,
        dataset._files[0]._lock.get(),
    ):  # as if another thread held them
        assert answer_of_a_fork(lambda: payloads(dataset) == expected)
    assert payloads(pickle.loads(pickle.dumps(dataset))) == expected


def test_fingerprint_sees_a_changed_byte(tmp_path: Path, images: list[bytes]) -> None:
    """Labels that change places make other data; a copy made later does not."""
    columns = {"image": pa.array(images[:2]), "label": [0, 1]}
    path = write(tmp_path / "a.arrow", columns)
    before = ArrowDataset(path).fingerprint
    os.utime(path, (1, 1))

    assert ArrowDataset(path).fingerprint == before
    assert ArrowDataset(write(path, columns | {"label": [1, 0]})).fingerprint != before


def test_random_damage_never_escapes(tmp_path: Path, images: list[bytes]) -> None:
    """Whatever bytes a file holds, it is refused, or each sample is there or is a BadSample."""
    rng = np.random.default_rng(5)
    rows = [image[-2_000:] for image in images]
    columns = {"image": pa.array(rows), "label": list(range(60)), "text": ["a"] * 60}
    for number in range(60):
        codec = ("lz4", None, "zstd")[number % 3]
        path = write(tmp_path / "a.arrow", columns, stream=bool(number % 2), codec=codec)
        content = bytearray(path.read_bytes())
        for place in (
            *rng.integers(0, min(len(content), 3000), 6),
            *rng.integers(0, len(content), 6),
        ):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        with suppress(SourceError):
            dataset = ArrowDataset(path)
            for entry in dataset.fetch(range(min(len(dataset), 60))):
                assert isinstance(entry, Sample | BadSample)
                _ = [bytes(each) for each in getattr(entry, "fields", {}).values()]


def test_impossible_offsets_are_bad_samples(tmp_path: Path, images: list[bytes]) -> None:
    """Lists that would lie behind the end of their values are told before they are looked up."""
    columns = {"image": pa.array(images[:16]), "boxes": [[k, k] for k in range(16)]}
    path = write(tmp_path / "a.arrow", columns)
    place = path.read_bytes().index(np.arange(0, 18, 2, dtype=np.int32).tobytes())
    entries = ArrowDataset(overwrite(path, place + 16, struct.pack("<i", 1 << 30))).fetch(range(16))

    assert [type(entry) for entry in entries] == [BadSample] * 8 + [Sample] * 8


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory, images: list[bytes]) -> Path:
    """A folder with good files, whole.arrow and stream.arrow, and those that are refused."""
    folder = tmp_path_factory.mktemp("odd")
    whole = write(folder / "whole.arrow", {"image": pa.array(images), "label": [0] * 60})
    stream = write(folder / "stream.arrow", {"image": pa.array(images)}, stream=True)
    write(folder / "text.arrow", {"image": ["a.jpg"]})
    write(folder / "none.arrow", {"image": pa.array([], pa.binary())})
    (folder / "folder").mkdir()
    contents = {
        "cut": whole.read_bytes()[:-100],
        "cutstream": stream.read_bytes()[:300_000],
        "foreign": images[0],
        "empty": b"",
    }
    return put(folder, {f"{name}.arrow": content for name, content in contents.items()})


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("cut.arrow", {}, "is no Arrow file, or is cut off"),
        ("cutstream.arrow", {}, "is no Arrow file, or is cut off"),
        ("foreign.arrow", {}, "is no Arrow file, or is cut off"),
        ("empty.arrow", {}, r"is empty \(0 bytes\)"),
        ("missing.arrow", {}, "cannot be read: No such file"),
        ("folder", {}, "holds no .arrow files"),
        ("text.arrow", {}, "'image' .* holds string, not the bytes of images"),
        ("none.arrow", {}, "holds no rows"),
        ("whole.arrow", {"image": "photo"}, "no column 'photo' for image="),
        ("whole.arrow stream.arrow", {}, "has other columns than"),
        ("s3://a/b.arrow", {}, "lies elsewhere: download"),
    ],
)
def test_refusals(odd_files: Path, names: str, options: dict[str, Any], message: str) -> None:
    """What cannot be opened is told in one sentence that says what to do."""
    sources = [name if "://" in name else odd_files / name for name in names.split()]
    source = sources if len(sources) > 1 else sources[0]

    assert_refused(message, source, by=ArrowDataset, **options)


@pytest.mark.parametrize("stream", [False, True])
def test_names_that_are_no_text(tmp_path: Path, images: list[bytes], stream: bool) -> None:
    """A column whose name is not UTF-8 is refused in one sentence."""
    path = write(tmp_path / "a.arrow", {"image": images[:2], "QQQQ": [1, 2]}, stream=stream)
    path.write_bytes(path.read_bytes().replace(b"QQQQ", b"\xff\xed\xa0\x80"))

    assert_refused(r"a\.arrow is no Arrow file, or is cut off \(.*utf-8", path, by=ArrowDataset)


@pytest.mark.parametrize("in_stream", [False, True])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_batches_that_would_take_too_much_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_stream: bool, compression: str | None
) -> None:
    """What pyarrow says that a batch has is refused above the limit, unless it lies in the file as it is."""
    columns = {"image": [bytes(1000)] * 50, "text": pa.array(["x"] * 50).dictionary_encode()}
    path = write(tmp_path / "a.arrow", columns, stream=in_stream, rows=50, codec=compression)
    size = pa.array(columns["image"]).nbytes  # with offsets; the numbers of texts make 200 more

    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", str(size + 400))
    assert len(open_dataset(path)) == 50
    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", str(size - 1))
    if compression is None:
        assert len(open_dataset(path)) == 50
    else:
        assert_refused(r"a record batch would take 50\d{3} bytes", path)
