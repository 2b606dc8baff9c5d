"""The loader's promise: same samples, order and draws whatever engine, decoder, batch size, ranks or threads."""

import itertools
import json
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, Execution, Loader, LoaderError, StateMismatchError
from dali_pipes.arguments.choose import CPU_SPEEDS, choose
from gpu_aug import (
    ColorJitter,
    EngineError,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
)
from gpu_aug.engines.backends.step import prepare_torch
from gpu_aug.ops.operation import Operation
from readers import Dataset, Order
from tests.support.loaders import (
    assert_same_images,
    indices_of,
    loader_maker,
    rows_of,
    write_images,
)
from tests.support.same_batches import assert_same

NUM_IMAGES = 37
RESULTS = Path(__file__).parents[2] / "bench" / "results"
RECIPE = Recipe(
    [RandomResizedCrop(32), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()]
)
DECODERS = ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Class folders with 37 images of different sizes."""
    images = [jpeg(40 + number, 90 - number, seed=number) for number in range(NUM_IMAGES)]
    labels = [number % 3 for number in range(NUM_IMAGES)]
    return write_images(tmp_path_factory.mktemp("images"), images, labels=labels)


load = loader_maker(RECIPE, batch_size=8, dtype=torch.float32, seed=3, last_batch="partial")


def images_of(batches: list[Batch]) -> torch.Tensor:
    """All images, in the order of their indices."""
    return torch.stack([image for _, image in sorted(rows_of(batches), key=itemgetter(0))])


class TestSameEverywhere:
    def test_epoch_is_the_global_order(self, dataset: Dataset) -> None:
        """An epoch hands over every sample once, in the order that Order gives."""
        expected = Order(NUM_IMAGES, seed=3).indices(0, np.arange(NUM_IMAGES)).tolist()
        assert indices_of(load(dataset)) == expected
        assert sorted(expected) == list(range(NUM_IMAGES))

    def test_rows_belong_together(self, dataset: Dataset) -> None:
        """Labels and keys are those of the sample at the batch's index; there is nothing of clips."""
        for batch in load(dataset):
            fetched = dataset.fetch(batch.indices.tolist())
            assert batch.keys == [sample.key for sample in fetched]
            assert batch.labels.tolist() == [sample.label for sample in fetched]
            assert batch.frames is batch.seconds is batch.videos is None

    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 1},
            {"batch_size": 37},
            {"num_threads": 1},
            {"num_threads": 5},
            {"execution": Execution(prefetch=7)},
        ],
        ids=str,
    )
    def test_settings_do_not_matter(self, dataset: Dataset, options: dict[str, int]) -> None:
        """Batch size, threads and prefetch change neither the order nor a single bit of an image."""
        usual, other = list(load(dataset)), list(load(dataset, **options))

        assert indices_of(usual) == indices_of(other)
        assert_same_images(usual, other)

    @pytest.mark.needs_dali
    def test_decoders_agree(self, dataset: Dataset) -> None:
        """With DALI and without it the pictures are the same to the bit; another seed's are not."""
        without, with_dali = (list(load(dataset, decoder=name)) for name in ("cpu", "dali"))
        other_seed = list(load(dataset, decoder="dali", seed=4))

        assert_same(with_dali, without)
        assert not torch.equal(images_of(without), images_of(other_seed))

    @pytest.mark.parametrize("decoder", DECODERS)
    def test_engines_agree(self, dataset: Dataset, decoder: str) -> None:
        """Both engines give the same batches within the operations' tolerance; another epoch does not."""
        kornia = list(load(dataset, decoder=decoder, engine="kornia"))
        loader = load(dataset, decoder=decoder, engine="albumentations")
        albumentations = list(loader)

        assert indices_of(kornia) == indices_of(albumentations)
        spread = 255 * min(RECIPE.operations[-1].std)
        atol = max(op.tolerance for op in RECIPE.batch_leaves) / spread
        assert (images_of(kornia) - images_of(albumentations)).abs().max() <= atol
        assert (images_of(kornia) - images_of(list(loader))).abs().max() > 10 * atol

    @pytest.mark.parametrize("world_size", [2, 7])
    @pytest.mark.parametrize("decoder", DECODERS)
    def test_union_of_ranks(self, dataset: Dataset, world_size: int, decoder: str) -> None:
        """The ranks' shares of a step, put together, are the step of a single process, to the bit."""
        ranks = [
            load(dataset, batch_size=2, rank=r, world_size=world_size, decoder=decoder)
            for r in range(world_size)
        ]
        alone = load(dataset, batch_size=2 * world_size, decoder=decoder)

        for whole, *shares in zip(alone, *ranks, strict=True):
            assert torch.equal(torch.cat([share.indices for share in shares]), whole.indices)
            assert torch.equal(torch.cat([share.images for share in shares]), whole.images)

    @pytest.mark.parametrize("decoder", DECODERS)
    def test_ranks_without_a_sample(self, dataset: Dataset, decoder: str) -> None:
        """A rank that has no share of the last step gets an empty batch, and the next epoch is sound."""
        options = {"batch_size": 3, "world_size": 6, "decoder": decoder}  # 37 = 2 * 18 + 1
        ranks = [load(dataset, rank=rank, **options) for rank in range(6)]
        for _ in range(2):
            batches = [list(loader) for loader in ranks]
            assert sorted(len(own[-1]) for own in batches) == [0, 0, 0, 0, 0, 1]
            received = itertools.chain(*(indices_of(own) for own in batches))
            assert sorted(received) == list(range(NUM_IMAGES))

    def test_epochs_differ(self, dataset: Dataset) -> None:
        """The next loop is the next epoch: another order and other draws."""
        loader = load(dataset)
        first, second = list(loader), list(loader)

        assert indices_of(first) != indices_of(second)
        assert not torch.equal(images_of(first), images_of(second))


