"""Recipes that mix samples: who is mixed with whom, and the soft labels, follow from the order alone."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from dali_pipes import Batch, Execution, LoaderError
from dali_pipes.steps.schedule import complete_groups
from gpu_aug import CutMix, HorizontalFlip, MixUp, Mosaic, Normalize, RandomResizedCrop, Recipe
from gpu_aug.errors import RecipeError
from readers import Dataset, Order, open_dataset
from tests.support.loaders import loader_maker, write_images

NUM_IMAGES = 27  # the last pair and the last four are not full
PAIRS = Recipe([RandomResizedCrop(24), HorizontalFlip(), CutMix(p=0.7), MixUp(p=0.7), Normalize()])
FOURS = Recipe([RandomResizedCrop(24), MixUp(alpha=0.4), Mosaic(p=0.8), Normalize()])
RECIPES = pytest.mark.parametrize("recipe", [PAIRS, FOURS], ids=["pairs", "fours"])
DALI = pytest.mark.needs_dali


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Three classes with 27 images, none alike."""
    return grow(tmp_path_factory.mktemp("classes"), jpeg)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """The same, with four of them cut short, which is noticed when they are decoded."""
    return grow(tmp_path_factory.mktemp("faulty"), jpeg, bad=(2, 7, 13, 26))


def grow(root: Path, jpeg: Callable[..., bytes], bad: tuple[int, ...] = ()) -> Dataset:
    for number in range(NUM_IMAGES):
        folder = root / f"class{number // 9}"
        folder.mkdir(exist_ok=True)
        data = jpeg(30 + number, 70 - number, seed=9 * number)
        (folder / f"{number:02d}.jpg").write_bytes(
            data[: len(data) // 2] if number in bad else data
        )
    return open_dataset(root)


load = loader_maker(
    batch_size=8, engine="kornia", seed=3, dtype=torch.float32, last_batch="partial", num_threads=3
)


def assert_same(actual: list[Batch], expected: list[Batch]) -> None:
    for name in ("indices", "images", "labels", "valid"):
        one, other = (torch.cat([getattr(b, name) for b in x]) for x in (actual, expected))
        assert torch.equal(one, other), name


def steps_of(ranks: list[Any]) -> list[Batch]:
    """The shares of all ranks, step by step."""
    return list(itertools.chain(*zip(*ranks, strict=True)))


@RECIPES
class TestSameEverywhere:
    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 1},
            {"batch_size": 27},
            {"batch_size": 7, "num_threads": 1, "execution": Execution(prefetch=6)},
            pytest.param({"decoder": "dali", "batch_size": 5}, marks=DALI),
        ],
        ids=str,
    )
    def test_settings_do_not_matter(
        self, dataset: Dataset, recipe: Recipe, options: dict[str, Any]
    ) -> None:
        """Pixels and soft labels are the same to the bit; with another seed they are not."""
        usual = list(load(dataset, recipe))
        assert_same(list(load(dataset, recipe, **options)), usual)
        with pytest.raises(AssertionError):
            assert_same(list(load(dataset, recipe, seed=4)), usual)

    @pytest.mark.parametrize("last_batch", ["drop", "partial", "pad"])
    @pytest.mark.parametrize(("world_size", "batch_size"), [(3, 1), (2, 5)])
    def test_ranks(
        self, dataset: Dataset, recipe: Recipe, world_size: int, batch_size: int, last_batch: str
    ) -> None:
        """What the ranks receive is what one process receives, whatever borders cut groups in two."""
        options = {"last_batch": last_batch, "batch_size": batch_size, "world_size": world_size}
        ranks = [load(dataset, recipe, rank=rank, **options) for rank in range(world_size)]
        whole = world_size * batch_size
        alone = load(dataset, recipe, batch_size=whole, last_batch=last_batch)

        assert_same(steps_of(ranks), list(alone))

    def test_rows_that_pad_are_the_epochs_first(self, dataset: Dataset, recipe: Recipe) -> None:
        """A row that fills up the last batch is mixed as it was where it belongs."""
        batches = list(load(dataset, recipe, batch_size=16, last_batch="pad"))
        filled = ~batches[1].valid

        assert int(filled.sum()) == 5
        assert torch.equal(batches[1].images[filled], batches[0].images[:5])
        assert torch.equal(batches[1].labels[filled], batches[0].labels[:5])

    def test_resume_at_odd_places(self, dataset: Dataset, recipe: Recipe) -> None:
        """A run that was left in the middle of a group goes on with the same mixtures on other ranks."""
        expected = list(load(dataset, recipe))
        for stop in (1, 2, 5):
            first = load(dataset, recipe, batch_size=3)
            had = list(itertools.islice(first, stop))
            ranks = [load(dataset, recipe, batch_size=2, rank=r, world_size=2) for r in range(2)]
            for loader in ranks:
                loader.load_state_dict(first.state_dict())
            assert_same([*had, *steps_of(ranks)], expected)

    @pytest.mark.parametrize("policy", ["skip", "replace"])
    @pytest.mark.parametrize("decoder", ["cpu", pytest.param("dali", marks=DALI)])
    def test_bad_samples(self, faulty: Dataset, recipe: Recipe, policy: str, decoder: str) -> None:
        """With bad samples it is the same on any rank, and each is written down once."""
        options = {"on_bad_sample": policy, "max_bad_samples": 20}
        alone = load(faulty, recipe, **options)
        expected = list(alone)
        loaders = [
            load(faulty, recipe, batch_size=3, rank=r, world_size=3, decoder=decoder, **options)
            for r in range(3)
        ]
        assert_same(steps_of(loaders), expected)
        written = [record.index for loader in loaders for record in loader.bad_samples]
        assert sorted(written) == sorted(record.index for record in alone.bad_samples)
        assert set(written) >= {2, 7, 13, 26}


