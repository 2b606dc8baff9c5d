"""Files made to hang, to end the process or to take all memory are refused, with the reason."""

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpu_aug import Recipe, RecipeError
from readers import open_dataset
from tests.support.opening import assert_refused
from tests.support.tars import tar_of

LIMIT = 100_000


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more than 100 kB for a sample or a unit of decompression."""
    monkeypatch.setenv("GPU_AUG_MAX_SAMPLE_BYTES", str(LIMIT))


@pytest.mark.parametrize(
    ("name", "text", "least"),
    [
        ("GPU_AUG_MAX_SAMPLE_BYTES", "0", 1),
        ("GPU_AUG_COPIED_BYTES", "1 MB", 0),
    ],
)
def test_a_limit_that_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, least: int
) -> None:
    """It is said when data is opened, in the same words for every variable."""
    np.save(tmp_path / "images.npy", np.zeros((2, 3, 3, 3), np.uint8))
    monkeypatch.setenv(name, text)

    assert_refused(
        f"variable {name} is {text!r}: set it to .* from {least} on", tmp_path / "images.npy"
    )


def lmdb_page(number: int, flags: int, body: bytes, size: int = 4096) -> bytes:
    return (struct.pack("<QHHHH", number, 0, flags, 0, 0) + body).ljust(size, b"\0")


def test_lmdb_whose_branches_lead_to_one_page(tmp_path: Path) -> None:
    """Forty levels of pages, each of which points 200 times at the next: 200 ** 40 ways through 164 kB."""
    levels, fan = 40, 200
    free = struct.pack("<IHHQQQQQ", 4096, 0, 0, 0, 0, 0, 0, 2**64 - 1)
    main = struct.pack("<IHHQQQQQ", 0, 0, 20, levels - 1, 1, 0, 1, 2)
    pages = [
        lmdb_page(
            number,
            8,
            struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, (levels + 2) * 4096)
            + free
            + main
            + struct.pack("<QQ", levels + 1, number),
        )
        for number in (0, 1)
    ]
    for number in range(2, levels + 2):
        child = min(number + 1, levels + 1)
        upper = 4096 - 8 * fan
        places = b"".join(struct.pack("<H", upper + 8 * place) for place in range(fan))
        head = struct.pack("<QHHHH", number, 0, 1, 16 + 2 * fan, upper)
        pages.append(
            (head + places).ljust(upper, b"\0") + struct.pack("<HHHH", child, 0, 0, 0) * fan
        )
    path = tmp_path / "fan.mdb"
    path.write_bytes(b"".join(pages))

    assert_refused("pages known before", path)


def test_hdf5_heap_whose_free_space_takes_no_space(tmp_path: Path) -> None:
    """HDF5's library goes round for ever in such a heap, so that it must not be asked."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "heap.h5"
    with h5py.File(path, "w") as file:
        images = file.create_dataset("image", 4, h5py.vlen_dtype(np.uint8))
        for row in range(4):
            images[row] = np.frombuffer(b"\xff\xd8\xff" + bytes(50), np.uint8)
        file.create_dataset("text", data=["abc"] * 4, dtype=h5py.string_dtype())
        file["label"] = [1, 2, 3, 4]
    data, place, emptied = bytearray(path.read_bytes()), -1, 0
    while (place := data.find(b"GCOL", place + 1)) >= 0:
        size, at = struct.unpack_from("<Q", data, place + 8)[0], place + 16
        while at + 16 <= place + size:
            number, _, _, length = struct.unpack_from("<HHIQ", data, at)
            if number == 0:
                data[at + 8 : at + 16] = bytes(8)
                emptied += 1
                break
            at += 16 + (length + 7 & ~7)
    path.write_bytes(data)
    code = "import sys; from readers import open_dataset; print(open_dataset(sys.argv[1]).fetch(range(4))[3].label)"

    assert emptied
    options = {"capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run([sys.executable, "-c", code, str(path)], **options)
    assert done.stdout == "4\n", done.stderr


@pytest.mark.usefixtures("limited")
class TestMemory:
    def test_tar_that_is_compressed(self, tmp_path: Path) -> None:
        """A member of 10 MB that gzip made 10 kB of, and its neighbour."""
        tar = tar_of([("a.jpg", bytes(10_000_000)), ("b.jpg", bytes(100))])
        (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar))
        bad, good = open_dataset(tmp_path / "a.tar.gz", format="stream").iterate()

        assert "would take 10000000 bytes of memory, more than 100000" in bad.reason
        assert len(good.fields["jpg"]) == 100

    def test_parquet_pages(self, tmp_path: Path) -> None:
        """A column of 5 MB in 10 kB; the same number of small images is read."""
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        for name, size in (("large", 1_000_000), ("small", 1000)):
            table = pa.table({"image": [bytes(size)] * 5, "label": [0] * 5})
            pq.write_table(table, tmp_path / f"{name}.parquet", compression="zstd")

        large = open_dataset(tmp_path / "large.parquet").fetch(range(5))
        small = open_dataset(tmp_path / "small.parquet").fetch(range(5))

        assert all("more than 100000" in entry.reason for entry in large)
        assert all(len(entry.fields["image"]) == 1000 for entry in small)

    @pytest.mark.parametrize("chunks", [(1, 500, 400, 3), (1, 64, 64, 3)])
    def test_hdf5_rows(self, tmp_path: Path, chunks: tuple[int, ...]) -> None:
        """Rows of 600 kB of which nothing was ever written."""
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("image", (4, 500, 400, 3), np.uint8, chunks=chunks)
            file["label"] = [1, 2, 3, 4]

        assert_refused("a row would take 600000 bytes", tmp_path / "a.h5")

    def test_lines_of_a_manifest(self, tmp_path: Path) -> None:
        """A line whose JSON takes a hundred times its bytes."""
        lines = [{"image": "a.jpg", "label": 1}, {"image": "a.jpg", "x": [[]] * 10_000}]
        (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
        (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)))

        good, bad = open_dataset(tmp_path / "m.jsonl").fetch([0, 1])

        assert good.label == 1
        assert "more than 100000" in bad.reason


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("binary.yaml", bytes(range(256)), "cannot be read"),
        ("zero.yaml", b"version: 1\0", "0x00, which is no text"),
        ("deep.yaml", b"[" * 5000, r"deep.yaml:1: the file is too deep .* 100 deep"),
        ("deep.json", b"[" * 100_000, "100 deep"),
        ("indented.yaml", b"\n".join(b" " * depth + b"a:" for depth in range(300)), "100 deep"),
        (
            "laughs.yaml",
            b"a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10))
                for n in range(1, 9)
            ),
            "100000 values",
        ),
        ("itself.yaml", b"&a [*a]", "100 deep"),
        ("digits.json", b'{"version": ' + b"9" * 100_000 + b"}", "cannot be read as JSON"),
        ("large.yaml", b"version: 1\n#" + b"a" * (1 << 20), "may have 1048576 bytes"),
        ("wide.yaml", b"#" + "ä".encode() * (1 << 19), "may have 1048576 bytes"),
    ],
)
def test_recipe_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    """What is no text, too deep, too large or grows by references is one sentence."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RecipeError, match=said):
        Recipe.load(tmp_path / name)
