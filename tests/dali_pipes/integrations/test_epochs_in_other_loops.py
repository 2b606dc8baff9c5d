"""Training that is cut and goes on, in every foreign loop: what was seen is what an unbroken run sees, step for step.

Each adapter is a function that trains from a state to a number of steps, and returns the steps that it saw and its next
state. A step is known by its place in the unbroken run, so "exact" is ``[stop, stop + 1, ...]``.
"""

import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from accelerate import Accelerator

from dali_pipes import Batch, Execution, Loader, LoaderError
from dali_pipes.integrations.dali import DALIGenericIterator, LastBatchPolicy
from gpu_aug import CenterCrop, Recipe
from readers import Dataset
from tests.support.small import make_small

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Lightning imports
    lightning = pytest.importorskip("lightning")
    from dali_pipes.integrations.lightning import LoaderModule
nodes = pytest.importorskip("torchdata.nodes")
stateful = pytest.importorskip("torchdata.stateful_dataloader")

from dali_pipes.integrations.torchdata import LoaderDataset, LoaderNode  # noqa: E402
from tests.support.loaders import loader_maker  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the trainers; ours are looked for by name

T = TypeVar("T")
RECIPE = Recipe([CenterCrop((8, 8))])
IN_EPOCH, EPOCHS = 4, 3
STEPS = IN_EPOCH * EPOCHS
NUM_IMAGES = 16

QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
Run = Callable[..., tuple[list[int], Any]]


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    return make_small(jpeg, NUM_IMAGES)


make = loader_maker(RECIPE, seed=5, execution=Execution(helper_process=False))


def make_eval(dataset: Dataset) -> Loader:
    return Loader.eval(dataset, RECIPE, batch_size=8, device="cpu", num_threads=1)


@pytest.fixture(scope="module")
def places(dataset: Dataset) -> dict[tuple[int, ...], int]:
    """Step of an unbroken run by its samples."""
    with make(dataset) as loader:
        steps = [step for _ in range(EPOCHS + 1) for step in steps_of(loader)]
    assert len(set(steps)) == len(steps)
    return {step: place for place, step in enumerate(steps)}


def steps_of(loop: Any) -> list[tuple[int, ...]]:
    """The samples of each batch."""
    return [tuple(batch.indices.tolist()) for batch in loop]


def cycle(loops: Any, count: int) -> Iterator[Any]:
    """Take so many items, from one loop after the other, and leave the last where it is."""
    empty = 0
    while count:
        before = count
        for item in itertools.islice(loops, count):
            count -= 1
            yield item
        empty = empty + 1 if before == count else 0
        assert empty < 3, "loops without steps"


