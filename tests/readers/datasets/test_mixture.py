"""Mixtures and balanced classes: proportions, complete cycles, labels, and exact resume through the loader."""

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, BlockShuffle, Loader, LoaderError, StateMismatchError
from gpu_aug import HorizontalFlip, MixUp, RandomResizedCrop, Recipe
from readers.datasets.dataset import IndexedDataset
from readers.datasets.mixture import Mixture, mix
from readers.order.interleaving import Proportions
from readers.order.shuffle import AnyOrder
from readers.sample import BadSample, Sample, SelectionError
from tests.support.loaders import loader_maker
from tests.support.memory import peak_bytes
from tests.support.small import HugeDataset, SmallDataset, make_small

GOLDEN_BY_EPOCH = [
    [1, 4, 0, 2, 3, 5, 2],
    [6, 1, 0, 3, 2, 1, 0],
    [4, 6, 5, 6, 5, 4, 6],
    [3, 2, 0, 4, 1, 5, 4],
]
RECIPE = Recipe([RandomResizedCrop(12), HorizontalFlip()])


def epochs_of(order: AnyOrder, num_epochs: int) -> np.ndarray:
    """The indices of some epochs, one behind the other."""
    positions = np.arange(len(order))
    return np.concatenate([order.places(epoch, positions)[0] for epoch in range(num_epochs)])


def groups_of(mixture: Mixture, indices: np.ndarray) -> np.ndarray:
    ends = np.cumsum([len(dataset) for dataset in mixture.datasets])
    return np.searchsorted(ends, indices, side="right")


class TestProportions:
    @pytest.mark.parametrize(
        "weights", [(1,), (1, 1), (0.7, 0.3), (5, 2, 3), (1, 1000), (0.2,) * 5, tuple(range(1, 40))]
    )
    def test_every_stretch_has_the_weights(self, weights: tuple[float, ...]) -> None:
        """However a stretch lies, its counts are the weights' to two samples; the others' are not."""
        places = np.arange(5000)
        groups, _ = Proportions(weights).locate(places, ())
        shares = np.array(weights) / sum(weights)
        seen = np.cumsum(groups[:, None] == np.arange(len(weights)), axis=0)

        for size in (10, 64, 1000):
            gap = seen[size:] - seen[:-size] - size * shares
            assert abs(gap).max() < 3
        if len(weights) > 1:
            assert abs(seen[-1] - 5000 * np.roll(shares, 1)).max() > 3 or len(set(weights)) == 1
        for place in (0, 1, 77, 4999):  # the counts are how many of the group came before
            _, (counts,) = Proportions(weights).locate(places, (place,))
            expected = seen[place] - (groups[place] == np.arange(len(weights)))
            assert np.array_equal(counts, expected[groups])

    def test_far_from_the_start(self) -> None:
        """Behind 10**15 places the counts are still exact whole numbers in the right proportion."""
        weights = (0.55, 0.25, 0.2)
        start = 10**15 + 7
        groups, (before, after) = Proportions(weights).locate(
            start + np.arange(1000), (start, start + 1000)
        )

        assert abs(np.bincount(groups) - [550, 250, 200]).max() < 3
        for group, share in enumerate(weights):
            rows = groups == group
            assert np.all(after[rows] - before[rows] == rows.sum())
            assert np.all(abs(before[rows] / start - share) < 1e-9)


