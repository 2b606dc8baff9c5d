"""Labels that are vectors, through the loader: shapes, mixing, lost samples, helper processes, ranks, resume."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import BadSampleError, Batch, Execution, Loader, LoaderError
from gpu_aug import CenterCrop, MixUp, RandomResizedCrop, Recipe
from readers.datasets.custom import CustomDataset
from readers.datasets.dataset import IndexedDataset
from readers.datasets.mixture import mix
from readers.labels.label_vector import LabelShape
from readers.sample import BadSample, Sample, SelectionError
from tests.support.loaders import loader_maker
from tests.support.small import SmallDataset, make_small

COUNT = 14
PLAIN = Recipe([RandomResizedCrop(16)])
VECTORS = np.random.default_rng(5).normal(size=(COUNT, 3)).astype(np.float32)
RAGGED = [np.arange(number % 4, dtype=np.float32) + number for number in range(COUNT)]


@pytest.fixture(scope="module")
def small(jpeg: Callable[..., bytes]) -> SmallDataset:
    """14 pictures of three classes."""
    return make_small(jpeg, COUNT)


load = loader_maker(
    PLAIN, engine="kornia", seed=3, dtype=torch.float32, last_batch="partial", num_threads=2
)


def by_index(batches: list[Batch]) -> dict[int, Any]:
    return {
        int(index): label.numpy()
        for batch in batches
        for index, label in zip(batch.indices, batch.labels, strict=True)
    }


class TestVectors:
    def test_one_length(self, small: SmallDataset) -> None:
        """The labels of a step are float32 [B, K], each that of its sample."""
        batches = list(load(small.with_labels(VECTORS)))
        assert [(batch.labels.dtype, tuple(batch.labels.shape)) for batch in batches] == [
            (torch.float32, (size, 3)) for size in (4, 4, 4, 2)
        ]
        found = by_index(batches)
        assert np.array_equal([found[index] for index in range(COUNT)], VECTORS)

    @pytest.mark.parametrize("helper_process", [False, pytest.param(True, marks=pytest.mark.long)])
    def test_several_lengths(self, small: SmallDataset, helper_process: bool) -> None:
        """Labels of several lengths are a list of a tensor for each sample, also out of a helper process."""
        dataset = small.with_labels(RAGGED)
        assert dataset.label_shape is None
        batches = list(load(dataset, execution=Execution(helper_process=helper_process)))
        assert all(isinstance(batch.labels, list) for batch in batches)
        found = by_index(batches)
        assert all(found[i].dtype == np.float32 for i in found)
        assert all(np.array_equal(found[i], RAGGED[i]) for i in range(COUNT))

    def test_ranks_and_resume(self, small: SmallDataset) -> None:
        """Two ranks together, and a run that goes on, hand over the labels that one run does."""
        dataset = small.with_labels(VECTORS)
        whole = by_index(list(load(dataset)))
        ranks = [list(load(dataset, batch_size=2, rank=r, world_size=2)) for r in range(2)]
        loader = load(dataset)
        first = next(iter(loader))
        rest = load(dataset, batch_size=3)
        rest.load_state_dict(loader.state_dict())
        for found in (by_index([*ranks[0], *ranks[1]]), by_index([first, *rest])):
            assert {i: v.tolist() for i, v in found.items()} == {
                i: v.tolist() for i, v in whole.items()
            }

    def test_lost_samples(self, jpeg: Callable[..., bytes]) -> None:
        """Bad samples take no neighbour's label with them."""
        images = [jpeg(30, 40, seed=number) for number in range(6)]
        images[2], images[4] = images[2][:60], b""
        dataset = SmallDataset(images, [0] * 6).with_labels(VECTORS[:6])
        found = by_index(list(load(dataset, on_bad_sample="skip", shuffle="none")))
        assert sorted(found) == [0, 1, 3, 5]
        assert all(np.array_equal(found[i], VECTORS[i]) for i in found)

    def test_batches_are_copies(self, small: SmallDataset) -> None:
        """Who changes the labels of a batch changes no dataset."""
        labels = [label.copy() for label in RAGGED]
        for batch in load(Foreign(small, labels, None)):
            for label in batch.labels:
                label.fill_(-5)
        assert all(map(np.array_equal, labels, RAGGED))


class TestMixing:
    @pytest.mark.parametrize("vectors", [np.eye(3), VECTORS[:3]], ids=["one-hot", "any"])
    def test_vectors_of_classes(self, small: SmallDataset, vectors: np.ndarray) -> None:
        """A vector for each class is mixed by the shares by which class numbers are mixed."""
        recipe = Recipe([RandomResizedCrop(16), MixUp(num_classes=3)])
        labelled = small.with_labels(vectors[small.labels])
        for mine, theirs in zip(load(labelled, recipe), load(small, recipe), strict=True):
            shares = theirs.labels @ torch.from_numpy(vectors).float()
            assert torch.allclose(mine.labels, shares, atol=1e-6)
            assert torch.equal(mine.images, theirs.images)

    def test_refused(self, small: SmallDataset) -> None:
        """What cannot be mixed is refused when the loader is made."""
        with pytest.raises(LoaderError, match="vectors of several lengths"):
            load(small.with_labels(RAGGED), Recipe([RandomResizedCrop(16), MixUp()]))
        with pytest.raises(LoaderError, match=r"num_classes=5 .* vectors of 3 numbers"):
            load(small.with_labels(VECTORS), Recipe([RandomResizedCrop(16), MixUp(num_classes=5)]))


