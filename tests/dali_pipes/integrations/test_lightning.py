"""Loaders in a Lightning Trainer: a bare loader says what must come, an uninterrupted run what must follow."""

import importlib
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import Batch, Loader, LoaderError, MissingPackageError
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker
from tests.support.small import make_small

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Lightning imports
    lightning = pytest.importorskip("lightning")
    from dali_pipes.integrations.lightning import LoaderModule

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])
NUM_STEPS = 4  # of an epoch

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Lightning advises loggers, workers and accelerators


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    """Small pictures of three classes."""
    return make_small(jpeg, 17)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order
    yield
    torch.set_num_threads(before)


make_loader = loader_maker(RECIPE, seed=3, dtype=torch.float32)


class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """A linear classifier that notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(3 * 8 * 8, 3)
        self.steps: list[tuple[int, list[int], float]] = []
        self.validations: list[list[Any]] = []
        self.tests: list[list[int]] = []

    def training_step(self, batch: Batch) -> torch.Tensor:
        """Note epoch, positions and loss."""
        logits = self.layer(batch.images.flatten(1))
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        self.steps.append((self.current_epoch, batch.indices.tolist(), loss.item()))
        self.log("loss", loss, batch_size=len(batch))
        return loss

    def on_validation_epoch_start(self) -> None:
        """Begin a new note."""
        self.validations.append([])

    def validation_step(self, batch: Batch) -> None:
        """Note positions and pixels."""
        self.validations[-1].append((batch.indices.tolist(), batch.images.numpy().tobytes()))

    def test_step(self, batch: Batch) -> None:
        """Note positions."""
        self.tests.append(batch.indices.tolist())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """SGD with momentum, whose state a checkpoint has to keep."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def make_trainer(folder: Path, **options: Any) -> Any:
    usual: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": False, "max_epochs": 3}
    usual |= {"enable_progress_bar": False, "enable_model_summary": False}
    usual |= {"enable_checkpointing": "callbacks" in options, "default_root_dir": folder}
    return lightning.Trainer(**{**usual, **options})


def steps_of(loader: Loader) -> list[tuple[int, list[int]]]:
    """Epoch and indices of each step of three epochs."""
    with loader:
        return [(epoch, batch.indices.tolist()) for epoch in range(3) for batch in loader]


def checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints in a folder, by the number of steps before them."""
    return {int(path.stem.partition("step=")[2]): path for path in folder.glob("*.ckpt")}


def keep_all(folder: Path, **options: Any) -> Any:
    """A callback that keeps every checkpoint it writes, named by epoch and step."""
    checkpoint = lightning.pytorch.callbacks.ModelCheckpoint
    return checkpoint(folder, filename="{epoch}-{step}", save_top_k=-1, **options)


def fit(
    folder: Path, make: Callable[[], Loader], resume: Path | None = None, **options: Any
) -> Model:
    model = Model()
    trainer = make_trainer(folder, **options)
    trainer.fit(model, LoaderModule(train=make), ckpt_path=resume, weights_only=True)
    return model


@pytest.mark.parametrize("at", ["steps", "epochs"])
def test_resume_from_every_checkpoint(dataset: Dataset, tmp_path: Path, at: str) -> None:
    """From each checkpoint, within epochs and at their ends, come the same batches and the same losses."""
    make = partial(make_loader, dataset)
    when = {"every_n_train_steps": 1} if at == "steps" else {"save_on_train_epoch_end": True}
    whole = fit(tmp_path, make, callbacks=[keep_all(tmp_path, **when)]).steps
    found = checkpoints(tmp_path)

    assert [step[:2] for step in whole] == steps_of(make())
    assert len({step[2] for step in whole}) == len(whole) == 3 * NUM_STEPS
    assert sorted(found) == list(range(1, 13) if at == "steps" else range(4, 13, 4))
    for num_steps, path in found.items():
        assert fit(tmp_path, make, path).steps == whole[num_steps:], path.name


def test_resume_after_an_exception(dataset: Dataset, tmp_path: Path) -> None:
    """A checkpoint that is written because a step failed goes on with the batch after those that were done."""

    class Failing(Model):
        def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
            del batch
            if (self.current_epoch, batch_idx) == (1, 2):
                raise RuntimeError("made to fail")

    whole = fit(tmp_path, lambda: make_loader(dataset)).steps
    failing = Failing()
    last = keep_all(tmp_path, every_n_train_steps=1)
    trainer = make_trainer(tmp_path, callbacks=[last])
    with pytest.raises(RuntimeError, match="made to fail"):
        trainer.fit(failing, LoaderModule(train=lambda: make_loader(dataset)))
    rest = fit(tmp_path, lambda: make_loader(dataset), last.best_model_path or last.last_model_path)

    assert failing.steps + rest.steps == whole


def test_one_loader_lives_for_each_purpose(dataset: Dataset) -> None:
    """Who asks for a loader anew closes the one before, which ends its loop; teardown closes the last."""
    data = LoaderModule(test=partial(make_loader, dataset))
    first = iter(data.test_dataloader())
    next(first)
    second = iter(data.test_dataloader())
    next(second)
    assert list(first) == []
    data.teardown("test")
    assert list(second) == []


def test_tests_see_every_sample(dataset: Dataset, tmp_path: Path) -> None:
    """`trainer.test` goes through the whole test data, twice the same."""
    model = Model()
    data = LoaderModule(test=lambda: make_loader(dataset, last_batch="partial"))
    for _ in range(2):
        make_trainer(tmp_path).test(model, data, verbose=False)

    assert model.tests[:5] == model.tests[5:]
    assert sorted(itertools.chain(*model.tests[:5])) == list(range(len(dataset)))


def test_predictions(dataset: Dataset, tmp_path: Path) -> None:
    """`trainer.predict` goes through all of its data, in the order of epoch 0."""

    class Predicting(Model):
        def predict_step(self, batch: Batch) -> list[int]:
            return batch.indices.tolist()

    make = partial(make_loader, dataset, last_batch="partial")
    predicted = make_trainer(tmp_path).predict(Predicting(), LoaderModule(predict=make))
    with make() as bare:
        assert predicted == [batch.indices.tolist() for batch in bare]


def test_several_validation_loaders(dataset: Dataset, tmp_path: Path) -> None:
    """A function may make a list, which Lightning goes through in turn."""

    class Numbering(Model):
        def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int) -> None:
            self.validations[-1].append((dataloader_idx, batch_idx, len(batch)))

    model = Numbering()
    data = LoaderModule(
        train=lambda: make_loader(dataset),
        val=lambda: [
            make_loader(dataset),
            make_loader(dataset, batch_size=9, last_batch="partial"),
        ],
    )
    make_trainer(tmp_path, max_epochs=2, num_sanity_val_steps=0).fit(model, data)
    once = [(0, number, 4) for number in range(NUM_STEPS)] + [(1, 0, 9), (1, 1, 8)]
    assert model.validations == [once, once]


def test_overfitting_sees_the_same_batches(dataset: Dataset, tmp_path: Path) -> None:
    """Lightning's `overfit_batches` means the same few batches in each epoch."""
    model = Model()
    trainer = make_trainer(tmp_path, max_epochs=2, overfit_batches=2)
    trainer.fit(model, LoaderModule(train=lambda: make_loader(dataset)))
    first, second = (indices for _, indices, _ in model.steps[:2])
    assert [step[:2] for step in model.steps] == [(0, first), (0, second), (1, first), (1, second)]