class TestOrder:
    def test_stretches_have_the_weights(self) -> None:
        """Batches of 64 have the proportions exactly; wherever they begin, nearly, as no random draw has."""
        mixture = mix([HugeDataset(1000), HugeDataset(1000)], [0.7, 0.3], length=6400)
        groups = groups_of(mixture, epochs_of(mixture.order(seed=1), 3))
        aligned = groups.reshape(-1, 64).sum(1)
        sums = np.cumsum(np.append(0, groups))
        anywhere = sums[256:] - sums[:-256]

        assert abs(aligned - 0.3 * 64).max() <= 1
        assert abs(anywhere - 0.3 * 256).max() < 14
        drawn = np.random.default_rng(0).random(len(groups)) < 0.3
        sums = np.cumsum(np.append(0, drawn))
        assert abs(sums[256:] - sums[:-256] - 0.3 * 256).max() > 14

    def test_neighbours_are_of_any_dataset(self) -> None:
        """Pairs that MixUp mixes are not always of two datasets: both kinds come as often as chance has them."""
        mixture = mix([HugeDataset(1000), HugeDataset(1000)], [0.5, 0.5], length=12_800)
        pairs = groups_of(mixture, epochs_of(mixture.order(seed=1), 1)).reshape(-1, 2)

        assert abs((pairs[:, 0] != pairs[:, 1]).mean() - 0.5) < 0.03

    def test_slices_of_positions_agree_with_the_whole(self) -> None:
        """What stands at a position does not depend on what else was asked for."""
        order = mix([HugeDataset(50), HugeDataset(7)], [1, 1]).order(seed=1)
        whole = order.places(4, np.arange(57))
        positions = np.array([56, 0, 20, 20])

        for part, everything in zip(order.places(4, positions), whole, strict=True):
            assert np.array_equal(part, everything[positions])
        assert [part.size for part in order.places(0, np.arange(0))] == [0, 0]
        with pytest.raises(IndexError, match="0 <= position < 57"):
            order.places(0, np.array([57]))

    def test_golden_order(self) -> None:
        """Orders are the same in every version: runs that were saved depend on these numbers."""
        order = mix([HugeDataset(10), HugeDataset(10**9)], [0.4, 0.6], length=20).order(seed=3)
        balanced = HugeDataset(100).balanced({3: 2}).order(seed=1)

        mixed = [700689410, 1, 3, 437916771, 6, 8, 783784604, 900932381]
        assert order.places(2, np.arange(8))[0].tolist() == mixed
        assert balanced.places(1, np.arange(8))[0].tolist() == [41, 49, 15, 14, 63, 24, 83, 76]

    def test_groups_of_one_size_have_orders_of_their_own(self) -> None:
        """Two datasets of one length are not gone through in step."""
        mixture = mix([HugeDataset(40), HugeDataset(40)], [1, 1])
        for shuffle in ("global", "block"):
            found = epochs_of(mixture.order(shuffle=shuffle, shuffle_window=128), 1)  # type: ignore[arg-type]
            assert found[found < 40].tolist() != (found[found >= 40] - 40).tolist()


