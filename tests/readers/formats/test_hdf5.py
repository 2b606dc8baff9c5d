"""HDF5: every way in which datasets keep their rows, and what leads out of the file."""

import io
import pickle
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from readers import BadSample, Sample, SourceError
from readers.formats.hdf5.chunks import _filters
from readers.formats.hdf5.dataset import Hdf5Dataset
from readers.video import read_seconds
from tests.readers.formats.conftest import answer_of_a_fork
from tests.support.damage import overwrite
from tests.support.opening import assert_refused

h5py = pytest.importorskip("h5py")

Jpeg = Callable[..., bytes]
NUM_ROWS = 23


@pytest.fixture(scope="module")
def images(jpeg: Jpeg) -> list[bytes]:
    return [jpeg(9 + number, 30, seed=number) for number in range(NUM_ROWS)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.h5"


def write_bytes(group: Any, name: str, rows: list[bytes], **options: Any) -> None:
    dataset = group.create_dataset(name, len(rows), h5py.vlen_dtype(np.uint8), **options)
    for number, row in enumerate(rows):
        dataset[number] = np.frombuffer(row, np.uint8)


def write_file(path: Path, rows: list[bytes] | None = None, **datasets: Any) -> Path:
    """Write a file of datasets by name; `rows` become images of variable length."""
    with h5py.File(path, "w") as file:
        if rows:
            write_bytes(file, "image", rows)
        for name, content in datasets.items():
            file[name] = content
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (4,)},
        {"chunks": (4,), "maxshape": (None,)},
        {"chunks": (64,), "maxshape": (None,)},
        {"chunks": (4,), "compression": "gzip"},
    ],
)
@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.usefixtures("every_payload_is_long")
def test_rows_of_bytes(
    path: Path, images: list[bytes], options: dict[str, Any], userblock: int
) -> None:
    """Rows of variable length are what h5py reads, at their places in the file."""
    with h5py.File(path, "w", userblock_size=userblock) as file:
        write_bytes(file, "image", images, **options)
        write_bytes(file, "other", [b"", b"x" * 70000, *[b"y"] * (NUM_ROWS - 2)], **options)
    with h5py.File(path) as file:
        expected = [row.tobytes() for row in file["image"]]
    samples = Hdf5Dataset(path).fetch([*range(NUM_ROWS), 3, 3])

    assert expected == images
    assert [bytes(sample.image) for sample in samples] == [*images, images[3], images[3]]
    assert [len(sample.fields["other"]) for sample in samples[:3]] == [0, 70000, 1]
    assert isinstance(samples[0].image, memoryview)


@pytest.mark.parametrize("name", ["video", "mp4", "videos"])
def test_videos(path: Path, name: str) -> None:
    """They are found under the names of videos, where there are no images."""
    with h5py.File(path, "w") as file:
        write_bytes(file, name, [b"one", b"two"])
        file["start_seconds"], file["end_seconds"] = [1.5, np.nan], [4.0, np.nan]
    samples = Hdf5Dataset(path).fetch([0, 1])

    assert [bytes(sample.video) for sample in samples] == [b"one", b"two"]
    assert [read_seconds(sample) for sample in samples] == [(1.5, 4.0), None]


