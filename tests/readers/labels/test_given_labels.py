"""Labels that are given to data of any format, by order, by key or in pairs, and the numbers of named classes."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import ImageFolder

from readers import IndexedDataset, Sample, SelectionError, SourceError, mix, open_dataset
from readers.sample import BadSample
from tests.support.small import SmallDataset


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Class folders: all/ with cat, dog and eel, some/ without dog, empty/ with an empty dog."""
    root = tmp_path_factory.mktemp("photos")
    for split, classes in (("all", "cat dog eel"), ("some", "cat eel"), ("empty", "cat eel")):
        for name in classes.split():
            (root / split / name).mkdir(parents=True)
            (root / split / name / "0.jpg").write_bytes(jpeg(20, 24))
    (root / "empty" / "dog").mkdir()
    return root


def labels(dataset: IndexedDataset) -> list[Any]:
    found = dataset.fetch(range(len(dataset)))
    assert all(isinstance(one, Sample) for one in found)
    return [np.asarray(one.label).tolist() for one in found]  # type: ignore[union-attr]


class TestGiven:
    @pytest.mark.parametrize(
        ("given", "options", "expected", "shape", "names"),
        [
            ([2, 0, -1], {}, [2, 0, -1], (), ()),
            (np.array([2, 0, 1], np.uint8), {}, [2, 0, 1], (), ()),
            (["b", "a", "b"], {}, [1, 0, 1], (), ("a", "b")),
            (["b", 2, None], {"classes": ["a", "b", "c"]}, [1, 2, -1], (), ("a", "b", "c")),
            ([[1, 0], [0.5, 2], [0, 0]], {}, [[1, 0], [0.5, 2], [0, 0]], (2,), ()),
            (np.eye(3), {"classes": ["x", "y", "z"]}, np.eye(3).tolist(), (3,), ("x", "y", "z")),
            ([[1.5], [], [2, 3]], {}, [[1.5], [], [2, 3]], None, ()),
            ([["b"], [], ["a", "b"]], {}, [[0, 1], [0, 0], [1, 1]], (2,), ("a", "b")),
        ],
    )
    def test_kinds(
        self, photos: Path, given: Any, options: Any, expected: Any, shape: Any, names: Any
    ) -> None:
        """Numbers, names, vectors of one length or several, and lists of names."""
        dataset = open_dataset(photos / "all", labels=given, **options)
        assert (labels(dataset), dataset.label_shape, dataset.class_names) == (
            expected,
            shape,
            names,
        )
        numbers = expected if shape == () else [-1] * 3
        assert dataset.column("label").tolist() == numbers
        again = pickle.loads(pickle.dumps(dataset))
        assert (labels(again), again.fingerprint) == (expected, dataset.fingerprint)

    def test_by_key(self, photos: Path) -> None:
        """A dictionary has a label for each key, and may have more."""
        given = {"eel/0.jpg": "x", "cat/0.jpg": "y", "dog/0.jpg": "x", "more": "z"}
        dataset = open_dataset(photos / "all", labels=given)
        assert dataset.keys() == ["cat/0.jpg", "dog/0.jpg", "eel/0.jpg"]
        assert labels(dataset) == [1, 0, 0]
        with pytest.raises(SourceError, match=r"no label for cat/0.jpg and 1 more of 3 samples"):
            open_dataset(photos / "all", labels={"eel/0.jpg": 1})

    def test_keys_of_any_dataset(self, jpeg: Callable[..., bytes]) -> None:
        """Where a format lists no keys, those of the samples are read; selections have those of their samples."""
        small = SmallDataset([jpeg(20, 20)] * 5, range(5))
        assert small.keys() == [f"small/{number}" for number in range(5)]
        assert small.take([3, 1]).keys() == ["small/3", "small/1"]
        relabelled = small.take([3, 1]).with_labels({"small/1": 7, "small/3": 8})
        assert (labels(relabelled), relabelled.keys()) == ([8, 7], ["small/3", "small/1"])

    def test_bad_samples_stay(self, jpeg: Callable[..., bytes]) -> None:
        """A sample that cannot be read has no label, and its neighbours have theirs."""
        dataset = SmallDataset([jpeg(20, 20), b"", jpeg(20, 20)], [0] * 3).with_labels([5, 6, 7])
        first, bad, last = dataset.fetch([0, 1, 2])
        assert isinstance(bad, BadSample)
        assert (first.label, last.label) == (5, 7)  # type: ignore[union-attr]

    def test_fingerprint(self, photos: Path) -> None:
        """Labels and the names of classes are part of what a run is resumed on."""
        plain = open_dataset(photos / "all")
        found = [
            plain,
            plain.with_labels([0, 1, 2]),
            plain.with_labels([0, 1, 1]),
            plain.with_labels([0, 1, 2], classes=["a", "b", "c"]),
            plain.with_labels([[0.0], [1.0], [2.0]]),
            plain.with_labels([[0.0], [1.0, 2.0], []]),
            plain.with_labels([[0.0, 1.0], [2.0], []]),
        ]
        assert len({one.fingerprint for one in found}) == len(found)
        assert plain.with_labels([0, 1, 2]).fingerprint == found[1].fingerprint

    def test_selections(self, photos: Path) -> None:
        """The new classes are those that selections, balancing and mixing see."""
        dataset = open_dataset(photos / "all", labels=["b", "a", "b"])
        assert dataset.where("label == 'b'").keys() == ["cat/0.jpg", "eel/0.jpg"]
        assert len(dataset.balanced({"a": 2})) == 3
        assert labels(mix([dataset, dataset], labels="offset")) == [1, 0, 1, 3, 2, 3]
        with pytest.raises(SelectionError, match=r"with_labels\(\) is not possible on a mixture"):
            dataset.balanced().with_labels([0, 1, 2])

    @pytest.mark.parametrize(
        ("given", "options", "reason"),
        [
            ([0, 1], {}, "labels= has 2 labels for 3 samples: give one for each"),
            ([0, "a", 1], {}, r"labels=: some labels are whole numbers \(0\) and others are names \('a'\)"),
            ([0, 1, 5], {"classes": ["a", "b"]}, r"labels\[2\]: the label 5 is not among the 2 classes \(a, b\)"),
            (["a", "b", "c"], {"classes": ["a", "b"]}, r"labels\[2\]: the label 'c' is not among"),
            (np.array([0, 1, 5]), {"classes": ["a", "b"]}, r"labels\[2\] is 5, but a class number is from 0 to 1"),
            (np.array([0, 1, -2]), {}, r"labels\[2\] is -2, but a class number"),
            ([0.5, 1.5, 2.5], {}, r"labels\[0\]: the label 0.5 is no class: a number to regress is a vector"),
            (np.array([0.5, 1, 2]), {}, r"labels= is float64 \[3\]: give whole numbers \[N\].*\[N, 1\]"),
            (np.eye(3), {"classes": ["a", "b"]}, "3 columns, but classes= names 2"),
            ([[1, 2], 3, [4]], {}, r"labels\[1\]: the label 3 is of another kind than \[1, 2\] at labels\[0\]"),
            ([[1], ["a"], [2]], {}, r"labels\[1\]: the label \['a'\] is of another kind"),
            ([[1], [[2]], [2]], {}, r"labels\[1\]: the label is int64 of shape \[1, 1\], not a vector"),
            ([[1], [1, 2], [2]], {"classes": ["a"]}, r"labels\[1\]: the label has 2 numbers, but classes= names 1"),
            ("abc", {}, "labels='abc' is no list of labels"),
        ],
    )  # fmt: skip
    def test_refused(self, photos: Path, given: Any, options: Any, reason: str) -> None:
        """What is no label for each sample is said in one sentence."""
        with pytest.raises(SourceError, match=reason) as error:
            open_dataset(photos / "all", labels=given, **options)
        assert "\n" not in str(error.value)