class TestWeightsByEpoch:
    @pytest.mark.parametrize("shuffle", ["global", "block", "none"])
    @pytest.mark.parametrize(
        "weights",
        [[0.5, 0.2, 0.3], {0: [5, 0, 5], 3: [2, 2, 6], 4: [0, 1, 0], 9: [1, 1, 1]}],
        ids=str,
    )
    def test_each_epoch_has_its_weights(self, shuffle: Any, weights: Any) -> None:
        """Epochs have their proportions, and a dataset is gone through before it repeats, over all changes."""
        mixture = mix([HugeDataset(50), HugeDataset(7), HugeDataset(300)], weights, length=100)
        found = epochs_of(mixture.order(seed=3, shuffle=shuffle, shuffle_window=None), 20)
        groups = groups_of(mixture, found)
        by_epoch = weights if isinstance(weights, dict) else {0: weights}

        for epoch in range(20):
            shares = np.array(by_epoch[max(first for first in by_epoch if first <= epoch)])
            counts = np.bincount(groups[100 * epoch : 100 * (epoch + 1)], minlength=3)
            assert abs(counts - 100 * shares / shares.sum()).max() <= 2
            assert not counts[shares == 0].any()
        for group, (start, size) in enumerate([(0, 50), (50, 7), (57, 300)]):
            own = found[groups == group] - start
            whole = [
                tuple(own[at : at + size].tolist()) for at in range(0, len(own) - size + 1, size)
            ]
            assert len(whole) > 0
            assert all(sorted(cycle) == list(range(size)) for cycle in whole)
            # Orders of a cycle differ, but for "none".
            assert {a == b for a, b in itertools.pairwise(whole)} <= {shuffle == "none"}

    @pytest.mark.parametrize("shuffle", ["global", "block", "none"])
    @pytest.mark.parametrize("weights", [[3, 1], {0: [3, 1], 2: [1, 3], 3: [1, 0]}, None], ids=str)
    def test_repeats_tell_the_times_apart(self, shuffle: Any, weights: Any) -> None:
        """No pair of index and repeat comes twice in an epoch; without weights there are no repeats."""
        order = mix([HugeDataset(5), HugeDataset(100)], weights).order(shuffle=shuffle)
        for epoch in range(5):
            indices, repeats = order.places(epoch, np.arange(105))
            assert len(set(zip(indices.tolist(), repeats.tolist(), strict=True))) == 105
            assert repeats.min() == 0
            assert repeats.any() == (weights is not None)

    def test_golden_order(self) -> None:
        """Stored runs depend on these numbers; the epochs before a change are those without it."""
        weights = {0: [3, 1], 2: [0, 1], 3: [1, 1]}
        order = mix([HugeDataset(4), HugeDataset(3)], weights).order(seed=5)
        assert epochs_of(order, 4).reshape(4, 7).tolist() == GOLDEN_BY_EPOCH
        plain = mix([HugeDataset(4), HugeDataset(3)], [3, 1]).order(seed=5)
        assert epochs_of(plain, 2).reshape(2, 7).tolist() == GOLDEN_BY_EPOCH[:2]

    def test_it_is_said(self) -> None:
        """Other weights or epochs are another fingerprint, weights of epoch 0 alone are plain ones."""
        both = [HugeDataset(5), HugeDataset(5)]
        prints = [
            mix(both, weights).fingerprint
            for weights in (
                [1, 1],
                {0: [1, 1], 1: [2, 1]},
                {0: [1, 1], 2: [2, 1]},
                {0: [1, 1], 1: [2, 1], 2: [1, 1]},
            )
        ]
        assert (len(set(prints)), mix(both, {0: [1, 1]}).fingerprint) == (4, prints[0])
        assert "and others from epoch 2, 7" in repr(mix(both, {0: [1, 1], 7: [1, 0], 2: [2, 1]}))

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ({}, r"for the epochs \[\]; give weights for epoch 0"),
            ({1: [1, 1]}, "give weights for epoch 0"),
            ({0: [1, 1], -1: [1, 1]}, "give weights for epoch 0"),
            ({0: [1, 1], 1.5: [1, 1]}, "whole numbers"),
            ({0: [1, 1], 1: [1]}, "give one number from 0"),
            ({0: [1, 1], 1: [0, 0]}, r"from 0 \(but not all 0\)"),
            ({0: [1, 1], 1: [1, -1]}, "from 0"),
            ({0: [1, 0], 1: [1, 0]}, "dataset 1 the weight 0 in every epoch"),
            ({0: [1, 0]}, "dataset 1 the weight 0 in every epoch"),
        ],
        ids=str,
    )
    def test_refused(self, weights: Any, message: str) -> None:
        """What cannot work is named when the mixture is made."""
        with pytest.raises(SelectionError, match=message):
            mix([HugeDataset(5), HugeDataset(5)], weights)


