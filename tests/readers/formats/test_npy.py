"""Arrays in .npy files: images as files that decoders read, everything else is refused."""

import os
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from readers import SourceError, read_header
from readers.formats.npy import NpyDataset
from tests.support.annotated import put
from tests.support.opening import assert_refused


def save(path: Path, array: NDArray[np.generic]) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("shape", [(5, 7, 4, 3), (5, 7, 4), (5, 7, 4, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_images_decode_to_the_array(tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
    """OpenCV decodes each row to the pixels in the array, RGB, however the array is stored."""
    array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    dataset = NpyDataset(save(tmp_path / "a.npy", np.asarray(array, order=order)))
    samples = dataset.fetch([4, 0, 4])

    for sample, row in zip(samples, array[[4, 0, 4]], strict=True):
        decoded = cv2.imdecode(np.frombuffer(sample.image, np.uint8), cv2.IMREAD_UNCHANGED)
        expected = row[..., ::-1] if shape[3:] == (3,) else row.reshape(7, 4)
        assert np.array_equal(decoded, expected)
        header = read_header(sample.image)
        assert (header.height, header.width) == sample.size == (7, 4)
    assert samples[0].image_field == ("ppm" if shape[3:] == (3,) else "pgm")
    assert dataset.column("num_bytes").tolist() == [len(samples[0].image)] * 5
    assert dataset.block_size == 8 * 2**20 // len(samples[0].image)


@pytest.mark.parametrize(
    ("dtype", "shape", "advice"),
    [
        ("f4", (6,), "pixels are uint8"),
        ("u1", (6, 5), "pixels are uint8"),
        ("f4", (6, 8, 8, 3), r"array \* 255"),
        (">i2", (6, 8, 8), "pixels are uint8"),
        ("u1", (6, 3, 8, 8), "transpose"),
        ("u1", (6, 8, 8, 4), r"array\[\.\.\., :3\]"),
        ("u1", (480, 640, 3), r"one image is \[1, 480, 640, 3\]"),
        ("u1", (6, 4, 8, 8, 3), "pixels are uint8"),
        ("U2", (6,), "pixels are uint8"),
        ("V0", (6, 2), "pixels are uint8"),
        ([("x", "u1")], (6, 8, 8), "pixels are uint8"),
    ],
)
def test_rows_that_are_no_images_are_refused(
    tmp_path: Path, dtype: Any, shape: tuple[int, ...], advice: str
) -> None:
    """When the array is opened: the sentence says what it holds, and what to save instead."""
    path = save(tmp_path / "a.npy", np.zeros(shape, dtype))

    assert_refused(rf"a\.npy holds .*, which are no images: .*{advice}", path)


@pytest.mark.parametrize("name", ["val_images_labels.npy", "val_labels.npy", "labels.npy"])
def test_labels_beside(tmp_path: Path, name: str) -> None:
    """Labels are found under each of the usual names, unless they are not wanted."""
    path = save(tmp_path / "val_images.npy", np.zeros((3, 2, 2, 3), np.uint8))
    save(tmp_path / name, np.array([[5], [6], [7]], np.int8))
    dataset = NpyDataset(path)

    assert [sample.label for sample in dataset.fetch([2, 0])] == [7, 5]
    assert dataset.column("label").tolist() == [5, 6, 7]
    assert NpyDataset(path, labels=False).column("label").tolist() == [-1, -1, -1]
    assert NpyDataset(path, labels=False).fingerprint != dataset.fingerprint


@pytest.mark.parametrize("labels", [np.zeros(4, int), np.zeros(3), np.zeros((3, 2), int)])
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, labels: NDArray[np.generic]) -> None:
    """Too many, of fractions, or two a row: refused with the name of the file."""
    path = save(tmp_path / "a.npy", np.zeros((3, 2, 2, 3), np.uint8))
    save(tmp_path / "labels.npy", labels)

    assert_refused(r"labels.npy must be 3 whole numbers.*labels=False", path, by=NpyDataset)


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are refused."""
    folder = tmp_path_factory.mktemp("odd")
    sound = save(folder / "a.npy", np.zeros((30, 20, 20, 3), np.uint8)).read_bytes()
    contents = {"cut": sound[:-1], "head": sound[:40], "text": b"no array, but text", "empty": b""}
    put(folder, {f"{name}.npy": content for name, content in contents.items()})
    np.savez(folder / "some.npz", np.zeros(3))
    shutil.copy(folder / "some.npz", folder / "zip.npy")
    np.save(folder / "objects.npy", np.array([{}, []], object), allow_pickle=True)
    save(folder / "scalar.npy", np.array(7))
    save(folder / "none.npy", np.zeros((0, 2, 2, 3), np.uint8))
    return folder


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nowhere.npy", "not a file"),
        ("cut.npy", "cut off at byte"),
        ("head.npy", "no .npy file"),
        ("text.npy", "no .npy file"),
        ("empty.npy", "no .npy file"),
        ("some.npz", "np.save"),
        ("zip.npy", "np.save"),
        ("objects.npy", "pickled"),
        ("scalar.npy", "one row at least"),
        ("none.npy", "one row at least"),
    ],
)
def test_bad_files_are_refused(odd_files: Path, name: str, match: str) -> None:
    """Missing, foreign, cut off, empty, archives and Python objects: each with what to do."""
    assert_refused(match, odd_files / name, by=NpyDataset)


def test_fingerprint_sees_pixels(tmp_path: Path) -> None:
    """One other pixel in a small array is another dataset, and the time of writing is not."""
    array = np.zeros((9, 20, 20, 3), np.uint8)
    before = NpyDataset(save(tmp_path / "a.npy", array)).fingerprint
    os.utime(tmp_path / "a.npy", ns=(0, 0))

    assert NpyDataset(tmp_path / "a.npy").fingerprint == before
    array[4, 3, 2, 1] = 1
    assert NpyDataset(save(tmp_path / "a.npy", array)).fingerprint != before


def test_damaged_headers(tmp_path: Path) -> None:
    """Wherever a byte of the header is another one, the array is read or refused, and nothing else."""
    whole = save(tmp_path / "a.npy", np.zeros((3, 2, 2, 3), np.uint8)).read_bytes()
    refusals = []
    for place, byte in product(range(6, 128), b"\xff\x00'9"):
        path = tmp_path / "b.npy"
        path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        try:
            NpyDataset(path).fetch([0])
        except SourceError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert not any("\n" in text for text in refusals)