class Foreign:
    """A dataset of another kind, whose labels are as given."""

    class_names = ()
    fingerprint = "foreign"

    def __init__(self, inner: SmallDataset, labels: list[Any], shape: LabelShape) -> None:
        self.inner, self.labels, self.label_shape = inner, labels, shape

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, indices: Any) -> list[Sample | BadSample]:
        """The inner samples."""
        found = self.inner.fetch(indices)
        return [Sample(s.index, s.key, s.fields, self.labels[s.index]) for s in found]  # type: ignore[union-attr]


class TestOtherDatasets:
    def test_lists_and_dtypes(self, small: SmallDataset) -> None:
        """Vectors of any dtype, and lists, become float32."""
        labels = [np.array([1, 2], np.int8), [0.5, 1.5], np.array([2.5, 1e9])]
        [batch] = load(Foreign(small, labels, (2,)), batch_size=3, shuffle="none")
        assert batch.labels.tolist() == [[1, 2], [0.5, 1.5], [2.5, 1e9]]

    @pytest.mark.parametrize(
        ("label", "shape", "reason"),
        [
            (np.zeros(2), (3,), "the label has 2 numbers, those of this dataset have 3"),
            (
                np.zeros(3),
                (),
                r"the label array\(.* is not a whole number: .* label_shape = \(K,\)",
            ),
            (4, (3,), "the label is 4, but those of this dataset are vectors of 3 numbers"),
            (np.zeros((2, 2)), None, r"float64 of shape \[2, 2\], not a vector"),
            (np.array(["a"]), None, "not a vector of numbers"),
            ([[1], [2, 3]], None, "lists of unequal length"),
        ],
    )
    def test_wrong_labels(
        self, small: SmallDataset, label: Any, shape: LabelShape, reason: str
    ) -> None:
        """A label that is not what the dataset says is a bad sample, with the reason."""
        with pytest.raises(BadSampleError, match=reason):
            list(load(Foreign(small, [label] * 4, shape)))


class TestSelections:
    def test_vectors_are_no_classes(self, small: SmallDataset) -> None:
        """Who selects or balances by class is told that vectors have none."""
        dataset = small.with_labels(VECTORS)
        for select in (lambda d: d.where("label == 1"), IndexedDataset.balanced):
            with pytest.raises(
                SelectionError, match="labels are vectors of 3 numbers, which are no classes"
            ):
                select(dataset)
        assert len(dataset.where("height >= 105")) == COUNT - 5

    def test_kept(self, small: SmallDataset) -> None:
        """Subsets and mixtures have the vectors of their samples, and say their shape."""
        dataset = small.with_labels(VECTORS)
        part, rest = dataset.split(0.5, 0.5)
        both = mix([part, rest])
        assert part.label_shape == rest.label_shape == both.label_shape == (3,)
        found = by_index(list(load(both)))
        where = [*part.indices_in_whole(range(7)), *rest.indices_in_whole(range(7))]
        assert np.array_equal([found[i] for i in range(COUNT)], VECTORS[where])

    def test_mixtures_of_kinds(self, small: SmallDataset) -> None:
        """Labels of two kinds make no mixture; vectors of several lengths do with their like."""
        vectors, ragged = small.with_labels(VECTORS), small.with_labels(RAGGED)
        with pytest.raises(SelectionError, match="are class numbers and vectors of 3 numbers"):
            mix([small, vectors])
        with pytest.raises(SelectionError, match="vectors of 3 numbers and vectors of 2 numbers"):
            mix([vectors, small.with_labels(VECTORS[:, :2])])
        with pytest.raises(SelectionError, match=r'mix\(labels="offset"\) moves class numbers'):
            mix([vectors, vectors], labels="offset")
        assert mix([vectors, ragged]).label_shape is None


def test_evaluation(small: SmallDataset) -> None:
    """Loader.eval hands over every vector once, in order."""
    recipe = Recipe([CenterCrop(16)])
    loader = Loader.eval(small.with_labels(VECTORS), recipe, batch_size=5, device="cpu")
    assert np.array_equal(torch.cat([batch.labels for batch in loader]).numpy(), VECTORS)
    assert "labels: vectors of 3 numbers, float32" in loader.explain()


def test_own_datasets(small: SmallDataset) -> None:
    """A dataset that a user writes says the shape of its labels, and hands over arrays, also of one number."""

    class Own(CustomDataset):
        label_shape = (1,)

        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> Sample:
            return Sample(index, str(index), {"jpg": small.images[index]}, VECTORS[index, :1])

    dataset = Own()
    [batch] = load(dataset, batch_size=5, shuffle="none")
    assert np.array_equal(batch.labels.numpy(), VECTORS[:5, :1])
    assert dataset.column("label").tolist() == [-1] * 5