class TestResume:
    @pytest.mark.parametrize("decoder", DECODERS)
    def test_at_every_step(self, dataset: Dataset, decoder: str) -> None:
        """A state taken after any step gives the rest of the epoch and the next one, to the bit."""
        whole = load(dataset, decoder=decoder)
        expected = [*whole, *whole]
        per_epoch = len(whole)

        for stop in range(per_epoch + 1):
            interrupted = load(dataset, decoder=decoder)
            if stop:
                list(itertools.islice(interrupted, stop))
            resumed = load(dataset, decoder=decoder)
            resumed.load_state_dict(interrupted.state_dict())
            assert resumed.epoch == stop // per_epoch
            rest = [batch for _ in range(resumed.epoch, 2) for batch in resumed]
            assert_same(rest, expected[stop:])

    @pytest.mark.parametrize(("world_size", "batch_size"), [(1, 5), (2, 3), (3, 4), (7, 1)])
    def test_into_other_ranks(self, dataset: Dataset, world_size: int, batch_size: int) -> None:
        """A run of two ranks goes on with any number of ranks and any batch size, each sample once."""
        before = [load(dataset, batch_size=3, rank=r, world_size=2) for r in range(2)]
        had = [list(itertools.islice(loader, 3)) for loader in before]
        assert before[0].state_dict() == before[1].state_dict()

        after = []
        for rank in range(world_size):
            loader = load(dataset, batch_size=batch_size, rank=rank, world_size=world_size)
            loader.load_state_dict(before[0].state_dict())
            after.append(list(loader))
        steps = [*zip(*had, strict=True), *zip(*after, strict=True)]
        assert indices_of(itertools.chain(*steps)) == indices_of(load(dataset))

    def test_state_counts_what_was_received(self, dataset: Dataset) -> None:
        """Batches under way do not count as consumed."""
        loader = load(dataset, execution=Execution(prefetch=4))
        iterator = iter(loader)

        assert loader.state_dict()["consumed"] == 0
        next(iterator)
        assert loader.state_dict()["consumed"] == 8

    @pytest.mark.parametrize("options", [{"batch_size": 1}, {"last_batch": "partial"}], ids=str)
    def test_after_a_dropped_rest(self, dataset: Dataset, options: dict[str, Any]) -> None:
        """A state from the end of an epoch goes on with the next, whatever the last batch dropped."""
        ended = load(dataset, last_batch="drop")
        list(ended)
        resumed = load(dataset, **{"last_batch": "drop", **options})
        resumed.load_state_dict(ended.state_dict())

        assert resumed.epoch == 1
        rest = indices_of(list(itertools.islice(resumed, 5)))
        assert rest == Order(NUM_IMAGES, seed=3).indices(1, np.arange(len(rest))).tolist()

    def test_latest_loop_has_the_state(self, dataset: Dataset) -> None:
        """An earlier iterator that is still used does not move the state of a later one."""
        loader = load(dataset)
        earlier, later = iter(loader), iter(loader)
        next(earlier)
        next(later)
        list(itertools.islice(earlier, 3))

        assert loader.state_dict()["epoch"] == 1
        assert loader.state_dict()["consumed"] == 8

    def test_loaded_state_is_not_moved_by_an_old_loop(self, dataset: Dataset) -> None:
        """An iterator from before a state was loaded does not count."""
        loader = load(dataset)
        state = loader.state_dict()
        old = iter(loader)
        next(old)
        loader.load_state_dict(state)
        next(old)

        assert loader.state_dict() == state

    def test_set_epoch_keeps_a_loaded_place(self, dataset: Dataset) -> None:
        """The usual call of set_epoch at the head of a loop does not undo a resume."""
        interrupted = load(dataset)
        list(itertools.islice(interrupted, 2))
        resumed = load(dataset)
        resumed.load_state_dict(interrupted.state_dict())

        resumed.set_epoch(0)
        assert len(list(resumed)) == 3
        resumed.set_epoch(5)
        assert resumed.state_dict()["epoch"] == 5
        assert len(list(resumed)) == 5


