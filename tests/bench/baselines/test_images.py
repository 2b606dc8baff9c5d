"""The baselines do the work that they are compared for."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from bench.baselines import ceiling, dali, torchvision_cuda
from bench.baselines.images import (
    Kornia,
    OpencvAlbumentations,
    TorchvisionPil,
    TorchvisionTensor,
    TorchvisionV2,
)
from bench.baselines.torch_loader import Baseline
from bench.compare import ours
from bench.compare.task import Task, Unable
from gpu_aug import CenterCrop, GaussianBlur, Normalize, Recipe, Resize
from readers import open_dataset

pytestmark = pytest.mark.filterwarnings(
    "ignore:The image decoding and encoding capabilities of TorchVision:DeprecationWarning"
)

ON_TORCH = (TorchvisionPil, TorchvisionV2, TorchvisionTensor, OpencvAlbumentations, Kornia)


@pytest.fixture
def task(photos: list[Path]) -> Task:
    """Twelve photographs, four in a batch, on the CPU."""
    return Task(
        open_dataset([str(path) for path in photos]),
        photos,
        [0] * len(photos),
        Recipe.imagenet_train(),
        batch_size=4,
        device=torch.device("cpu"),
        num_threads=2,
        seed=0,
    )


@pytest.mark.parametrize("preset", ["imagenet_train", "imagenet_train_jitter", "imagenet_eval"])
@pytest.mark.parametrize("library", ON_TORCH)
def test_baseline_makes_normalised_floats(
    library: type[Baseline], preset: str, photos: list[Path]
) -> None:
    """Every baseline turns photographs into float32 [B, 3, 224, 224], normalised."""
    peer = library(Recipe.preset(preset))

    images = peer.finish(torch.stack([peer.load(path) for path in photos[:4]]))

    assert images.dtype == torch.float32
    assert images.shape == (4, 3, 224, 224)
    assert images.min() < -0.5  # neither 0 to 1 nor 0 to 255
    assert 0.5 < images.max() < 2.7


def from_library(library: type[Baseline], task: Task) -> Iterator[torch.Tensor]:
    """A batch of a library's images in the order of the files."""
    peer = library(task.recipe)
    yield peer.finish(torch.stack([peer.load(path) for path in task.files]))


# How a batch is made, and the mean differences to torchvision on PIL images that are allowed and must be exceeded
# by another size. Measured: 0.00002 on tensors, 0.16 without antialiasing, 0.025 of DALI, nearly all of it in an image
# whose longer side it rounds up, 0.003 of decode_jpeg; 0.5 and more for another size.
FOLLOWING = {
    "torchvision-v2": (lambda task: from_library(TorchvisionV2, task), 0.01),
    "torchvision-tensor": (lambda task: from_library(TorchvisionTensor, task), 0.02),
    "opencv-albumentations": (lambda task: from_library(OpencvAlbumentations, task), 0.2),
    "torchvision-cuda": (torchvision_cuda.batches_of, 0.02),  # its steps are the same on a CPU
    "dali": (lambda task: dali.start(task, decode="cpu").batches, 0.1),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.needs_dali if name == "dali" else ()) for name in FOLLOWING],
)  # fmt: skip
def test_baseline_follows_the_recipe(name: str, task: Task) -> None:
    """On a recipe without chance a baseline makes torchvision's images, and not on another recipe."""
    start, tolerance = FOLLOWING[name]
    few = replace(task, files=task.files[:4], labels=[0, 1, 2, 3])
    expected = next(from_library(TorchvisionPil, replace(few, recipe=Recipe.imagenet_eval())))

    def distance(recipe: Recipe) -> float:
        images = next(start(replace(few, recipe=recipe))).flatten(1)
        # In an order of their own.
        nearest = torch.cdist(images, expected.flatten(1), p=1).min(dim=1).values
        return float(nearest.mean() / images.shape[1])

    assert distance(Recipe.imagenet_eval()) < tolerance
    assert distance(Recipe.imagenet_eval(resize=300)) > 0.25


