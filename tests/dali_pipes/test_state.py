"""A state is small, constant in size, free of places, and says in words what does not fit."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Loader, StateMismatchError
from dali_pipes.state import describe_recipe, explain_difference, order_check
from dali_pipes.steps.variants import Variants
from dali_pipes.video.clips import Clips
from gpu_aug import ColorJitter, HorizontalFlip, Normalize, RandomResizedCrop, Recipe
from gpu_aug.ops.operation import Operation
from gpu_aug.presets import PRESETS
from gpu_aug.schedule import Schedule
from gpu_aug.views import Views
from readers import Order, open_dataset
from readers.video import VideoFolderDataset
from tests.support.adapters import MemoryDataset, write_tar
from tests.support.loaders import loader_maker
from tests.support.videos import pan, write_video

RECIPE = Recipe([RandomResizedCrop(16), HorizontalFlip(p=0.3), ColorJitter(0.4), Normalize()])
MOST_BYTES = 2048


loader = loader_maker(RECIPE, seed=3)


@pytest.fixture
def dataset(jpeg: Callable[..., bytes]) -> MemoryDataset:
    return MemoryDataset([jpeg(20, 24, seed=number) for number in range(5)], 21)


def described_recipe(recipe: Recipe | Views) -> list[str]:
    return describe_recipe(Variants((Schedule({0: recipe}),)))


def size_bytes(state: Any) -> int:
    return len(json.dumps(state).encode())


def refused(ours: Loader, state: Any) -> str:
    with pytest.raises(StateMismatchError) as caught:
        ours.load_state_dict(state)
    return str(caught.value)


class TestSmall:
    def test_does_not_grow_over_a_run(self, dataset: MemoryDataset) -> None:
        """After every step of two epochs a state has the same entries and, but for digits, the same size."""
        ours = loader(dataset, batch_size=1)
        first = ours.state_dict()
        for _ in range(2):
            for _batch in ours:
                state = ours.state_dict()
                assert state.keys() == first.keys()
                assert abs(size_bytes(state) - size_bytes(first)) <= len("20")

    def test_does_not_grow_with_the_dataset(self, jpeg: Callable[..., bytes]) -> None:
        """A state of a billion samples is longer by the digits of their number only."""
        small, large = (
            size_bytes(loader(MemoryDataset([jpeg(20, 20)], length)).state_dict())
            for length in (10, 10**9)
        )
        assert large - small == len("00000000") + len(
            ",000,000,00"
        )  # `length`, and the description

    @pytest.mark.parametrize("preset", PRESETS)
    def test_small_for_every_preset(self, preset: str) -> None:
        """The state of each preset, of whatever many views and operations, has less than 2 kB."""
        recipe = Recipe.preset(preset)
        described = described_recipe(recipe)

        assert size_bytes(described) < MOST_BYTES - 600  # for all the rest
        assert described == described_recipe(Recipe.preset(preset))

    def test_small_for_long_names_and_recipes(self, jpeg: Callable[..., bytes]) -> None:
        """Fifty operations and a key of ten thousand letters make no large state."""
        recipe = Recipe([RandomResizedCrop(16), *[ColorJitter(0.1 + i / 100) for i in range(50)]])
        long = MemoryDataset([jpeg(20, 20)], 9, key="k" * 10_000)
        state = loader(long, recipe).state_dict()

        assert size_bytes(state) < MOST_BYTES
        assert state["about"]["recipe"][-1].startswith("and ")

    def test_no_place_on_this_machine(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """A state names kind, number and first sample of the dataset, and no folder of this machine."""
        tar = write_tar(tmp_path / "train-0.tar", [jpeg(20, 20, seed=n) for n in range(9)])
        state = loader(open_dataset(tar)).state_dict()

        assert str(tmp_path) not in json.dumps(state)
        assert state["about"]["dataset"] == "TarDataset(9 samples)"
        assert state["about"]["recipe"][1] == "HorizontalFlip(p=0.3)"

    def test_storage_is_not_read(self, dataset: MemoryDataset) -> None:
        """A run can be saved while its storage fails."""

        def fail(_indices: object) -> list[Any]:
            raise TimeoutError("the disk")

        dataset.fetch = fail  # type: ignore[method-assign]

        assert loader(dataset).state_dict()["about"]["dataset"] == "MemoryDataset of 21 samples"


class TestRefusedInWords:
    def test_another_dataset(self, dataset: MemoryDataset, jpeg: Callable[..., bytes]) -> None:
        """Kind and number of samples of both datasets are told."""
        other = loader(MemoryDataset([jpeg(20, 20)], 30, key="photo"))
        message = refused(loader(dataset), other.state_dict())

        assert "- MemoryDataset of 30 samples; + MemoryDataset of 21 samples" in message
        assert "length is 30 in the state and 21 here" in message

    @pytest.mark.parametrize(
        ("operations", "expected"),
        [
            (
                [RandomResizedCrop(16), HorizontalFlip(p=0.4), ColorJitter(0.4), Normalize()],
                "- HorizontalFlip(p=0.4); + HorizontalFlip(p=0.3))",
            ),
            (
                [RandomResizedCrop(16), HorizontalFlip(), ColorJitter(0.4), Normalize()],
                "- HorizontalFlip(); + HorizontalFlip(p=0.3))",
            ),
            (
                [RandomResizedCrop(20, scale=(0.5, 1)), *RECIPE.operations[1:]],
                "- RandomResizedCrop(size=[20, 20], scale=[0.5, 1.0]); "
                "+ RandomResizedCrop(size=[16, 16]))",
            ),
            (
                [*RECIPE.operations[:2], RECIPE.operations[3]],
                "+ here: + ColorJitter(brightness=",
            ),
            (
                [*RECIPE.operations, HorizontalFlip()],
                "+ here: - HorizontalFlip())",
            ),
        ],
    )
    def test_another_recipe(
        self, dataset: MemoryDataset, operations: list[Operation], expected: str
    ) -> None:
        """It is told which operation differs in which argument, or which one is there or not."""
        message = refused(loader(dataset), loader(dataset, Recipe(operations)).state_dict())

        assert "recipe is" in message
        assert expected in message

    def test_another_view(self, dataset: MemoryDataset) -> None:
        """Of several views it is told which one differs."""
        plain, more = (Recipe([RandomResizedCrop(16, **o)]) for o in ({}, {"scale": (0.5, 1)}))
        other = loader(dataset, Views([plain, plain, more])).state_dict()
        message = refused(loader(dataset, Views([plain, plain, plain])), other)

        assert "- 2 of 3 views: RandomResizedCrop(size=[16, 16])" in message
        assert "- 1 of 3 views: RandomResizedCrop(size=[16, 16], scale=[0.5, 1.0])" in message
        assert "+ 3 of 3 views: RandomResizedCrop(size=[16, 16])" in message

    def test_long_values_that_differ_at_their_end(self) -> None:
        """What is cut off still tells two recipes apart."""
        abouts = [
            {"recipe": described_recipe(Recipe.preset("video_train", size=size))}
            for size in (224, 225)
        ]
        longs = [described_recipe(Recipe([_choice(last)])) for last in (1, 2)]

        assert (
            explain_difference("recipe", *abouts)
            == "- in the state, + here: - RandomCrop(size=[224, 224]); + RandomCrop(size=[225, 225])"
        )
        assert longs[0] != longs[1]

    def test_seed_and_order(self, dataset: MemoryDataset) -> None:
        """Another seed and another kind of order are named, and so is an order of other arithmetic."""
        ours = loader(dataset)
        other = loader(dataset, seed=4, shuffle="none")
        message = refused(ours, other.state_dict())
        assert (
            "seed is 4 in the state and 3 here; shuffle is 'none' in the state and 'global'"
            in message
        )

        message = refused(ours, {**ours.state_dict(), "order": "0" * 16})
        assert "order is '000000000000' in the state" in message
        assert "they follow from length, seed, shuffle" in message

    def test_other_clips(self, tmp_path: Path) -> None:
        """What was set otherwise is named, of a selection of clips too."""
        write_video(tmp_path / "a.mp4", pan(8, (16, 24)))
        videos = VideoFolderDataset(tmp_path)
        usual: dict[str, Any] = {"num_frames": 2, "stride": 2, "clips_per_video": 4}
        ours, fewer, byseconds = (
            Clips(videos, **{**usual, **other})
            for other in ({}, {"stride": 3, "padding": "loop"}, {"stride": None, "fps": 5})
        )

        selection = [1, 2, 3, 0]
        for here, other, words in (
            (ours, fewer, "- .*stride=3.*padding=loop.*; [+] .*stride=2"),
            (ours.take(selection), fewer.take(selection), "- .*stride=3.*; [+] .*stride=2"),
            (ours, byseconds, "- .*fps=5.*; [+] .*stride=2"),
        ):
            assert re.search(words, refused(loader(here), loader(other).state_dict()))

    @pytest.mark.parametrize(
        "about", [None, 3, {}, {"dataset": 1, "recipe": 2}, {"recipe": [None]}]
    )
    def test_damaged_words_hide_no_difference(self, dataset: MemoryDataset, about: Any) -> None:
        """Whatever stands in the description, the difference itself is told."""
        ours = loader(dataset)
        state = {**ours.state_dict(), "recipe": "other", "about": about}

        assert "recipe is 'other' in the state" in refused(ours, state)


class TestOldAndEdited:
    def test_state_without_the_new_entries(self, dataset: MemoryDataset) -> None:
        """A state of the first version, without description and order check, loads, or is refused by hashes."""
        ours = loader(dataset)
        list(zip(range(2), ours, strict=False))
        saved = ours.state_dict()
        old = {name: value for name, value in saved.items() if name not in ("about", "order")}
        again = loader(dataset)
        again.load_state_dict(old)

        assert again.state_dict() == saved
        message = refused(loader(dataset), {**old, "dataset": "other"})
        assert "dataset is 'other' in the state and '" in message

    def test_another_recipe_on_purpose(self, dataset: MemoryDataset) -> None:
        """Who puts the new recipe's fingerprint into the state goes on with it in the middle of an epoch."""
        ours = loader(dataset)
        list(zip(range(2), ours, strict=False))
        larger = Recipe([RandomResizedCrop(24), Normalize()])
        after = loader(dataset, larger)
        after.load_state_dict({**ours.state_dict(), "recipe": larger.fingerprint})

        assert next(iter(after)).images.shape[-1] == 24
        assert after.state_dict()["consumed"] == 3 * 4

    def test_the_words_say_how_to_go_on(self, dataset: MemoryDataset) -> None:
        """A recipe that is another one only by its fingerprint can be used all the same."""
        recipe = Recipe([RandomResizedCrop(16), _halved])
        state = loader(dataset, recipe).state_dict()
        message = refused(loader(dataset, recipe), {**state, "recipe": "6842" * 16})

        assert "{**state, 'recipe': loader.state_dict()['recipe']}" in message
        loader(dataset, recipe).load_state_dict({**state, "recipe": recipe.fingerprint})


def test_order_check_tells_orders_apart() -> None:
    """Every seed, length and kind has another check value, on one sample as on a billion."""
    orders = [Order(length, seed=seed) for length in (50, 51, 10**9) for seed in range(5)]
    orders.append(Order(50, shuffle="none"))

    assert len({order_check(order) for order in orders}) == len(orders)
    assert order_check(orders[0]) == order_check(Order(50, seed=0))
    assert len(order_check(Order(1))) == 16


def _halved(x: Any) -> Any:
    return x / 2


def _choice(last: int) -> Operation:
    from gpu_aug import RandomShortestSize

    return RandomShortestSize([*range(256, 321), 400 + last])