class TestPairs:
    def test_pairs(self, photos: Path) -> None:
        """Pairs of a path and a label are samples in their order."""
        eel, cat = photos / "all/eel/0.jpg", photos / "all/cat/0.jpg"
        assert labels(open_dataset([(eel, 0), (str(cat), "dog")], classes=["cat", "dog"])) == [0, 1]
        dataset = open_dataset([(eel, "x"), (cat, "w"), (eel, "w")])
        assert (labels(dataset), dataset.class_names) == ([1, 0, 0], ("w", "x"))
        assert labels(open_dataset([(eel, [0.5, 1]), (cat, [2, 3])])) == [[0.5, 1], [2, 3]]

    @pytest.mark.parametrize(
        ("make", "options", "reason"),
        [
            (lambda eel: [(eel, 0), eel], {}, r"source\[1\] is no pair of a path and a label"),
            (lambda eel: [(eel, 0, 1)], {}, r"source\[0\] is no pair"),
            (
                lambda eel: [(eel, 0)],
                {"labels": [1]},
                "labels= and pairs of a path and a label are",
            ),
            (
                lambda eel: [(eel.with_name("*.jpg"), 0)],
                {},
                r"\*.jpg is a pattern, and a pair names",
            ),
        ],
    )
    def test_refused(
        self, photos: Path, make: Callable[[Path], Any], options: dict[str, Any], reason: str
    ) -> None:
        """Pairs and other things are told apart."""
        with pytest.raises(SourceError, match=reason):
            open_dataset(make(photos / "all/eel/0.jpg"), **options)


