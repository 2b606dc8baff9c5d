"""Loaders in accelerate, in the Trainer of transformers, and in the loops of libraries that `make` does not install."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator, skip_first_batches
from transformers import Trainer, TrainingArguments

from dali_pipes import LoaderError
from dali_pipes.integrations.huggingface import Dictionaries, LoaderCallback
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset
from tests.support.example_data import make_example_data
from tests.support.loaders import loader_maker
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8)])
NUM_STEPS = 3  # of an epoch


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    return make_small(jpeg, 4 * NUM_STEPS)


make_loader = loader_maker(RECIPE, seed=4)


class Noting(torch.nn.Module):
    """A model that keeps the samples of each step, and the sum of their pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 8 * 8, 2)
        self.seen: list[tuple[list[int], float]] = []

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Note a step of training, and return a loss."""
        if self.training:
            self.seen.append((labels.tolist(), float(pixel_values.double().sum())))
        scores = self.layer(pixel_values.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(scores, labels.clamp(0, 1))}


def train(
    dataset: Dataset,
    folder: Path,
    *,
    batch_size: int = 4,
    resume: int | None = None,
    keeps: bool = True,
    **options: Any,
) -> list[tuple[list[int], float]]:
    """Train in the Trainer of transformers, from a checkpoint of that step; evaluate on the same samples."""
    loader = make_loader(dataset, batch_size=batch_size)

    class LoaderTrainer(Trainer):  # type: ignore[misc]
        def get_train_dataloader(self) -> Any:
            return Dictionaries(loader, pixel_values="images", labels="indices")

        def get_eval_dataloader(self, *_: Any) -> Any:
            return Dictionaries(make_loader(dataset), pixel_values="images", labels="indices")

    usual: dict[str, Any] = {
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "logging_strategy": "no",
        "num_train_epochs": 3,
        "save_steps": 2,
        "ignore_data_skip": True,
    }
    callbacks = [LoaderCallback(loader)] if keeps else []
    arguments = TrainingArguments(str(folder), **usual | options)
    trainer = LoaderTrainer(Noting(), arguments, callbacks=callbacks, eval_dataset=[0])
    trainer.train(resume_from_checkpoint=resume and str(folder / f"checkpoint-{resume}"))
    return trainer.model.seen


@pytest.mark.parametrize(
    ("options", "stops"),
    [
        ({}, [2, 4, 6, 8]),
        pytest.param({"save_strategy": "epoch"}, [3, 6], marks=pytest.mark.long),
        pytest.param({"max_steps": 5}, [4, 5], marks=pytest.mark.long),
        pytest.param({"eval_strategy": "steps", "eval_steps": 3}, [6, 8], marks=pytest.mark.long),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_trainer_goes_through_the_loaders_epochs_and_resumes_within_one(
    dataset: Dataset, tmp_path: Path, options: dict[str, Any], stops: list[int]
) -> None:
    with make_loader(dataset) as loader:
        epochs = [batch for _ in range(3) for batch in loader]
    expected = [(batch.indices.tolist(), float(batch.images.double().sum())) for batch in epochs]

    assert train(dataset, tmp_path, **options) == expected[: options.get("max_steps")]
    later = {**options, "save_strategy": "no", "max_steps": -1}
    for stop in stops:
        assert train(dataset, tmp_path, resume=stop, **later) == expected[stop:]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_trainer_on_other_batches(dataset: Dataset, tmp_path: Path) -> None:
    """Trainer counts steps: it is said how many it takes now, and with those every sample comes once."""
    first = train(dataset, tmp_path, max_steps=4)
    options: dict[str, Any] = {"resume": 4, "save_strategy": "no"}
    with pytest.warns(
        UserWarning, match=r"step 4, .* step 8 .*give TrainingArguments\(max_steps=14\)"
    ):
        train(dataset, tmp_path, batch_size=2, **options)
    rest = train(dataset, tmp_path, batch_size=2, max_steps=14, **options)
    flat = [index for indices, _ in [*first, *rest] for index in indices]
    for start in range(0, 36, 12):
        assert sorted(flat[start : start + 12]) == list(range(12))


@pytest.mark.filterwarnings("ignore")
def test_accelerates_skip_first_batches_says_how_to_resume(dataset: Dataset) -> None:
    """It would make a DataLoader of the loader's dataset, without the recipe."""
    loader = Accelerator(cpu=True).prepare(make_loader(dataset, batch_size=2))
    assert not hasattr(loader, "dataset")
    with pytest.raises(AttributeError, match=r"load_state_dict\(state\) before the loop"):
        skip_first_batches(loader, 2)


def test_a_trainer_that_would_skip_or_begin_anew(dataset: Dataset, tmp_path: Path) -> None:
    """Skipping once more and a missing state are refused; without a callback it is said that the epoch begins anew."""
    train(dataset, tmp_path, max_steps=4)
    with pytest.raises(LoaderError, match="ignore_data_skip=True"):
        train(dataset, tmp_path, resume=4, ignore_data_skip=False)
    (tmp_path / "checkpoint-4" / "gpu_aug_loader.json").unlink()
    with pytest.raises(LoaderError, match="is missing, so the loader cannot go on"):
        train(dataset, tmp_path, resume=4)
    with pytest.warns(UserWarning, match=r"continues in epoch 1.*LoaderCallback\(loader\)"):
        train(dataset, tmp_path, resume=4, keeps=False, save_strategy="no")


_BEGIN = """
import torch
from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset
loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=32), batch_size=4, device="cpu")
"""
_KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
def forever(loader):
    while True:
        for images, labels in loader:
            yield images.permute(0, 2, 3, 1), labels
layers = [keras.layers.Input((32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
model = keras.Sequential(layers)
model.compile(optimizer="sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
fitted = model.fit(forever(loader), steps_per_epoch=len(loader), epochs=2, verbose=0)
assert len(fitted.history["loss"]) == 2
"""
_TIMM = """
import timm.optim, timm.utils
model = timm.create_model("resnet18", num_classes=2, pretrained=False)
optimizer = timm.optim.create_optimizer_v2(model, "sgd", lr=1e-3)
meter = timm.utils.AverageMeter()
for input, target in loader:
    loss = torch.nn.functional.cross_entropy(model(input), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    meter.update(loss.item(), input.size(0))
assert meter.count == 36
"""


@pytest.mark.long
@pytest.mark.parametrize(("library", "program"), [("keras", _KERAS), ("timm", _TIMM)])
def test_a_loader_serves_the_loop_of(library: str, program: str, tmp_path: Path) -> None:
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    make_example_data(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
