"""Images in memory, datasets of one's own, and what all datasets have: samples by number."""

import pickle
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from readers import (
    BadSample,
    CustomDataset,
    Sample,
    SelectionError,
    SourceError,
    from_arrays,
    mix,
    open_dataset,
)
from readers.describe import describe, few_of
from tests.support.jpegs import encode, picture

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 7, 5, 3), np.uint8)


def decoded(sample: Sample) -> Any:
    """What OpenCV makes of a sample's image, RGB or grey."""
    image = cv2.imdecode(np.frombuffer(sample.image, np.uint8), cv2.IMREAD_UNCHANGED)
    return image[..., ::-1] if image.ndim == 3 else image


class Photos(CustomDataset):
    """Six pictures, of which number 4 cannot be had."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: Any) -> Any:
        if index == 4:
            raise KeyError("no such picture")
        if index == 5:
            return b"no sample"
        return Sample(
            index,
            f"p{index}",
            {"jpg": encode(picture(16, 24, index + self.seed), "4:2:0")},
            index % 2,
        )


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (PIXELS, PIXELS),
        (PIXELS[..., 0], PIXELS[..., 0]),
        (PIXELS[..., :1], PIXELS[..., 0]),
        (np.asfortranarray(PIXELS), PIXELS),
        (PIXELS.transpose(0, 3, 1, 2), PIXELS),
        (torch.from_numpy(PIXELS.transpose(0, 3, 1, 2).copy()), PIXELS),
        (torch.from_numpy(PIXELS), PIXELS),
        (list(PIXELS), PIXELS),
        ([torch.from_numpy(one).permute(2, 0, 1) for one in PIXELS], PIXELS),
    ],
    ids=lambda value: describe(value),
)
def test_pixels(images: Any, expected: Any) -> None:
    """OpenCV reads of every sample the pixels of the array, wherever the channels stand."""
    dataset = from_arrays(images, range(6))
    samples = dataset.fetch([5, 0, 5])

    for sample, image in zip(samples, expected[[5, 0, 5]], strict=True):
        assert isinstance(sample, Sample)
        assert np.array_equal(decoded(sample), image)
        assert sample.size == (7, 5)
    assert [sample.label for sample in dataset] == list(range(6))
    assert dataset.column("height").tolist() == [7] * 6
    assert dataset.column("num_bytes").tolist() == [len(samples[0].image)] * 6


def test_labels_that_are_vectors() -> None:
    """Several classes at once: a row for each image, which other rows do not equal in a fingerprint."""
    vectors = np.eye(6, 4)
    dataset = from_arrays(PIXELS, vectors)

    assert dataset.label_shape == (4,)
    assert np.array_equal(np.stack([sample.label for sample in dataset]), vectors)
    assert dataset[0].label.dtype == np.float32  # type: ignore[union-attr]
    assert dataset.column("label").tolist() == [-1] * 6
    assert from_arrays(PIXELS, torch.from_numpy(vectors)).fingerprint == dataset.fingerprint
    assert from_arrays(PIXELS, vectors * 2).fingerprint != dataset.fingerprint
    with pytest.raises(SourceError, match=r"ndarray of float64 \[5, 4\] do not fit"):
        from_arrays(PIXELS, vectors[:5])


def test_labels_that_are_text() -> None:
    """They are numbered in sorted order, or as the classes are named."""
    texts = ["b", "a", "b", "", "c", "a"]

    assert from_arrays(PIXELS, texts).column("label").tolist() == [1, 0, 1, -1, 2, 0]
    assert from_arrays(PIXELS, np.array(texts)).classes == ("a", "b", "c")
    named = from_arrays(PIXELS, texts, class_names=("c", "b", "a"))
    assert [sample.label for sample in named] == [1, 2, 1, -1, 0, 2]
    with pytest.raises(SourceError, match=r"labels\[4\].*'c'"):
        from_arrays(PIXELS, texts, class_names=("a", "b"))
    with pytest.raises(SourceError, match=r"list of 6 entries do not fit.*with_labels"):
        from_arrays(PIXELS, [*texts[:5], 1])  # type: ignore[list-item]


def test_several_sizes_and_where() -> None:
    """A list of images of several sizes has columns as every dataset."""
    dataset = from_arrays(
        [np.zeros((8, n, 3), np.uint8) for n in (4, 9, 20)], [0, 1, 0], class_names=["a", "b"]
    )

    assert [one.size for one in dataset.where("width > 5")] == [(8, 9), (8, 20)]
    assert dataset.where("label == 'b'").column("width").tolist() == [9]
    assert (dataset.classes, from_arrays(PIXELS)[0].label) == (("a", "b"), -1)


def test_the_fingerprint_of_arrays() -> None:
    """Equal data has one wherever it lies; a changed pixel, label or class name has another."""
    changed = PIXELS.copy()
    changed[3, 2, 1, 0] ^= 1
    base = from_arrays(PIXELS, range(6)).fingerprint
    same = (
        from_arrays(list(PIXELS), range(6)),
        pickle.loads(pickle.dumps(from_arrays(PIXELS, range(6)))),
    )
    other = (
        from_arrays(changed, range(6)),
        from_arrays(PIXELS, [0, 1, 2, 3, 4, 4]),
        from_arrays(PIXELS, range(6), class_names=list("abcdef")),
        from_arrays(PIXELS.reshape(6, 5, 7, 3), range(6)),
    )

    assert {one.fingerprint for one in same} == {base}
    assert base not in {one.fingerprint for one in other}


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (
            PIXELS.astype(np.float32),
            None,
            r"ndarray of float32 \[6, 7, 5, 3\] are no images.* \* 255",
        ),
        (PIXELS.astype(np.int64), None, "ndarray of int64.*convert them to uint8"),
        (np.zeros((6, 9, 9, 4), np.uint8), None, r"RGBA give images\[\.\.\., :3\]"),
        (np.zeros((32, 48, 3), np.uint8), None, r"one image give images\[None\]"),
        (np.zeros((0, 4, 4, 3), np.uint8), None, "at least one image"),
        ([], None, "images is empty"),
        (
            [PIXELS[0], PIXELS[0].astype(np.float64)],
            None,
            r"images\[1\]=ndarray of float64 \[7, 5, 3\] is no image",
        ),
        ([PIXELS[0], "a.jpg"], None, r"images\[1\]=the path 'a\.jpg' is no image"),
        (5, None, "images=the int 5 is no array"),
        (
            PIXELS,
            [0, 1],
            r"labels=list of 2 entries do not fit: give one whole number for each of the 6",
        ),
        (PIXELS, np.zeros(6), r"labels=ndarray of float64 \[6\] do not fit"),
        (PIXELS, [0, 1, 2, 3, 4, -2], "hold -2 to 4"),
    ],
    ids=lambda value: describe(value)[:40],
)
def test_what_is_refused(images: Any, labels: Any, message: str) -> None:
    """Type and shape are told, never the values."""
    with pytest.raises(SourceError, match=message) as error:
        from_arrays(images, labels)
    assert len(str(error.value)) < 260


def test_own_dataset() -> None:
    """Two methods give selections, columns, a fingerprint; what they raise or return wrongly is a bad sample."""
    photos = Photos()
    bad, wrong = photos.fetch([4, 5])

    assert isinstance(bad, BadSample)
    assert bad.reason == "KeyError: 'no such picture'"
    assert isinstance(wrong, BadSample)
    assert "returned bytes of 9 bytes: return a readers.Sample" in wrong.reason
    with pytest.raises(SourceError, match=r"4 .*no such picture.*; 2 of 6 samples have a label"):
        photos.column("label")
    assert photos.column("width").tolist() == [24] * 4 + [0, 0]
    assert [sample.key for sample in photos.take(4).where("label == 1")] == ["p1", "p3"]
    assert sorted(len(part) for part in photos.split(0.5, 0.5)) == [3, 3]
    assert len(photos.take(4).balanced()) == 4
    assert (
        photos.fingerprint == Photos().fingerprint == pickle.loads(pickle.dumps(photos)).fingerprint
    )
    assert photos.fingerprint != Photos(seed=1).fingerprint


def test_a_class_without_both_methods_is_refused() -> None:
    """When it is defined, and `fetch` alone is enough."""
    with pytest.raises(TypeError, match="Empty has neither __getitem__ nor fetch"):
        type("Empty", (CustomDataset,), {"__len__": lambda _: 0})

    class Fetching(CustomDataset):
        def __len__(self) -> int:
            return 3

        def fetch(self, indices: Any) -> Any:
            return [Sample(int(index), str(index), {}, 2) for index in indices]

    assert (Fetching()[-1].key, Fetching().column("label").tolist()) == ("2", [2, 2, 2])


def test_samples_by_number() -> None:
    """As of a list; a bad one is an error with its reason."""
    dataset = from_arrays(PIXELS, range(6))

    assert dataset[np.int64(2)].label == dataset[-4].label == 2
    assert [sample.label for sample in dataset[1:6:2]] == [1, 3, 5]
    with pytest.raises(IndexError, match="-6 <= index < 6, got 6"):
        dataset[6]
    with pytest.raises(TypeError, match=r"got list of 2 entries; .* take\(indices\)"):
        dataset[[1, 2]]  # type: ignore[call-overload]
    with pytest.raises(SourceError, match=r"sample 0 \(4\) is bad \(read: KeyError.*fetch\("):
        list(Photos().take([4]))
    with pytest.raises(SelectionError, match="mixture"):
        mix([dataset, dataset], weights=[1, 2])[:3]


@pytest.mark.parametrize(
    "value", [PIXELS, torch.zeros(2, 3), (PIXELS, range(6)), [PIXELS]], ids=describe
)
def test_open_dataset_takes_no_arrays(value: Any) -> None:
    """The sentence names the function that does, and shows no values."""
    with pytest.raises(SourceError, match=r"is no path: .*from_arrays") as error:
        open_dataset(value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (PIXELS, "ndarray of uint8 [6, 7, 5, 3]"),
        (torch.zeros(2, 3), "Tensor of float32 [2, 3]"),
        ((PIXELS, [1, 2]), "tuple of ndarray of uint8 [6, 7, 5, 3], list of 2 entries"),
        ("a/b", "the path 'a/b'"),
        ("x" * 99, "a str of 99 letters"),
        (b"abc", "bytes of 3 bytes"),
        (None, "None"),
        (10**400, "an int of 1329 bits"),
        (object(), "an object of the type object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_described(value: Any, words: str) -> None:
    """Type and size in a few words."""
    assert describe(value) == words


def test_fingerprints_are_pinned() -> None:
    """States of runs hold them: a later version must find the same."""
    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)

    class Bytes(CustomDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: Any) -> Any:
            return Sample(index, f"key {index}", {"bin": bytes([index])}, index)

    assert (
        from_arrays(images, [0, 1], class_names=("a", "b")).fingerprint
        == "94a6e46e4441e73042c908ac184dc3bf"
    )
    assert Bytes().fingerprint == "df507699e7918b9d73c8f5605add147e"


@pytest.mark.parametrize(
    ("names", "words"),
    [((), ""), ("ab", "a, b"), ("abc", "a, b, c"), (range(4), "0, 1, 2, ...")],
)
def test_few_of_many(names: Any, words: str) -> None:
    """A sentence names the first of a list and says that there are more."""
    assert few_of(names, 3) == words
