"""Evaluation: every sample once, in order, on any number of ranks, with sums that are right over the ranks."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dali_pipes import Loader, LoaderError
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, Resize
from readers import mix
from tests.support.small import SmallDataset, make_small

RECIPE = Recipe([Resize(20), CenterCrop(16)])
NUM_IMAGES = 23


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> SmallDataset:
    """23 small pictures of three classes."""
    return make_small(jpeg, NUM_IMAGES)


def evaluate(dataset: Any, **options: Any) -> Loader:
    usual: dict[str, Any] = {"batch_size": 4, "device": "cpu", "decoder": "cpu", "num_threads": 1}
    return Loader.eval(dataset, RECIPE, **{**usual, **options})


def score(images: torch.Tensor) -> torch.Tensor:
    """A model: classes by the mean of the red channel, right for some pictures and wrong for others."""
    return (images[:, 0].mean((1, 2)) * 1000).long() % 3


def accuracy(loaders: list[Loader]) -> tuple[int, int]:
    """Right answers and all answers, added up over ranks, as the docstring of Loader.eval counts them."""
    right = total = 0
    for batch in itertools.chain(*loaders):
        correct = (score(batch.images) == batch.labels).cpu()
        right += int(correct[batch.valid].sum())
        total += int(batch.valid.sum())
    return right, total


@pytest.mark.parametrize("last_batch", ["partial", "pad"])
@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("bad", [[], [4, 22]], ids=["good", "bad"])
def test_accuracy_is_the_same_on_any_number_of_ranks(
    dataset: SmallDataset, last_batch: str, world_size: int, bad: list[int]
) -> None:
    """It is that of the samples one by one, and skipped samples are in neither sum."""
    alone = [
        int((score(batch.images) == batch.labels).sum())
        for batch in evaluate(dataset, batch_size=1)
    ]
    assert 0 < sum(alone) < NUM_IMAGES
    for index in bad:
        dataset.images[index] = b""
    options = {"last_batch": last_batch, "on_bad_sample": "skip" if bad else "raise"}
    ranks = [
        evaluate(dataset, rank=rank, world_size=world_size, **options) for rank in range(world_size)
    ]

    assert len({len(loader) for loader in ranks}) == 1
    kept = [right for index, right in enumerate(alone) if index not in bad]
    assert accuracy(ranks) == (sum(kept), len(kept))
    named = {record.index for loader in ranks for record in loader.bad_samples}
    assert named == set(bad)


def test_all_samples_once_in_their_order(dataset: SmallDataset) -> None:
    """Every loop is the dataset from its first sample to its last, and no row is made up."""
    loader = evaluate(dataset)
    for _ in range(2):
        batches = list(loader)
        assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(NUM_IMAGES))
        assert all(batch.valid.all() for batch in batches)
        assert [len(batch) for batch in batches] == [4, 4, 4, 4, 4, 3]


def test_padding_gives_batches_of_one_size(dataset: SmallDataset) -> None:
    """For models that want one shape: what fills up the last batch is marked."""
    *_, last = evaluate(dataset, last_batch="pad")
    assert (len(last), last.valid.tolist()) == (4, [True, True, True, False])


def test_a_dataset_smaller_than_a_batch(dataset: SmallDataset) -> None:
    """An evaluation has one step; training is refused, with what to do."""
    [batch] = evaluate(dataset, batch_size=64)
    assert len(batch) == NUM_IMAGES
    with pytest.raises(LoaderError, match=r"no full batch: 23 samples, batch_size=64.*Loader.eval"):
        Loader(dataset, RECIPE, batch_size=64, device="cpu")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shuffle": "global"}, "goes through the dataset in its own order; leave it out"),
        ({"last_batch": "drop"}, 'leaves no sample out; give "partial" or "pad"'),
        ({"on_bad_sample": "replace"}, "other samples would count twice"),
    ],
    ids=str,
)
def test_what_is_no_evaluation_is_refused(
    dataset: SmallDataset, options: dict[str, str], said: str
) -> None:
    """Arguments that would leave samples out or count some twice."""
    with pytest.raises(LoaderError, match=said):
        evaluate(dataset, **options)


def test_mixtures_by_weight_are_refused(dataset: SmallDataset) -> None:
    """They have some samples several times; one without weights has all of them once."""
    with pytest.raises(LoaderError, match="Balanced says itself how often each sample comes"):
        evaluate(dataset.balanced())
    with pytest.raises(LoaderError, match="Mixture says itself"):
        evaluate(mix([dataset, dataset], weights=[0.5, 0.5]))
    both = evaluate(mix([dataset, dataset]))
    assert accuracy([both])[1] == 2 * NUM_IMAGES


class TestLikelyMistakes:
    def test_a_training_recipe_is_told(self, dataset: SmallDataset) -> None:
        """An evaluation on random crops names the steps that draw."""
        recipe = Recipe([RandomResizedCrop(16), HorizontalFlip()])
        with pytest.warns(
            UserWarning, match=r"draws at random \(RandomResizedCrop, HorizontalFlip\)"
        ) as told:
            Loader.eval(dataset, recipe, batch_size=4, device="cpu")
        assert told[0].filename == __file__

    def test_an_evaluation_recipe_in_training_is_told(self, dataset: SmallDataset) -> None:
        """Shuffling and dropping under a recipe that draws nothing loses samples; the warning says how many."""
        said = r"leaves 3 of 23 samples out of each epoch; to evaluate, use Loader.eval"
        with pytest.warns(UserWarning, match=said) as told:
            Loader(dataset, RECIPE, batch_size=4, device="cpu")
        assert told[0].filename == __file__

    @pytest.mark.parametrize(
        "options", [{"shuffle": "none"}, {"last_batch": "partial"}, {"batch_size": 1}], ids=str
    )
    def test_who_says_what_is_meant_hears_nothing(
        self, dataset: SmallDataset, options: dict[str, Any]
    ) -> None:
        """Neither does who loses no sample."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Loader(dataset, RECIPE, **{"batch_size": 4, "device": "cpu", **options})