class Trained(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Notes what it sees."""

    def __init__(self, *, asks_for_steps: bool = False) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.steps: list[tuple[int, ...]] = []
        self.epochs: list[int] = []
        self.validated: list[list[int]] = []
        self.asks_for_steps = asks_for_steps

    def training_step(self, batch: Batch) -> torch.Tensor:
        """Note samples and Lightning's number of the epoch."""
        self.steps.append(tuple(batch.indices.tolist()))
        self.epochs.append(self.current_epoch)
        return self.weight * batch.images.mean()

    def validation_step(self, batch: Batch) -> None:
        """Note samples."""
        self.validated.append(batch.indices.tolist())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """SGD, with or without a look at the number of steps."""
        if self.asks_for_steps:
            assert self.trainer.estimated_stepping_batches
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(
    kind: str, dataset: Dataset, folder: Path, state: Path | None = None, **options: Any
) -> tuple[Trained, Any]:
    """Train in Lightning; options are those of the trainer and of ModelCheckpoint."""
    saves = {
        name: options.pop(name)
        for name in list(options)
        if "every_n_train" in name or "save_on" in name
    }
    validate, loader_options = options.pop("validate", False), options.pop("loader", {})
    model = Trained(asks_for_steps=options.pop("asks_for_steps", False))
    keep = lightning.pytorch.callbacks.ModelCheckpoint(
        folder, filename="{step}", save_top_k=-1, **saves
    )
    if "max_steps" in options:
        options["max_epochs"] = -1
    trainer = lightning.Trainer(default_root_dir=folder, callbacks=[keep], **QUIET, **options)
    train = make(dataset, **loader_options)
    val = partial(make_eval, dataset) if validate else None
    data: list[Any] = [LoaderModule(train=lambda: train, val=val)]
    if kind == "plain":
        data = [train, val()] if val else [train]
    trainer.fit(model, *data, ckpt_path=state)
    return model, trainer


def checkpoints(folder: Path) -> dict[int, Path]:
    return {int(path.stem.partition("=")[2]): path for path in folder.glob("step=*.ckpt")}


# How the first training is saved and ends. Lightning counts an epoch as done that max_steps ended, loads no state of a
# loader from the end of an epoch, and under max_steps asks an epoch that had ended for one more batch.
CUTS: dict[str, dict[str, Any]] = {
    "default, at the end of epochs": {"max_epochs": 2},
    "every two steps": {"max_epochs": 2, "every_n_train_steps": 2},
    "at the last step of epochs": {"max_epochs": 1, "every_n_train_steps": 4},
    "max_steps within an epoch": {"max_steps": 6},
    "max_steps at an end": {"max_steps": 8, "save_on_train_epoch_end": True},
    "after validations": {"max_epochs": 2, "val_check_interval": 2, "validate": True},
    "ends of epochs with validations": {
        "max_epochs": 2,
        "validate": True,
        "save_on_train_epoch_end": True,
    },
}
# By Lightning a plain loader is not told that max_steps ended within an epoch: see docs/integrations.md.
KNOWN_LOSSES = {("plain", "max_steps within an epoch", 6, "max_epochs")}


# The others cut where one of these does, and at further places.
OFTEN = ("every two steps", "max_steps within an epoch", "ends of epochs with validations")


@pytest.mark.parametrize("kind", ["plain", "module"])
@pytest.mark.parametrize(
    "cut", [pytest.param(cut, marks=[pytest.mark.long] * (cut not in OFTEN)) for cut in CUTS]
)
def test_lightning(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path, kind: str, cut: str
) -> None:
    """From every checkpoint to the end of the third epoch, counted in epochs and in steps."""
    first, _ = fit(kind, dataset, tmp_path, **CUTS[cut])
    assert [places[step] for step in first.steps] == list(range(len(first.steps)))
    found = checkpoints(tmp_path)
    assert found
    later = {
        name: value
        for name, value in CUTS[cut].items()
        if name in ("validate", "val_check_interval")
    }
    for (step, path), (limit, most) in itertools.product(
        found.items(), {"max_epochs": EPOCHS, "max_steps": STEPS}.items()
    ):
        rest, _ = fit(kind, dataset, tmp_path / "rest", path, **{limit: most}, **later)
        exact = [places[seen] for seen in rest.steps] == list(range(step, STEPS))
        assert exact == ((kind, cut, step, limit) not in KNOWN_LOSSES), (path.name, limit)


@pytest.mark.parametrize("kind", ["plain", "module"])
@pytest.mark.parametrize("stop", [6, 8])
def test_lightning_saved_by_hand(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path, kind: str, stop: int
) -> None:
    """`trainer.save_checkpoint` after max_steps, within an epoch and at its end, and once more from there."""
    path = tmp_path / "by hand.ckpt"
    seen: list[int] = []
    for most in (stop, STEPS - 2, STEPS + 2):
        model, trainer = fit(kind, dataset, tmp_path, path if seen else None, max_steps=most)
        trainer.save_checkpoint(path)
        seen += [places[step] for step in model.steps]
    assert seen == list(range(STEPS + 2))


def test_lightnings_numbers_of_the_epochs(dataset: Dataset, tmp_path: Path) -> None:
    """With a LoaderModule they are the loader's, also where max_steps ended within an epoch."""
    fit("module", dataset, tmp_path, max_steps=6)
    rest, _ = fit("module", dataset, tmp_path, checkpoints(tmp_path)[6], max_epochs=EPOCHS)
    assert rest.epochs == [1, 1, 2, 2, 2, 2]


def test_lightning_asks_for_the_steps_before_it_loads(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path
) -> None:
    """An optimizer that needs their number has the loader made first; what cannot go on then is said."""
    fit("module", dataset, tmp_path, max_epochs=2, every_n_train_steps=6)
    options: dict[str, Any] = {"max_epochs": EPOCHS, "asks_for_steps": True}
    rest, _ = fit("module", dataset, tmp_path, checkpoints(tmp_path)[6], **options)
    assert [places[step] for step in rest.steps] == list(range(6, STEPS))
    fit("module", dataset, tmp_path / "cut", max_steps=6)
    with pytest.warns(UserWarning, match="within epoch 1, after 8 of 16 samples.*are left out"):
        rest, _ = fit("module", dataset, tmp_path, checkpoints(tmp_path / "cut")[6], **options)
    assert [places[step] for step in rest.steps] == list(range(8, STEPS))


@pytest.mark.parametrize("kind", ["plain", "module"])
def test_limited_epochs_of_lightning(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path, kind: str
) -> None:
    """`limit_train_batches` ends epochs early; a resumed training begins the same ones."""
    whole, _ = fit(kind, dataset, tmp_path, max_epochs=EPOCHS, limit_train_batches=2)
    assert [places[step] for step in whole.steps] == [0, 1, 4, 5, 8, 9]
    rest, _ = fit(
        kind, dataset, tmp_path, checkpoints(tmp_path)[2], max_epochs=EPOCHS, limit_train_batches=2
    )
    assert rest.steps == whole.steps[2:]


def test_a_loader_made_anew_for_each_epoch(dataset: Dataset, places: dict[Any, int]) -> None:
    """`reload_dataloaders_every_n_epochs` has a hook make a plain loader: it is in the trainer's epoch."""

    class Making(Trained):
        def train_dataloader(self) -> Loader:
            return make(dataset)

    model = Making()
    options = {"reload_dataloaders_every_n_epochs": 1, "enable_checkpointing": False, **QUIET}
    lightning.Trainer(max_epochs=EPOCHS, **options).fit(model)
    assert [places[step] for step in model.steps] == list(range(STEPS))


def test_a_training_that_is_extended(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path
) -> None:
    """The same trainer with more epochs, and the same loader, goes on with the next."""
    model, trainer = fit("plain", dataset, tmp_path, max_epochs=1)
    trainer.fit_loop.max_epochs = EPOCHS
    trainer.fit(model, make(dataset))
    assert [places[step] for step in model.steps] == list(range(STEPS))


@pytest.mark.parametrize("kind", ["plain", "module"])
def test_validations_of_lightning(dataset: Dataset, tmp_path: Path, kind: str) -> None:
    """Each sees all samples in order, after the sanity check too, and moves no training."""
    model, _ = fit(kind, dataset, tmp_path, max_epochs=2, validate=True, num_sanity_val_steps=1)
    once = [list(range(8)), list(range(8, 16))]
    assert model.validated == [once[0], *once, *once]


@pytest.mark.parametrize("kind", ["plain", "module"])
def test_lightning_on_other_batches(dataset: Dataset, tmp_path: Path, kind: str) -> None:
    """From the end of an epoch, as on another number of ranks, every epoch is whole."""
    first, _ = fit(kind, dataset, tmp_path, max_epochs=1)
    rest, _ = fit(
        kind,
        dataset,
        tmp_path,
        checkpoints(tmp_path)[4],
        max_epochs=EPOCHS,
        loader={"batch_size": 8},
    )
    flat = list(itertools.chain(*first.steps, *rest.steps))
    with make(dataset) as loader:
        assert flat == [i for _ in range(EPOCHS) for step in steps_of(loader) for i in step]


def test_lightning_within_an_epoch_of_other_steps(dataset: Dataset, tmp_path: Path) -> None:
    """Lightning would count the steps of other batches wrongly: refused, not skipped."""
    fit("module", dataset, tmp_path, max_epochs=2, every_n_train_steps=2)
    for batch_size, words in (
        (8, "an epoch that had 4 steps and has 2 here"),
        (2, "an epoch that had 4 steps and has 8 here"),
    ):
        options = {"max_epochs": EPOCHS, "loader": {"batch_size": batch_size}}
        with pytest.raises(LoaderError, match=words):
            fit("module", dataset, tmp_path, checkpoints(tmp_path)[6], **options)


def run_bare(dataset: Dataset, state: Any, count: int, **options: Any) -> tuple[list[Any], Any]:
    """A plain loop; so is one in Ray Train, whose ranks a loader asks for."""
    with make(dataset, **options) as loader:
        if state is not None:
            loader.load_state_dict(state)
        return steps_of(cycle(loader, count)), loader.state_dict()


def run_accelerate(dataset: Dataset, state: Any, count: int) -> tuple[list[Any], Any]:
    accelerator, loader = Accelerator(cpu=True), make(dataset)
    prepared = accelerator.prepare(loader)
    assert prepared is loader
    accelerator.register_for_checkpointing(loader)
    if state is not None:
        accelerator.load_state(state)
    seen = steps_of(cycle(prepared, count))
    folder = run_accelerate.folder / str(len(list(run_accelerate.folder.iterdir())))  # type: ignore[attr-defined]
    accelerator.save_state(str(folder))
    return seen, str(folder)


def run_stateful(loader: Any, state: Any, count: int) -> tuple[list[Any], Any]:
    if state is not None:
        loader.load_state_dict(state)
    seen = steps_of(cycle(loader, count))
    return seen, json.loads(json.dumps(loader.state_dict()))


def run_data_loader(dataset: Dataset, state: Any, count: int) -> tuple[list[Any], Any]:
    loader = stateful.StatefulDataLoader(LoaderDataset(make(dataset)), batch_size=None)
    return run_stateful(loader, state, count)


def run_nodes(dataset: Dataset, state: Any, count: int) -> tuple[list[Any], Any]:
    loader = nodes.Loader(LoaderNode(make(dataset)), restart_on_stop_iteration=False)
    return run_stateful(loader, state, count)


def run_prefetched(dataset: Dataset, state: Any, count: int) -> tuple[list[Any], Any]:
    node = nodes.Prefetcher(LoaderNode(make(dataset)), prefetch_factor=2)
    return run_stateful(nodes.Loader(node, restart_on_stop_iteration=False), state, count)


def run_dali(dataset: Dataset, state: Any, count: int) -> tuple[list[Any], Any]:
    loader = make(dataset)
    if state is not None:
        loader.load_state_dict(json.loads(state))
    iterator = DALIGenericIterator(
        loader, ["images", "indices"], auto_reset=True, last_batch_policy=LastBatchPolicy.DROP
    )
    seen = [tuple(data[0]["indices"].tolist()) for data in cycle(iterator, count)]
    return seen, iterator.checkpoints()[0]


LOOPS: dict[str, Run] = {
    "bare": run_bare,
    "accelerate": run_accelerate,
    "StatefulDataLoader": run_data_loader,
    "nodes": run_nodes,
    "prefetched nodes": run_prefetched,
    "DALI": run_dali,
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("stops", [(4, 6, 8, 9), (3, 7, 11)], ids=str)
def test_loops(
    dataset: Dataset, places: dict[Any, int], tmp_path: Path, name: str, stops: tuple[int, ...]
) -> None:
    """Cut at ends, in the middle, and several times, with one validation between the parts."""
    run_accelerate.folder = tmp_path  # type: ignore[attr-defined]
    seen: list[int] = []
    state = None
    for stop in (*stops, STEPS):
        steps, state = LOOPS[name](dataset, state, stop - len(seen))
        seen += [places[step] for step in steps]
        assert len(list(make_eval(dataset))) == 2
    assert seen == list(range(STEPS))


@pytest.mark.parametrize("stop", [4, 6])
@pytest.mark.parametrize("world_size", [2, 4])
def test_another_number_of_ranks(dataset: Dataset, stop: int, world_size: int) -> None:
    """From one process to several and back: each epoch has every sample once."""
    seen, state = run_bare(dataset, None, stop)
    parts = [
        run_bare(dataset, state, 3, batch_size=4 // world_size, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    assert len({json.dumps(part[1], sort_keys=True) for part in parts}) == 1
    shares = zip(*(part[0] for part in parts), strict=True)
    seen += [tuple(itertools.chain(*share)) for share in shares]
    rest, _ = run_bare(dataset, parts[0][1], STEPS - len(seen))
    with make(dataset) as loader:
        assert seen + rest == [step for _ in range(EPOCHS) for step in steps_of(loader)]


def test_loops_that_are_left(dataset: Dataset, places: dict[Any, int]) -> None:
    """A loop that was left in the middle is an epoch; its state goes on within it."""
    with make(dataset) as loader:
        left = steps_of(itertools.islice(loader, 2))
        state = loader.state_dict()
        following = steps_of(loader)
    rest, _ = run_bare(dataset, state, 2)
    assert [places[step] for step in left + following + rest] == [0, 1, 4, 5, 6, 7, 2, 3]


def in_child(work: Callable[[], T]) -> str:
    """Do it in a fork; returns what it raised, or "nothing"."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            work()
            said = "nothing"
        except BaseException as error:  # noqa: BLE001 - it is told to the parent
            said = str(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.parametrize("helpers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_loop_in_a_fork(dataset: Dataset, places: dict[Any, int], helpers: int) -> None:
    """The child is refused the parent's loop, also ends nothing of it; the parent goes on exactly."""
    with make(dataset, execution=Execution(helper_process=helpers)) as loader:
        loop = iter(loader)
        seen = [next(loop)]
        assert in_child(lambda: next(loop)).startswith("this loop was begun before a fork")
        assert in_child(loader.close) == in_child(loop.close) == "nothing"
        seen += [*loop, *loader]
    assert [places[step] for step in steps_of(seen)] == list(range(2 * IN_EPOCH))


@pytest.mark.parametrize("helpers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_new_loop_in_a_fork(dataset: Dataset, places: dict[Any, int], helpers: int) -> None:
    """The child makes batches by threads and helpers of its own, not by those that the parent keeps."""
    with make(dataset, execution=Execution(helper_process=helpers)) as loader:
        seen = list(loader)
        assert in_child(lambda: list(loader)) == "nothing"
        seen += loader
    assert [places[step] for step in steps_of(seen)] == list(range(2 * IN_EPOCH))