def test_batches_move_to_the_trainers_device(dataset: Dataset) -> None:
    """All of a batch moves but what belongs on the host; a batch that is there stays the same object."""
    data = LoaderModule()
    batch = replace(next(iter(make_loader(dataset))), frames=torch.zeros(4, 1))
    moved = data.transfer_batch_to_device(batch, torch.device("meta"), 0)

    assert data.transfer_batch_to_device(batch, torch.device("cpu"), 0) is batch
    for tensors, device in (
        ((moved.images, moved.labels, *moved.views), "meta"),
        ((moved.indices, moved.valid, moved.frames), "cpu"),
    ):
        assert {tensor.device.type for tensor in tensors} == {device}
    assert moved.keys == batch.keys


def test_loaders_that_are_missing_or_wrong(tmp_path: Path) -> None:
    """The error names the argument and shows what to give."""
    trainer = make_trainer(tmp_path)
    for call, data, says in (
        (trainer.test, LoaderModule(), "asks for test data, and LoaderModule has none"),
        (trainer.validate, LoaderModule(), "asks for val data, and LoaderModule has none"),
        (trainer.fit, LoaderModule(train=list), r"LoaderModule\(train=...\) made a list"),
        (
            trainer.test,
            LoaderModule(test=list),
            r"LoaderModule\(test=...\) made a list.*, or a list of them",
        ),
    ):
        with pytest.raises(LoaderError, match=says):
            call(Model(), data)


RANKS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
import torch.distributed
import tests.dali_pipes.integrations.test_lightning as t
from readers import open_dataset

photos, folder = open_dataset(sys.argv[1]), Path(sys.argv[2])

class Told(t.Model):
    def on_train_end(self):
        path = folder / f"{self.trainer.max_epochs}-{torch.distributed.get_rank()}.json"
        path.write_text(json.dumps(self.steps))

def fit(resume=None, **options):
    trainer = t.make_trainer(folder, devices=2, strategy="ddp_fork", **options)
    data = t.LoaderModule(train=lambda: t.make_loader(photos, batch_size=2))
    trainer.fit(Told(), data, ckpt_path=resume)

kept = t.keep_all(folder, every_n_train_steps=3)
fit(max_epochs=2, callbacks=[kept])
fit(folder / "epoch=0-step=3.ckpt", max_epochs=3)
"""


@pytest.mark.long
def test_ranks_share_the_steps(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Two processes under Lightning's ddp: together the batches of one, and both go on exactly."""
    for number in range(17):
        place = tmp_path / "images" / str(number % 3) / f"{number:02d}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jpeg(20, 30, seed=number))
    images = tmp_path / "images"
    command = [sys.executable, "-c", RANKS, str(images), str(tmp_path)]
    root = Path(__file__).resolve().parents[3]
    subprocess.run(command, cwd=root, timeout=120, check=True, capture_output=True)

    def told(max_epochs: int, rank: int) -> Any:
        return json.loads((tmp_path / f"{max_epochs}-{rank}.json").read_text())

    with make_loader(open_dataset(images)) as bare:
        expected = [[epoch, batch.indices.tolist()] for epoch in range(3) for batch in bare]
    for max_epochs, start in ((2, 0), (3, 3)):
        pairs = zip(told(max_epochs, 0), told(max_epochs, 1), strict=True)
        together = [[a[0], a[1] + b[1]] for a, b in pairs]
        assert together == expected[start : max_epochs * NUM_STEPS]
    assert told(3, 1)[:NUM_STEPS] == told(2, 1)[3 : 3 + NUM_STEPS]


def test_without_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says how to install it."""
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "dali_pipes.integrations.lightning")

    with pytest.raises(MissingPackageError, match=r"pip install 'gpu-aug\[lightning\]'"):
        importlib.import_module("dali_pipes.integrations.lightning")