class TestForeignState:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 0}, r"version is 0 in the state and 1 here"),
            ({"dataset": "other"}, r"dataset is 'other' in the state and '[0-9a-f]+' here"),
            ({"length": 38}, r"length is 38 in the state and 37 here"),
            ({"recipe": "other"}, r"recipe is 'other' in the state"),
            ({"seed": 4, "shuffle": "none"}, r"seed is 4 .* and 3 here; shuffle is 'none' in the"),
            ({"consumed": 38}, r"position is impossible: epoch=0, consumed=38"),
            ({"consumed": 1.5}, r"position is impossible"),
            ({"epoch": -1}, r"position is impossible"),
            ({"epoch": True}, r"position is impossible"),
        ],
        ids=str,
    )
    def test_refused_with_the_difference(
        self, dataset: Dataset, change: dict[str, Any], message: str
    ) -> None:
        """A state that differs from the run is refused, and the difference is named."""
        loader = load(dataset)
        state = loader.state_dict()
        loader.load_state_dict(state)

        with pytest.raises(StateMismatchError, match=message):
            loader.load_state_dict({**state, **change})

    @pytest.mark.parametrize("state", [{}, {"epoch": 3}, None, []])
    def test_not_a_state(self, dataset: Dataset, state: Any) -> None:
        """Something else than a state is refused by what it lacks."""
        with pytest.raises(StateMismatchError, match="not a loader's state: it lacks version"):
            load(dataset).load_state_dict(state)