class TestMixture:
    def test_it_is_a_dataset(self) -> None:
        """Indices follow one another, keys have the names, labels and columns are those of the parts."""
        first = SmallDataset([b"a", b"b", b""], [0, 1, 2], ("cat", "dog", "cow"), name="first")
        second = SmallDataset([b"x", b"yy"], [2, -1], ("cat", "dog", "cow"), name="second")
        mixture = mix([first, second], [1, 1], names=["one", "two"])
        found = mixture.fetch([4, 2, 0, 3, 4])

        assert [entry.index for entry in found] == [4, 2, 0, 3, 4]
        assert [entry.key for entry in found] == [
            "two/second/1",
            "one/first/2",
            "one/first/0",
            "two/second/0",
            "two/second/1",
        ]
        assert isinstance(found[1], BadSample)
        assert [entry.label for entry in found if isinstance(entry, Sample)] == [-1, 0, 2, -1]
        assert mixture.column("label").tolist() == [0, 1, 2, 2, -1]
        assert mixture.column("num_bytes").tolist() == [1, 1, 0, 1, 2]
        assert mixture.class_names == ("cat", "dog", "cow")
        assert second.fetched == [1, 0, 1]  # in one go
        with pytest.raises(IndexError, match="0 <= index < 5"):
            mixture.fetch([5])

    def test_labels_one_behind_the_other(self) -> None:
        """With an offset, classes of different datasets are different classes."""
        first = SmallDataset([b"a"] * 3, [0, 1, -1], ("cat", "dog"))
        second = SmallDataset([b"a"] * 2, [1, 0], ("oak", "elm"))
        mixture = mix([first, second], labels="offset")

        labels = [entry.label for entry in mixture.fetch(range(5)) if isinstance(entry, Sample)]
        assert labels == mixture.column("label").tolist() == [0, 1, -1, 3, 2]
        assert mixture.class_names == ("cat", "dog", "oak", "elm")
        with pytest.raises(SelectionError, match=r'cat, dog \(2\) and oak, elm \(2\).*"offset"'):
            mix([first, second])
        unnamed = SmallDataset([b"a"], [0])
        assert mix([first, unnamed]).class_names == ("cat", "dog")
        with pytest.raises(SelectionError, match="number 1 does not name its classes"):
            mix([first, unnamed], labels="offset")

    def test_fingerprints_tell_mixtures_apart(self) -> None:
        """Other data, weights, length or labels are another fingerprint; weights in another unit are not."""
        first = SmallDataset([b"a"] * 3, [0] * 3, ("cat",), name="first")
        second = SmallDataset([b"a"] * 3, [0] * 3, ("cat",), name="second")
        prints = [
            one.fingerprint
            for one in (
                mix([first, second]),
                mix([second, first]),
                mix([first, second], labels="offset"),
                mix([first, second], [1, 3]),
                mix([first, second], [3, 1]),
                mix([first, second], [1, 3], length=9),
                first.balanced(),
                first.balanced({0: 2}),
                first.balanced(length=9),
            )
        ]
        assert len(set(prints)) == len(prints)
        assert mix([first, second], [0.25, 0.75]).fingerprint == prints[3]

    def test_without_weights_it_can_be_selected_from(self) -> None:
        """Datasets that are merely joined are a dataset like any other; with weights that is refused."""
        both = [HugeDataset(10), HugeDataset(20)]

        assert len(mix(both).where("label == 3").take(2)) == 2
        for settled in (mix(both, [1, 1]), HugeDataset(20).balanced()):
            for select in (
                lambda data: data.where("label == 3"),
                lambda data: data.take(2),
                lambda data: data.split(0.5, 0.5),
                lambda data: data.balanced(),
                lambda data: mix([data, both[0]]),
            ):
                with pytest.raises(SelectionError, match="a mixture or a balanced dataset"):
                    select(settled)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"datasets": []}, "got no datasets"),
            ({"datasets": ["folder"]}, "'folder', which is not a dataset"),
            ({"datasets": [HugeDataset(0)]}, "a dataset without samples"),
            (
                {"weights": [1]},
                r"weights=\[1\] are not allowed; give one number above 0 for each of",
            ),
            ({"weights": [1, 0]}, r"one number above 0"),
            ({"weights": [1, float("nan")]}, r"one number above 0"),
            ({"weights": [1, "2"]}, r"one number above 0"),
            ({"weights": [1, 1e-9]}, r"none may be more than 1000000 times another"),
            ({"length": 0}, r"length=0 is not allowed"),
            ({"length": 2.5}, r"length=2.5 is not allowed"),
            ({"names": ["a"]}, r"1 names for 2 datasets"),
            ({"labels": "keep"}, r'labels=\'keep\'; allowed are "same" and "offset"'),
        ],
        ids=str,
    )
    def test_refused(self, arguments: dict[str, Any], message: str) -> None:
        """What cannot work is named when the mixture is made."""
        with pytest.raises(SelectionError, match=message):
            mix(**{"datasets": [HugeDataset(5), HugeDataset(5)], **arguments})