class TestClassFolders:
    def test_numbers_of_training(self, photos: Path) -> None:
        """With classes= a folder lacking a class has the numbers that torchvision gives the training folder."""
        reference = ImageFolder(photos / "all").class_to_idx
        train = open_dataset(photos / "all")
        val = open_dataset(photos / "some", classes=train.class_names)
        assert dict(zip(["cat", "eel"], labels(val), strict=True)) == {
            name: reference[name] for name in ("cat", "eel")
        }
        assert val.class_names == train.class_names == tuple(reference)
        assert labels(open_dataset(photos / "some")) == [0, 1]  # what it would be without
        assert labels(open_dataset(photos / "empty", classes=train.class_names)) == [0, 2]

    @pytest.mark.parametrize(
        ("folder", "options", "reason"),
        [
            (
                "some",
                {"classes": ["cat", "dog"]},
                "the class 'eel', and the classes are cat, dog: move",
            ),
            ("empty", {}, r"a class folder without images \(dog\).*classes=\["),
            (
                "some/cat",
                {"classes": ["cat", "dog"]},
                "without class folders, and classes= names 2",
            ),
        ],
    )
    def test_refused(self, photos: Path, folder: str, options: dict[str, Any], reason: str) -> None:
        """A folder that is no class, an empty one without classes=, and images without folders are said."""
        with pytest.raises(SourceError, match=reason):
            open_dataset(photos / folder, **options)

    def test_manifest(self, photos: Path) -> None:
        """The lines of a manifest name classes by name or number; one that is none is a bad sample with the reason."""
        lines = [{"image": "all/eel/0.jpg", "label": name} for name in ("eel", 0, "cow", None)]
        (photos / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
        dataset = open_dataset(photos / "a.jsonl", classes=["cat", "dog", "eel"])
        first, second, bad, none = dataset.fetch(range(4))
        assert [one.label for one in (first, second, none)] == [2, 0, -1]  # type: ignore[union-attr]
        assert "line 3: the label 'cow' is not among the 3 classes" in bad.reason  # type: ignore[union-attr]
        assert dataset.class_names == ("cat", "dog", "eel")
        assert pickle.loads(pickle.dumps(dataset)).fingerprint == dataset.fingerprint
        assert dataset.fingerprint != open_dataset(photos / "a.jsonl").fingerprint