class TestBatch:
    @pytest.mark.parametrize(
        ("last_batch", "sizes", "num_valid"),
        [("drop", [8] * 4, 32), ("partial", [8] * 4 + [5], 37), ("pad", [8] * 5, 37)],
    )
    def test_last_batch(
        self, dataset: Dataset, last_batch: str, sizes: list[int], num_valid: int
    ) -> None:
        """The last batch is dropped, handed over small, or padded with rows that are not valid."""
        loader = load(dataset, last_batch=last_batch)
        batches = list(loader)

        assert [len(batch) for batch in batches] == sizes
        assert len(loader) == len(sizes)
        valid = torch.cat([batch.indices[batch.valid] for batch in batches]).tolist()
        assert len(valid) == len(set(valid)) == num_valid

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    @pytest.mark.parametrize("channels_last", [True, False])
    def test_dtype_and_layout(
        self, dataset: Dataset, dtype: torch.dtype, channels_last: bool
    ) -> None:
        """Images have the asked dtype and memory format, and the values of float32 rounded once."""
        images = next(
            iter(load(dataset, dtype=dtype, execution=Execution(channels_last=channels_last)))
        ).images

        assert (images.dtype, images.shape) == (dtype, (8, 3, 32, 32))
        layout = torch.channels_last if channels_last else torch.contiguous_format
        assert images.is_contiguous(memory_format=layout)
        assert torch.equal(images, load(dataset).peek().images.to(dtype))

    def test_uint8(self, dataset: Dataset) -> None:
        """Without Normalize uint8 holds the picture itself."""
        recipe = Recipe([RandomResizedCrop(32)])
        as_bytes, as_floats = (
            load(dataset, recipe, dtype=dtype).peek() for dtype in (torch.uint8, torch.float32)
        )
        assert torch.equal(as_bytes.images, (as_floats.images * 255).round().to(torch.uint8))
        assert as_bytes.images.max() > 100


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 0}, r"batch_size=0 is not allowed; give an integer of 1 or more"),
            ({"batch_size": 2.5}, r"batch_size=2.5 is not allowed"),
            ({"num_threads": -1}, r"num_threads=-1 is not allowed"),
            ({"max_bad_samples": -1}, r"max_bad_samples=-1 is not allowed"),
            ({"seed": -1}, r"seed=-1 is not allowed"),
            ({"seed": True}, r"seed=True is not allowed"),
            ({"max_bad_samples": 5}, r'is for on_bad_sample="replace" or "skip"'),
            (
                {"shuffle": "blocks"},
                r'shuffle=\'blocks\' is not known; allowed are "global", "block"',
            ),
            ({"last_batch": "keep"}, r'allowed are "drop", "partial", "pad"'),
            ({"on_bad_sample": "ignore"}, r'allowed are "raise", "replace", "skip"'),
            ({"decoder": "pil"}, r'allowed are "auto", "dali", "cpu"'),
            ({"engine": "torch"}, r'allowed are "auto", "fused", "kornia", "albumentations"'),
            ({"device": "gpu"}, r'allowed are "auto", "cpu", "cuda", "cuda:N"'),
            ({"rank": 1}, r"give both, or neither"),
            ({"rank": 2, "world_size": 2}, r"rank=2 is not allowed with world_size=2"),
            ({"dtype": torch.int64}, r"dtype=torch.int64 is not supported"),
            ({"dtype": "float32"}, r"dtype='float32' is not supported"),
            ({"dtype": torch.uint8}, r"leave Normalize out, or use a floating dtype"),
            ({"batch_size": 38, "last_batch": "drop"}, r"an epoch has no full batch: 37 samples"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else "",
    )
    def test_refused(self, dataset: Dataset, options: dict[str, Any], message: str) -> None:
        """An argument that cannot work is named, with what is allowed."""
        with pytest.raises(LoaderError, match=message):
            load(dataset, **options)

    def test_wrong_kinds_of_things(self, dataset: Dataset) -> None:
        """A path for a dataset, a name for a recipe and a negative epoch are named as such."""
        for arguments, words in (
            (("photos", RECIPE), "dataset=the path 'photos' is not a dataset: open it"),
            ((dataset, "imagenet_train"), "recipe is not a Recipe, got .*: write .*Recipe.preset"),
        ):
            with pytest.raises(LoaderError, match=words):
                load(*arguments)
        with pytest.raises(LoaderError, match="epoch=-1 is not allowed"):
            load(dataset).set_epoch(-1)
        assert len(load(dataset, batch_size=np.int64(37))) == 1

    @pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
    def test_cuda_without_a_gpu(self, dataset: Dataset) -> None:
        """Asking for a GPU that is not there says what to do."""
        with pytest.raises(LoaderError, match=r'use device="cpu" or "auto"'):
            load(dataset, device="cuda")

    def test_explain_names_the_choice(self, dataset: Dataset) -> None:
        """explain() tells what was chosen and what happens to an image."""
        text = load(dataset).explain()

        assert "decoder cpu: asked for" in text
        assert "RandomResizedCrop" in text.split("batch stage")[0]
        assert "Normalize" in text.split("batch stage")[1]
        assert "order: 37 samples, shuffle: global, 5 steps of 8 images, rank 0 of 1" in text