def test_rows_that_were_never_written(path: Path, images: list[bytes]) -> None:
    """They are empty, as h5py has them."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("image", 12, h5py.vlen_dtype(np.uint8), chunks=(4,))
        dataset[5] = np.frombuffer(images[5], np.uint8)
    samples = Hdf5Dataset(path).fetch(range(12))

    assert [bytes(sample.image) for sample in samples] == [b""] * 5 + [images[5]] + [b""] * 6


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (5, 8, 4, 3)},
        {"chunks": (1, 4, 4, 1), "compression": "gzip", "shuffle": True},
        {"chunks": (30, 8, 8, 3), "compression": "lzf", "maxshape": (None, 8, 8, 3)},
    ],
)
@pytest.mark.parametrize("userblock", [0, 1024])
def test_pixels(path: Path, options: dict[str, Any], userblock: int) -> None:
    """Pixels become PPM files that OpenCV decodes to the array, in any storage and order."""
    array = np.random.default_rng(0).integers(0, 256, (NUM_ROWS, 8, 8, 3), np.uint8)
    with h5py.File(path, "w", userblock_size=userblock) as file:
        file.create_dataset("images", data=array, **options)
        file["labels"] = np.arange(NUM_ROWS)
    dataset = Hdf5Dataset(path)
    wanted = [20, 3, 4, 3, 0, 22, 21]
    samples = dataset.fetch(wanted)

    for index, sample in zip(wanted, samples, strict=True):
        decoded = cv2.imdecode(np.frombuffer(sample.image, np.uint8), cv2.IMREAD_COLOR)
        assert np.array_equal(decoded[..., ::-1], array[index])
        assert (sample.index, sample.label, sample.size) == (index, index, (8, 8))
    assert list(samples[0].fields) == ["ppm", "labels"]
    assert dataset.column("height").tolist() == [8] * NUM_ROWS
    num_chunk_rows = options.get("chunks", [1])[0]
    assert dataset.block_size == (num_chunk_rows if num_chunk_rows > 1 else 256)


def test_columns(path: Path, images: list[bytes]) -> None:
    """What each type becomes, names in groups, roles that are told, and columns that are left out."""
    columns = {
        "cls": [str(number % 3) for number in range(NUM_ROWS)],
        "name": np.array([f"ä{number}" for number in range(NUM_ROWS)], h5py.string_dtype()),
        "short": np.array([b"x%d" % number for number in range(NUM_ROWS)]),
        "opaque": np.array([bytes([number, 0]) for number in range(NUM_ROWS)], "V2"),
        "score": np.arange(NUM_ROWS, dtype=">f4") / 2,
        "flag": np.arange(NUM_ROWS) % 2 == 0,
        "box": np.arange(NUM_ROWS * 4).reshape(-1, 4),
        "depth": np.arange(NUM_ROWS * 6, dtype="i2").reshape(-1, 2, 3),
    }
    with h5py.File(path, "w") as file:
        group = file.create_group("train")
        write_bytes(group, "photo", images)
        for name, column in columns.items():
            group[name] = column
        group.create_dataset("points", NUM_ROWS, h5py.vlen_dtype(np.float32))[3] = [1.5, 2]
        file["other"] = np.zeros(NUM_ROWS + 1)
    options = {"image": "train/photo", "label": "train/cls", "key": "train/name"}
    dataset = Hdf5Dataset(path, **options)
    [sample] = dataset.fetch([3])
    [fewer] = Hdf5Dataset(path, **options, columns=["train/box"]).fetch([3])
    fields = {name.partition("/")[2]: bytes(data) for name, data in sample.fields.items()}
    depth = np.load(io.BytesIO(fields.pop("depth")))

    assert (sample.key, sample.label, bytes(sample.image)) == ("a.h5/ä3", 0, images[3])
    assert np.array_equal(depth, np.arange(18, 24).reshape(2, 3))
    assert fields == {
        "photo": images[3],
        "cls": b"0",
        "name": "ä3".encode(),
        "short": b"x3",
        "opaque": b"\x03\0",
        "score": b"1.5",
        "flag": b"false",
        "box": b"[12,13,14,15]",
        "points": b"[1.5,2.0]",
    }
    assert dataset.column("label").tolist() == [number % 3 for number in range(NUM_ROWS)]
    assert list(fewer.fields) == ["train/box", "train/photo"]
    assert (fewer.label, fewer.key) == (0, "a.h5/ä3")


@pytest.mark.parametrize(
    ("dtype", "shape", "name"),
    [
        ("u1", (100,), "label"),
        (">i4", (100, 1), "y"),
        ("f4", (100,), "y"),
        ("?", (100, 1), "label"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"chunks": True, "compression": "gzip"}])
def test_labels_are_read_at_once(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    shape: tuple[int, ...],
    name: str,
    options: dict[str, Any],
) -> None:
    """Numbers, mapped or compressed: what h5py reads, and none of them is looked at by itself."""
    labels = (np.arange(100) % 9).reshape(shape).astype(dtype)
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((100, 2, 2), np.uint8)
        file.create_dataset(name, data=labels, **options)
    asked = None if np.dtype(dtype).kind in "iu" else name  # y of decimals may be anything
    dataset = Hdf5Dataset(path, label=asked)
    expected = labels.astype(int).ravel().tolist()
    assert [entry.label for entry in dataset.fetch(range(100))] == expected
    monkeypatch.setattr("readers.formats.hdf5.dataset.to_label", None)

    assert dataset.column("label").tolist() == expected


def test_a_damaged_chunk(path: Path) -> None:
    """The rows of a chunk that cannot be decompressed are BadSamples, their neighbours are not."""
    array = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=array, chunks=(4, 8, 8, 3), compression="gzip")
        place = file["image"].id.get_chunk_info(1).byte_offset
    entries = Hdf5Dataset(overwrite(path, place, bytes(40))).fetch(range(12))

    assert [entry.index for entry in entries if isinstance(entry, BadSample)] == [4, 5, 6, 7]
    assert all(e.image.endswith(array[e.index].tobytes()) for e in entries if isinstance(e, Sample))


@pytest.mark.parametrize(
    ("at", "code", "value"),
    [(0, "<I", 1 << 31), (4, "<Q", 1 << 62), (4, "<Q", 0), (12, "<I", 9999)],
)
def test_damaged_heaps_are_bad_samples(
    path: Path, images: list[bytes], at: int, code: str, value: int
) -> None:
    """Lengths, addresses and numbers that lead elsewhere give BadSamples, never other bytes."""
    with h5py.File(write_file(path, images)) as file:
        place = file["image"].id.get_offset()
    overwrite(path, place + 16 * 7 + at, struct.pack(code, value))
    entries = Hdf5Dataset(path).fetch(range(NUM_ROWS))

    assert "damaged" in entries.pop(7).reason
    assert [bytes(entry.image) for entry in entries] == images[:7] + images[8:]


def test_what_leads_out_of_the_file(tmp_path: Path, path: Path, images: list[bytes]) -> None:
    """Links, external storage and virtual datasets are passed over, and refused where they are named."""
    write_file(tmp_path / "b.h5", images, secret=np.arange(NUM_ROWS))
    (tmp_path / "raw").write_bytes(bytes(8 * NUM_ROWS))
    external = [(tmp_path / "raw", 0, 8 * NUM_ROWS)]
    layout = h5py.VirtualLayout(NUM_ROWS, "i8")
    layout[:] = h5py.VirtualSource("b.h5", "secret", NUM_ROWS)
    with h5py.File(write_file(path, images), "a") as file:
        file["linked"] = h5py.ExternalLink("b.h5", "/secret")
        file["soft"] = h5py.SoftLink("/linked")
        file["hard"] = file["image"]
        file.create_dataset("elsewhere", NUM_ROWS, "i8", external=external)
        file.create_virtual_dataset("virtual", layout)
    [sample] = Hdf5Dataset(path).fetch([3])

    assert list(sample.fields) == ["hard", "image"]
    for name in ("linked", "soft", "elsewhere", "virtual"):
        message = f"a.h5: {name} (is a link|keeps its rows|is put together)"
        assert_refused(message, path, by=Hdf5Dataset, label=name)


@pytest.mark.parametrize(
    ("dtype", "match"),
    [
        ([("a", "i4"), ("b", "f4")], "compound"),
        (h5py.ref_dtype, "references"),
        ("c8", "type complex64"),
    ],
)
def test_types_that_are_no_columns(path: Path, images: list[bytes], dtype: Any, match: str) -> None:
    """References and compound types are refused by name, and passed over where nobody asks."""
    with h5py.File(write_file(path, images), "a") as file:
        file.create_dataset("odd", NUM_ROWS, dtype)
        file["scalar"] = 7
    [sample] = Hdf5Dataset(path).fetch([0])

    assert list(sample.fields) == ["image"]
    assert_refused(f"a.h5: odd .*{match}", path, by=Hdf5Dataset, columns=["image", "odd"])
    with h5py.File(path, "a") as file:
        file.move("odd", "label")
    assert_refused(f"a.h5: label .*{match}.* with columns=", path, by=Hdf5Dataset)
    assert Hdf5Dataset(path, columns=["image"]).fetch([0])[0].label == -1


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("nowhere.h5", {}, "not a file"),
        ("cut.h5", {}, "cut off"),
        ("text.h5", {}, "no HDF5"),
        ("none.h5", {}, r"no dataset of images or videos with any rows.*image="),
        ("a.h5", {"image": "photo"}, "no dataset 'photo': its datasets are"),
        ("a.h5", {"label": "label"}, f"label has {NUM_ROWS + 1} rows"),
        ("a.h5", {"image": "floats"}, "are no images"),
    ],
)
def test_bad_files_are_refused(
    path: Path, images: list[bytes], name: str, options: dict[str, Any], match: str
) -> None:
    """Missing, foreign, cut off and empty files, missing datasets and other lengths."""
    floats = np.zeros((NUM_ROWS, 8, 8, 3), "f4")
    write_file(path, images, label=np.zeros(NUM_ROWS + 1, int), floats=floats)
    path.with_name("cut.h5").write_bytes(path.read_bytes()[:-100])
    path.with_name("text.h5").write_bytes(b"text")
    write_file(path.with_name("none.h5"), image=np.zeros((0, 8, 8, 3), np.uint8))

    assert_refused(match, path.with_name(name), by=Hdf5Dataset, **options)


def test_after_a_fork(path: Path, images: list[bytes]) -> None:
    """A process that was forked while another thread was reading opens the file for itself."""
    with h5py.File(path, "w") as file:
        write_bytes(file, "image", images, chunks=(4,), compression="gzip")
    dataset = Hdf5Dataset(path)
    dataset.fetch([0])
    with dataset._file.get().lock:  # as that thread has it, which the child lacks
        assert answer_of_a_fork(
            lambda: [bytes(entry.image) for entry in dataset.fetch(range(9))] == images[:9]
        )

    assert bytes(dataset.fetch([8])[0].image) == images[8]


def test_threads_and_pickling(path: Path, images: list[bytes]) -> None:
    """Threads and other processes read the same, through h5py as well."""
    with h5py.File(path, "w") as file:
        write_bytes(file, "image", images, chunks=(4,), compression="gzip")
        file["label"] = np.arange(NUM_ROWS)
    dataset = pickle.loads(pickle.dumps(Hdf5Dataset(path, columns=["image"])))
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(lambda start: dataset.fetch(range(start, NUM_ROWS)), range(20)))

    for start, batch in enumerate(batches):
        assert [entry.label for entry in batch] == list(range(start, NUM_ROWS))
        assert [bytes(entry.image) for entry in batch] == images[start:]
        assert list(batch[0].fields) == ["image"]


@pytest.mark.parametrize("how", ["gone", "replaced", "no HDF5"])
def test_a_file_lost_before_its_first_use(path: Path, how: str) -> None:
    """Every sample is a BadSample, in the order asked for."""
    dataset = Hdf5Dataset(write_file(path, image=np.zeros((4, 3, 3), np.uint8)))
    path.unlink()
    if how == "replaced":
        write_file(path, image=np.zeros((2, 3, 3), np.uint8))
    elif how == "no HDF5":
        path.write_bytes(b"x" * 5000)
    entries = dataset.fetch([3, 0, 3])

    assert all(isinstance(entry, BadSample) for entry in entries)
    assert [entry.index for entry in entries] == [3, 0, 3]
    assert entries[0].key == "a.h5/3"
    assert str(path.parent) not in entries[0].reason


def test_damaged_files_are_refused_in_one_sentence(path: Path) -> None:
    """Wherever 64 bytes are overwritten, h5py's own errors do not come through."""
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=np.zeros((4, 3, 3), np.uint8), chunks=(1, 3, 3))
        file["label"] = np.arange(4)
        file.create_group("more")["text"] = ["a", "b"]
    whole = path.read_bytes()
    refusals = []
    for place in range(0, min(len(whole), 4096), 80):
        path.write_bytes(whole[:place] + bytes(64) + whole[place + 64 :])
        try:
            dataset = Hdf5Dataset(path)
        except SourceError as error:
            refusals.append(str(error))
        else:
            assert len(dataset.fetch([0, len(dataset) - 1])) == 2
    assert len(refusals) > 5
    assert not any("\n" in text for text in refusals)


