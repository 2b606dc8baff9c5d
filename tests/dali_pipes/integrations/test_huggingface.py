"""Loaders in accelerate, in the Trainer of transformers, and in the loops of libraries that `make` does not install."""

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

from dali_pipes import Loader, LoaderError
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
    """A model that keeps the sums of what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 8 * 8, 2)
        self.seen: list[float] = []

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Note the sum of the images, and return a loss."""
        self.seen.append(float(pixel_values.double().sum()))
        scores = self.layer(pixel_values.flatten(1))
        return {"loss": torch.nn.functional.cross_entropy(scores, labels.clamp(0, 1))}


class LoaderTrainer(Trainer):  # type: ignore[misc]
    loader: Loader

    def get_train_dataloader(self) -> Any:
        """Return the loader."""
        return Dictionaries(self.loader, pixel_values="images", labels="labels")


def train(
    loader: Loader, folder: Path, *, resume: str | None = None, **options: Any
) -> list[float]:
    usual: dict[str, Any] = {
        "use_cpu": True,
        "report_to": [],
        "disable_tqdm": True,
        "logging_strategy": "no",
        "num_train_epochs": 3,
        "save_steps": 4,
        "ignore_data_skip": True,
    }
    arguments = TrainingArguments(str(folder), **usual | options)
    trainer = LoaderTrainer(Noting(), arguments, callbacks=[LoaderCallback(loader)])
    trainer.loader = loader
    trainer.train(resume_from_checkpoint=resume and str(folder / resume))
    return trainer.model.seen


@pytest.fixture
def expected(dataset: Dataset) -> list[float]:
    loader = make_loader(dataset)
    return [float(batch.images.double().sum()) for _ in range(3) for batch in loader]


@pytest.mark.filterwarnings("ignore")
def test_trainer_goes_through_the_loaders_epochs_and_resumes_within_one(
    dataset: Dataset, expected: list[float], tmp_path: Path
) -> None:
    assert train(make_loader(dataset), tmp_path) == expected
    with_gaps = train(make_loader(dataset), tmp_path, resume="checkpoint-4")
    assert with_gaps == expected[4:]


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_that_would_skip_once_more_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    train(make_loader(dataset), tmp_path, max_steps=4)
    options: dict[str, Any] = {"resume": "checkpoint-4", "ignore_data_skip": False}
    with pytest.raises(LoaderError, match="ignore_data_skip=True"):
        train(make_loader(dataset), tmp_path, **options)
    (tmp_path / "checkpoint-4" / "gpu_aug_loader.json").unlink()
    with pytest.raises(LoaderError, match="is missing, so the loader cannot go on"):
        train(make_loader(dataset), tmp_path, resume="checkpoint-4")


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