@pytest.mark.parametrize("library", ON_TORCH)
def test_baseline_declines_what_it_is_not_written_for(library: type[Baseline]) -> None:
    """A recipe outside the presets' operations is refused by name, not done in part."""
    with pytest.raises(Unable, match="GaussianBlur"):
        library(Recipe([Resize((64, 64)), GaussianBlur(5), Normalize()]))


def test_what_cannot_be_done_is_said(task: Task, tmp_path: Path) -> None:
    """A recipe of another shape, no GPU, files of another kind, and an engine that there is not."""
    Image.new("RGB", (30, 20)).save(tmp_path / "b.png")
    on_gpu = replace(task, device=torch.device("cuda", 0), files=[tmp_path / "b.png"])

    with pytest.raises(Unable, match="CenterCrop"):
        dali.start(replace(task, recipe=Recipe([CenterCrop(64)])), decode="cpu")
    with pytest.raises(Unable, match="CUDA device, and the batches are for cpu"):
        torchvision_cuda.start(task)
    with pytest.raises(Unable, match=r"JPEGs only, and b\.png is none"):
        torchvision_cuda.start(on_gpu)
    with pytest.raises(Unable, match="no-such-engine"):
        ours.start(task, decoder="cpu", engine="no-such-engine")  # type: ignore[arg-type]


def test_torchvision_cuda_draws_for_each_image(task: Task) -> None:
    """Of one file in a whole batch no two images are alike: crops and flips are not drawn once for all."""
    one = replace(task, files=task.files[:1] * 4, dtype=torch.bfloat16)

    images = next(torchvision_cuda.batches_of(one))

    assert (images.dtype, images.shape) == (torch.bfloat16, (4, 3, 224, 224))
    assert all((a - b).abs().mean() > 0.01 for a, b in itertools.combinations(images, 2))


@pytest.mark.needs_cuda
def test_torchvision_cuda_runs_on_a_gpu(task: Task) -> None:
    """There it hands over batches on the device, normalised."""
    images = next(torchvision_cuda.start(replace(task, device=torch.device("cuda", 0))).batches)

    assert (images.shape, images.device) == ((4, 3, 224, 224), torch.device("cuda", 0))
    assert images.min() < -0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("library", [OpencvAlbumentations, Kornia])
def test_workers_hand_over_the_dtype(
    library: type[Baseline], dtype: torch.dtype, task: Task
) -> None:
    """What is augmented in workers and what is augmented in batches both arrive in the task's dtype."""
    images = next(library.in_processes(replace(task, dtype=dtype)).batches)

    assert (images.dtype, images.shape) == (dtype, (4, 3, 224, 224))
    assert images.min() < -0.5


@pytest.mark.parametrize("is_first_epoch", [False, True])
def test_ours_knows_all_files_or_none(task: Task, is_first_epoch: bool) -> None:
    """In a first epoch no JPEG was met before; batches are as required."""
    pipeline = ours.start(task, decoder="cpu", engine="fused", is_first_epoch=is_first_epoch)

    assert next(pipeline.batches).shape == task.shape
    assert ("no JPEG was met before" in pipeline.note) == is_first_epoch
    pipeline.batches.close()  # type: ignore[attr-defined] # it is a generator


def test_decode_only_takes_the_fastest(task: Task) -> None:
    """The ceiling tries every decoder, tells what each reached, and takes the fastest."""
    pipeline = ceiling.start(task)
    assert len(next(pipeline.batches)) == task.batch_size

    rates = {name: int(rate) for name, rate in re.findall(r"([^,:]+) (\d+)[,)]", pipeline.note)}
    assert "OpenCV on threads" in {name.strip() for name in rates}
    best = max(rates, key=lambda name: rates[name])
    assert pipeline.note.startswith(f"whole images with {best.strip()}")
