"""Loaders in accelerate and in the Trainer of transformers: the same batches, and checkpoints that go on exactly."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from transformers import Trainer, TrainingArguments

from dali_pipes import Loader, LoaderError
from dali_pipes.integrations.huggingface import Dictionaries, LoaderCallback
from gpu_aug import RandomResizedCrop, Recipe
from readers import Dataset
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8)])
NUM_STEPS = 3  # of an epoch


@pytest.fixture(scope="module")
def dataset(jpeg: Callable[..., bytes]) -> Dataset:
    return make_small(jpeg, 4 * NUM_STEPS)


def make_loader(dataset: Dataset) -> Loader:
    return Loader(dataset, RECIPE, batch_size=len(dataset) // NUM_STEPS, seed=4, device="cpu")


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
    seen: list[float] = trainer.model.seen
    return seen


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


@pytest.mark.filterwarnings("ignore")
def test_accelerate_leaves_a_loader_alone_and_keeps_its_state(
    dataset: Dataset, tmp_path: Path
) -> None:
    accelerator, loader = Accelerator(cpu=True), make_loader(dataset)
    assert accelerator.prepare(loader) is loader
    accelerator.register_for_checkpointing(loader)
    steps = iter(loader)
    next(steps)
    accelerator.save_state(str(tmp_path))
    rest = [batch.keys for batch in steps]
    other = make_loader(dataset)
    again = Accelerator(cpu=True)
    again.register_for_checkpointing(other)
    again.load_state(str(tmp_path))
    assert [batch.keys for batch in other] == rest