class TestAutomaticEngine:
    def test_on_a_cpu(self, dataset: Dataset) -> None:
        """The engine that was measured to be the fastest is taken, and explain() says why."""
        loader = Loader(dataset, RECIPE, batch_size=2, device="cpu")
        assert loader.engine == "fused"
        assert "on a CPU it is the fastest" in loader.explain()
        assert "speed on a CPU: of cpu+fused = 1" in loader.explain()
        assert "times as many" not in loader.explain()

    def test_a_slower_choice_by_name(self, dataset: Dataset) -> None:
        """explain() says how much slower than "auto" it is."""
        told = load(dataset, decoder="cpu", engine="kornia").explain()
        speed = CPU_SPEEDS["cpu+kornia"]
        assert (
            f'cpu+kornia makes {speed:g} times as many images/s as cpu+fused, which "auto"' in told
        )

    def test_the_speeds_are_those_of_the_result_file(self) -> None:
        """The fastest is what "auto" stands for, and the ratios are those that were measured."""
        rows = json.loads((RESULTS / "cpu-choice.json").read_text())["rows"]
        rates = {row["name"]: row["images_per_second"]["median"] for row in rows}
        fastest = rates["gpu-aug/cpu+fused"]
        for name, speed in CPU_SPEEDS.items():
            assert round(rates[f"gpu-aug/{name}"] / fastest, 2) == speed
        choice = choose("cpu", "auto", "auto")
        assert max(CPU_SPEEDS, key=CPU_SPEEDS.__getitem__) == f"{choice.decoder}+{choice.engine}"

    def test_on_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The same."""
        monkeypatch.setattr(
            "dali_pipes.arguments.choose._device", lambda _: (torch.device("cuda", 0), "")
        )
        choice = choose("cuda", "cpu", "auto")
        assert choice.engine == "fused"
        assert "on cuda:0 it is the fastest" in choice.reasons[-1]

    def test_hands_on_what_it_cannot_do(self, dataset: Dataset) -> None:
        """An operation that only Kornia knows is Kornia's to carry out."""
        recipe = Recipe([RandomResizedCrop(32), _OnlyKornia()])
        fused, kornia = (
            load(dataset, recipe, engine=engine).peek().images for engine in ("fused", "kornia")
        )
        assert torch.equal(fused, kornia)

    def test_one_that_was_asked_for_is_not(self, dataset: Dataset) -> None:
        """An engine asked for by name is not replaced, but refuses."""
        recipe = Recipe([RandomResizedCrop(32), _OnlyKornia()])
        with pytest.raises(EngineError, match="cannot carry out _OnlyKornia"):
            load(dataset, recipe, engine="albumentations")


class _OnlyKornia(Operation, abstract=True):
    """Leaves images as they are, on one engine."""


@prepare_torch.register
def _(_operation: _OnlyKornia, _device: torch.device) -> Any:
    return lambda images, _params: images