def test_names_that_are_no_text(path: Path) -> None:
    """Datasets and groups with bytes for names that are not UTF-8 are passed over."""
    write_file(path, image=np.zeros((2, 3, 3), np.uint8))
    with h5py.File(path, "a") as file:
        file[b"\xff\xed\xa0\x80"] = np.arange(2)
        file.create_group(b"\xfe")["label"] = np.arange(2)

    assert [list(sample.fields) for sample in Hdf5Dataset(path).fetch([0, 1])] == [["pgm"]] * 2


def test_a_dataset_that_is_compressed_twice(path: Path) -> None:
    """It takes no other with it, and is refused by its name where it is asked for."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((2,))
    plan.set_deflate(1)
    plan.set_deflate(1)
    space = h5py.h5s.create_simple((2,))
    with h5py.File(path, "w") as file:
        file["image"] = np.zeros((2, 3, 3), np.uint8)
        h5py.h5d.create(file.id, b"other", h5py.h5t.NATIVE_INT64, space, plan)

    assert len(Hdf5Dataset(path).fetch([0, 1])) == 2
    assert_refused(
        r"a\.h5: other is compressed twice by deflate: write it",
        path,
        by=Hdf5Dataset,
        label="other",
    )


def test_labels_of_another_number_are_told(path: Path) -> None:
    """Three images and two labels: no label is taken, and that is said."""
    pixels = np.zeros((3, 4, 4, 3), np.uint8)
    dataset = Hdf5Dataset(write_file(path, images=pixels, labels=[1, 2]))

    assert dataset.fetch([0])[0].label == -1
    [remark] = dataset.remarks
    assert "labels has 2 rows and images has 3" in remark


def test_filters_of_chunks_are_known_by_their_codes(path: Path) -> None:
    """Those that the library numbers, in the order in which they are used on writing."""
    with h5py.File(path, "w") as file:
        rows = file.create_dataset("a", (8,), "i4", chunks=(4,), shuffle=True, compression="gzip")
        assert _filters(rows) == [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE]


def test_a_choice_is_said(path: Path) -> None:
    """Of two columns that may be the label the one taken is named."""
    pixels = np.zeros((1, 4, 4, 3), np.uint8)
    dataset = Hdf5Dataset(write_file(path, images=pixels, coarse_label=[1], fine_label=[7]))

    assert dataset.column("label").tolist() == [7]
    assert "fine_label was taken; say label='fine_label'" in dataset.remarks[-1]