def test_lost_sample_is_nobodys_partner(faulty: Dataset, dataset: Dataset) -> None:
    """Who would be mixed with a skipped sample keeps its picture and label; others are mixed as always."""
    plain = Recipe([RandomResizedCrop(24)])
    mixing = Recipe([RandomResizedCrop(24), MixUp()])
    lost = {2, 7, 13, 26}
    order = Order(NUM_IMAGES, seed=3).indices(0, np.arange(NUM_IMAGES)).tolist()
    alone = {order[place ^ 1] for place, index in enumerate(order) if index in lost and place < 26}

    def images(data: Dataset, recipe: Recipe) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
        return {
            int(i): (x, label)
            for b in load(data, recipe, on_bad_sample="skip")
            for i, x, label in zip(b.indices, b.images, b.labels, strict=True)
        }

    actual, unmixed, whole = images(faulty, mixing), images(faulty, plain), images(dataset, mixing)
    assert alone - lost
    for index in actual:
        if index in alone or index == order[26]:
            assert torch.equal(actual[index][0], unmixed[index][0])
            assert actual[index][1].tolist() == np.eye(3)[index // 9].tolist()
        else:
            assert torch.equal(actual[index][0], whole[index][0])
            assert not torch.equal(actual[index][0], unmixed[index][0])


def test_mixtures_are_torchvisions(dataset: Dataset) -> None:
    """Images and soft labels are torchvision's MixUp of a pair, with the share that the label tells."""
    plain = next(iter(load(dataset, Recipe([RandomResizedCrop(24)]), batch_size=26)))
    mixed = next(iter(load(dataset, Recipe([RandomResizedCrop(24), MixUp()]), batch_size=26)))
    transform = v2.MixUp(num_classes=3)
    num_checked = 0
    for first in range(0, 26, 2):
        pair = slice(first, first + 2)
        labels = plain.labels[pair]
        if labels[0] == labels[1]:  # the share cannot be read off the label
            continue
        for row in range(2):
            share = float(mixed.labels[pair][row, labels[row]])
            # torchvision blends each row with the row before it, by one share for the batch.
            params = {"labels": labels, "batch_size": 2, "lam": share}
            image = transform.transform(plain.images[pair], params)[row]
            label = transform._mixup_label(labels, lam=share)[row]
            assert torch.allclose(mixed.images[pair][row], image, atol=1e-6)
            assert torch.allclose(mixed.labels[pair][row], label, atol=1e-6)
            num_checked += 0.05 < share < 0.95
    assert num_checked > 5  # not a copy of either


class TestClassCount:
    def test_of_the_operation(self, dataset: Dataset) -> None:
        """num_classes in the recipe counts, and has the last word."""
        recipe = Recipe([RandomResizedCrop(24), MixUp(num_classes=5)])
        assert next(iter(load(dataset, recipe))).labels.shape == (8, 5)

    def test_missing(self, dataset: Dataset, tmp_path: Any) -> None:
        """Where neither recipe nor data tells the number, the error says what to give."""
        names = [dataset.fetch([i])[0].key for i in (0, 9, 18)]
        lines = [f"{dataset._prefix}{name} {label}" for label, name in enumerate(names)]
        (tmp_path / "list.txt").write_text("\n".join(lines))
        with pytest.raises(LoaderError, match=r"MixUp mixes labels.*give it, as in MixUp\(num_"):
            load(open_dataset(tmp_path / "list.txt"), Recipe([RandomResizedCrop(24), MixUp()]))

    def test_too_small(self, dataset: Dataset) -> None:
        """A label that is no class is named with its sample."""
        words = r"the label of class2/.* is 2, but there are 2 classes"
        with pytest.raises(LoaderError, match=words):
            list(load(dataset, Recipe([RandomResizedCrop(24), MixUp(num_classes=2)])))

    def test_without_labels(self, tmp_path: Any, jpeg: Callable[..., bytes]) -> None:
        """Images that have no labels are mixed all the same, and keep -1, with a warning."""
        dataset = write_images(tmp_path, [jpeg(30, 40, seed=number) for number in range(4)])
        with pytest.warns(UserWarning, match=r"MixUp mixes .* so that batch.labels is -1"):
            loader = load(dataset, FOURS, batch_size=4)
        assert next(iter(loader)).labels.tolist() == [-1] * 4

    @pytest.mark.parametrize(("missing", "count"), [((3,), "1"), (range(NUM_IMAGES), "2[67]")])
    @pytest.mark.parametrize("operation", [MixUp(num_classes=3), CutMix(p=0.0), Mosaic()])
    def test_missing_labels(
        self, dataset: Dataset, missing: Any, count: str, operation: Any
    ) -> None:
        """A missing label is never a target of zeros, which a loss would count as 0."""
        labels = [None if i in missing else i // 9 for i in range(NUM_IMAGES)]
        recipe = Recipe([RandomResizedCrop(24), operation])
        some = dataset.with_labels(labels, classes=dataset.class_names)
        with pytest.raises(
            LoaderError,
            match=rf'{count} of 2\d labels of the batch are -1.*where\("label >= 0"\)',
        ):
            list(load(some, recipe, batch_size=26))
        images = torch.zeros(4, 3, 30, 40, dtype=torch.uint8)
        transform = Recipe([RandomResizedCrop(24), replace(operation, num_classes=3)]).transform()
        together = list(zip(images, [0, -1, 2, 1], strict=True))
        words = "1 of 4 labels of the batch are -1"
        with pytest.raises(RecipeError, match=words):
            transform(images, torch.tensor([0, -1, 2, 1]))
        with pytest.raises(RecipeError, match=words):
            transform.collate(together)


@pytest.mark.parametrize("group", [2, 4])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 9])
def test_complete_groups(group: int, length: int) -> None:
    """Every set of positions is extended to the groups it touches, in order, and is found in them."""
    for start, stop in itertools.combinations(range(length + 1), 2):
        share = np.arange(start, stop)
        positions, rows = complete_groups(share, group, length)
        touched = {place // group for place in share.tolist()}
        expected = [place for place in range(length) if place // group in touched]
        assert positions.tolist() == expected
        assert positions[rows].tolist() == share.tolist()


def test_explain(dataset: Dataset) -> None:
    """explain() says who is mixed, and what the labels are."""
    text = load(dataset, FOURS).explain()
    assert "mixing: among 4 neighbours in the order" in text
    assert "labels: float32 [8, 3]" in text
    assert "mixing" not in load(dataset, Recipe([RandomResizedCrop(24)])).explain()