class TestBalanced:
    @pytest.fixture
    @staticmethod
    def skewed() -> SmallDataset:
        """100 samples of class 0, 10 of class 4 and 3 of class 7."""
        labels = [0] * 100 + [4] * 10 + [7] * 3
        names = tuple("abcdefgh")
        return SmallDataset([b"x"] * 113, labels, names)

    @pytest.mark.parametrize(
        ("weights", "shares"),
        [
            (None, (1, 1, 1)),
            ({7: 2}, (1, 1, 2)),
            ({"a": 0.5, "e": 3}, (0.5, 3, 1)),
            ({0: 0}, (0, 1, 1)),
        ],
        ids=str,
    )
    def test_classes_come_as_often_as_asked(
        self, skewed: SmallDataset, weights: Any, shares: tuple[float, ...]
    ) -> None:
        """Classes come in their proportions, and each is gone through before one of its samples repeats."""
        balanced = skewed.balanced(weights)
        found = epochs_of(balanced.order(seed=2), 10)
        counts = [np.isin(found, np.flatnonzero(np.array(skewed.labels) == c)) for c in (0, 4, 7)]

        assert len(found) == 1130
        for came, share in zip(counts, shares, strict=True):
            assert abs(came.sum() - 1130 * share / sum(shares)) < 2
        of_seven = found[counts[2]]
        assert all(len({*of_seven[k : k + 3].tolist()}) == 3 for k in range(0, 249, 3))
        times = np.bincount(found[counts[0]], minlength=1)[:100]
        assert times.max() - times.min() <= (1 if shares[0] else 0)

    @pytest.mark.parametrize("largest", [3, 70_000, 1 << 40])
    @pytest.mark.parametrize("weights", [None, {1: 0}])
    def test_samples_of_each_class(
        self, monkeypatch: pytest.MonkeyPatch, largest: int, weights: dict[int, float] | None
    ) -> None:
        """Found piece by piece they are those that a stable sort of all labels at once finds."""
        monkeypatch.setattr("readers.order.proportion._PIECE", 100)
        labels = np.random.default_rng(largest).integers(0, largest, 2000)
        labels[::7], labels[5] = 1, largest
        balanced = SmallDataset([b""] * 2000, labels.tolist()).balanced(weights)
        members, sizes, _ = balanced._groups
        expected = np.argsort(labels, kind="stable")
        kept = np.unique(labels) if weights is None else np.setdiff1d(labels, [1])

        assert np.array_equal(members, expected[np.isin(labels[expected], kept)])
        assert np.array_equal(sizes, [(labels == label).sum() for label in kept])
        assert members.dtype == np.uint32

    def test_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beside the labels little more than 4 bytes a sample is taken at any time."""
        monkeypatch.setattr("readers.order.proportion._PIECE", 1 << 12)
        labels = np.arange(300_000) % 1000
        dataset = HugeDataset(len(labels))
        monkeypatch.setattr(dataset, "column", lambda _: labels)

        assert peak_bytes(dataset.balanced) < 8 * len(labels)

    def test_it_is_the_dataset_itself(self, skewed: SmallDataset) -> None:
        """Indices, samples, columns and classes are unchanged; pickled, the labels are not read again."""
        balanced = skewed.balanced()
        copy = pickle.loads(pickle.dumps(balanced))

        assert copy.whole.columns_read == ["label"]
        assert [entry.key for entry in balanced.fetch([112, 3])] == ["small/112", "small/3"]
        assert balanced.class_names == skewed.class_names
        assert np.array_equal(balanced.column("label"), skewed.labels)
        assert copy.fingerprint == balanced.fingerprint
        assert np.array_equal(epochs_of(copy.order(), 1), epochs_of(balanced.order(), 1))

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ({3: 1}, "a weight for class 3, of which there is no sample"),
            ({"z": 1}, "the class 'z', which there is not; the data names a, b"),
            ({0: -1}, "the weight -1 for class 0"),
            ({0: 0, 4: 0, 7: 0}, "the weight 0 for every class"),
        ],
        ids=str,
    )
    def test_refused(self, skewed: SmallDataset, weights: Any, message: str) -> None:
        """Classes that there are not are refused, and so are samples without label."""
        with pytest.raises(SelectionError, match=message):
            skewed.balanced(weights)
        with pytest.raises(LoaderError, match='"block" is not possible with balanced classes'):
            load(skewed.balanced(), shuffle="block")
        partly = SmallDataset([b"x"] * 3, [0, -1, 1])
        with pytest.raises(SelectionError, match=r'1 of 3 have none; .*where\("label >= 0"\)'):
            partly.balanced()
        assert len(partly.where("label >= 0").balanced()) == 2


@pytest.fixture(scope="module")
def small(jpeg: Callable[..., bytes]) -> SmallDataset:
    """23 images of three classes."""
    return make_small(jpeg, 23)


@pytest.fixture(scope="module")
def tiny(jpeg: Callable[..., bytes]) -> SmallDataset:
    """Three images of two classes."""
    return make_small(jpeg, 3, 2, name="tiny")


RUNS: dict[str, tuple[Callable[[SmallDataset, SmallDataset], IndexedDataset], dict[str, Any]]] = {
    "block": (lambda small, _tiny: small, {"shuffle": BlockShuffle(window=8)}),
    "joined": (lambda small, tiny: mix([small, tiny]), {}),
    "mixture": (lambda small, tiny: mix([small, tiny], [0.6, 0.4]), {}),
    "longer": (lambda small, tiny: mix([small, tiny], [0.8, 0.2], length=41), {}),
    "mixture of blocks": (
        lambda small, tiny: mix([small, tiny], [0.6, 0.4]),
        {"shuffle": BlockShuffle(window=10)},
    ),
    "weights by epoch": (
        lambda small, tiny: mix([small, tiny], {0: [0.6, 0.4], 1: [1, 0], 2: [0.2, 0.8]}),
        {},
    ),
    "mixture in order": (lambda small, tiny: mix([small, tiny], [3, 1]), {"shuffle": "none"}),
    "balanced": (lambda small, _tiny: small.balanced({2: 3}), {}),
    "where": (lambda small, _tiny: small.where("label != 1"), {}),
    "split": (lambda small, _tiny: small.split(0.8, 0.2, seed=1)[0], {}),
    "take": (lambda small, _tiny: small.take([5, 2, 2, 7, 11, 3, 9, 8, 1, 20, 2]), {}),
    "nested": (
        lambda small, tiny: mix([small.where("label < 2").take(slice(0, None, 2)), tiny], [2, 1]),
        {"shuffle": "block"},
    ),
}


load = loader_maker(RECIPE, batch_size=6, dtype=torch.float32, seed=3, last_batch="partial")


def joined(steps: list[Batch]) -> tuple[list[int], torch.Tensor, list[str]]:
    """Indices, images and keys of batches, one behind the other."""
    indices = torch.cat([batch.indices for batch in steps]).tolist()
    keys = [key for batch in steps for key in batch.keys]
    return indices, torch.cat([batch.images for batch in steps]), keys


def run_ranks(loaders: list[Loader], num_epochs: int) -> list[Batch]:
    """The batches of some epochs in the order of the positions: step by step, rank by rank."""
    steps = []
    for _ in range(num_epochs):
        for shares in zip(*loaders, strict=True):
            steps += shares
    return steps


# The others have the order of one of these, or of any dataset.
ALWAYS = ("mixture", "weights by epoch", "nested")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in ALWAYS)) for name in RUNS]
)
def test_resumes_exactly_anywhere(small: SmallDataset, tiny: SmallDataset, name: str) -> None:
    """A run stopped after any step goes on with the same samples and the same pictures on other ranks."""
    make, options = RUNS[name]
    indices, images, keys = joined(run_ranks([load(make(small, tiny), **options)], 3))
    loader = load(make(small, tiny), **options)
    length = len(indices) // 3
    worlds = itertools.cycle([(2, 3), (3, 1), (1, 7), (2, 5)])
    states = [loader.state_dict()]
    for _ in range(2):
        for _batch in loader:
            states.append(loader.state_dict())
    for state, (world_size, batch_size) in zip(states, worlds, strict=False):
        done = state["epoch"] * length + state["consumed"]
        loaders = [
            load(
                make(small, tiny),
                rank=rank,
                world_size=world_size,
                batch_size=batch_size,
                **options,
            )
            for rank in range(world_size)
        ]
        for other in loaders:
            other.load_state_dict(state)
        left, pictures, names = joined(run_ranks(loaders, 3 - loaders[0].epoch))
        assert (left, names) == (indices[done:], keys[done:])
        assert torch.equal(pictures, images[done:])
    assert done == 2 * length  # the last state was taken at an epoch's end


def test_samples_that_come_again_look_different(small: SmallDataset, tiny: SmallDataset) -> None:
    """Within an epoch each time has draws of its own; the first time has those of any other order."""
    indices, images, _ = joined(list(load(mix([tiny, small], [1, 1]))))
    plain, pictures, _ = joined(list(load(mix([tiny, small]))))
    of_first = [image for index, image in zip(indices, images, strict=True) if index == 0]
    usual = pictures[plain.index(0)]

    assert len(of_first) >= 4
    for one, other in itertools.combinations(of_first, 2):
        assert not torch.equal(one, other)
    assert sum(torch.equal(usual, one) for one in of_first) == 1


@pytest.mark.parametrize("name", ["longer", "mixture", "balanced"])
def test_mixing_recipes(small: SmallDataset, tiny: SmallDataset, name: str) -> None:
    """MixUp finds the same partners on any number of ranks, up to the end of an epoch of any length."""
    make, options = RUNS[name]
    recipe = Recipe([RandomResizedCrop(12), MixUp(num_classes=3)])
    alone = run_ranks([load(make(small, tiny), recipe, **options)], 1)
    loaders = [
        load(make(small, tiny), recipe, rank=rank, world_size=3, batch_size=2, **options)
        for rank in range(3)
    ]
    together = run_ranks(loaders, 1)

    assert torch.equal(joined(alone)[1], joined(together)[1])
    labels = torch.cat([batch.labels for batch in alone])
    assert torch.equal(labels, torch.cat([batch.labels for batch in together]))
    assert (labels.max(1).values < 0.999).any()
    last = len(labels) - 2 - len(labels) % 2  # the last pair; an odd one behind it stays alone
    plain = Recipe([RandomResizedCrop(12)])
    unmixed = joined(run_ranks([load(make(small, tiny), plain, **options)], 1))[1]
    assert not torch.equal(joined(alone)[1][last:], unmixed[last:])


@pytest.mark.parametrize("name", ["block", "mixture", "balanced", "nested"])
def test_bad_samples_are_replaced_alike(small: SmallDataset, tiny: SmallDataset, name: str) -> None:
    """A bad sample, though it comes several times, is replaced in the same way on any number of ranks."""
    make, options = RUNS[name]
    images = [b"" if index in (2, 4) else image for index, image in enumerate(small.images)]
    images[9] = b"no image at all"
    broken = SmallDataset(images, small.labels)
    spoilt = SmallDataset([*tiny.images[:2], b""], tiny.labels, name="tiny")
    options = {**options, "on_bad_sample": "replace", "max_bad_samples": 12}
    alone = run_ranks([load(make(broken, spoilt), **options)], 2)
    loaders = [
        load(make(broken, spoilt), rank=rank, world_size=2, batch_size=3, **options)
        for rank in range(2)
    ]
    together = run_ranks(loaders, 2)

    assert joined(alone)[0] == joined(together)[0]
    assert torch.equal(joined(alone)[1], joined(together)[1])
    assert loaders[0].bad_samples or loaders[1].bad_samples


def test_substitutes_have_the_weights(small: SmallDataset) -> None:
    """What replaces a bad sample comes out of the order: a class that was left out stays out."""
    images = [b"" if index in (0, 3, 6) else image for index, image in enumerate(small.images)]
    broken = SmallDataset(images, small.labels).balanced({1: 0})
    for seed in range(4):
        options: dict[str, Any] = {"on_bad_sample": "replace", "seed": seed}
        loader = load(broken, **options)
        labels = {int(label) for batch in loader for label in batch.labels}

        assert loader.bad_samples
        assert labels == {0, 2}


def test_another_mixture_is_refused(small: SmallDataset, tiny: SmallDataset) -> None:
    """A state does not fit another shuffle, another selection or other data."""
    # Left out: it differs from "mixture" in the weights only, which may change.
    kinds = {name: run for name, run in RUNS.items() if name != "weights by epoch"}
    states = {name: load(make(small, tiny), **options) for name, (make, options) in kinds.items()}
    for one, other in itertools.permutations(states, 2):
        with pytest.raises(StateMismatchError, match="the state belongs to another run"):
            states[other].load_state_dict(states[one].state_dict())


def test_loaders_of_huge_datasets_start_at_once(jpeg: Callable[..., bytes]) -> None:
    """Whatever is made of 10**8 samples, the loader and its first batch take less than a byte of each."""
    huge = HugeDataset(10**8, jpeg(16, 16))
    next(iter(load(huge)))
    datasets: dict[str, tuple[IndexedDataset, dict[str, Any]]] = {
        "block": (huge, {"shuffle": "block"}),
        "split": (huge.split(0.9, 0.1)[0], {"shuffle": "block"}),
        "take": (huge.take(slice(None, None, 3)), {}),
        "mixture": (mix([huge, huge.take(1000)], [0.9, 0.1]), {}),
        "mixture of blocks": (mix([huge, huge.take(1000)], [0.9, 0.1]), {"shuffle": "block"}),
    }
    for name, (dataset, options) in datasets.items():
        peak = peak_bytes(
            lambda dataset=dataset, options=options: next(iter(load(dataset, **options)))
        )
        assert peak < 10**7, name
