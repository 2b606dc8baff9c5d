"""Rebuild Kornia's benchmarks of augmentation: single operations and a pipeline on a batch of float32 images."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

import numpy as np
import torch
from torch import Tensor, nn

import gpu_aug as ga
from bench.micro.rows import Row, Task, contestants_of
from bench.published.operations import OPS, Op, Work, albumentations_work
from bench.timing import one_thread, synchronise
from gpu_aug.engines.run_stages import run_stages

MEANING = (
    "Time per image in a batch of 32 random images (--quick: 2 of 48x48) on one CPU thread, or on the GPU if there is one; speed "
    "relative to Kornia. 256: images of 256x256, as in flagship.py; 224: as in vs_torchvision.py and pipeline.py. Kornia (eager), "
    "torchvision v2 and ours (fused engine) get and return float32 [32, 3, height, width] and draw in each call: Kornia and ours for "
    "each image, torchvision once for all. Albumentations, in some rows, gets uint8 arrays one by one."
)

_NUM_IMAGES = 32
_BY_NAME = {op.name: op for op in OPS}
_JITTER = (0.2, 0.2, 0.2, 0.1)

FLAGSHIP_OPS = (
    _BY_NAME["HorizontalFlip"],
    Op(
        "Affine",
        ga.RandomAffine(30.0, (0.1, 0.1), (0.8, 1.2)),
        lambda v2: v2.RandomAffine(
            30.0, (0.1, 0.1), (0.8, 1.2), interpolation=v2.InterpolationMode.BILINEAR
        ),
        lambda alb: alb.Affine((0.8, 1.2), (0.0, 0.1), rotate=(-30.0, 30.0), p=1),
        lambda kor: kor.RandomAffine(30.0, (0.1, 0.1), (0.8, 1.2), p=1.0),
    ),
    Op(
        "Perspective",
        ga.RandomPerspective(0.5, p=1.0),
        lambda v2: v2.RandomPerspective(0.5, p=1.0),
        lambda alb: alb.Perspective((0.05, 0.1), p=1),
        lambda kor: kor.RandomPerspective(0.5, p=1.0),
    ),
    Op(
        "RandomResizedCrop 128",
        ga.RandomResizedCrop(128, antialias=False),
        lambda v2: v2.RandomResizedCrop(128, antialias=False),
        lambda alb: alb.RandomResizedCrop((128, 128), p=1),
        lambda kor: kor.RandomResizedCrop((128, 128), p=1.0),
    ),
    Op(
        "ColorJiggle",
        ga.ColorJitter(*_JITTER),
        lambda v2: v2.ColorJitter(*_JITTER),
        lambda alb: alb.ColorJitter(*_JITTER, p=1),
        lambda kor: kor.ColorJiggle(*_JITTER, p=1.0),
    ),
    Op(
        "GaussianBlur 5",
        ga.GaussianBlur(5, (0.1, 2.0)),
        lambda v2: v2.GaussianBlur(5, (0.1, 2.0)),
        lambda alb: alb.GaussianBlur((5, 5), (0.1, 2.0), p=1),
        lambda kor: kor.RandomGaussianBlur((5, 5), (0.1, 2.0), p=1.0),
    ),
    Op(
        "Brightness",
        ga.Brightness((0.8, 1.2)),
        lambda v2: v2.ColorJitter(brightness=(0.8, 1.2)),
        lambda alb: alb.RandomBrightnessContrast(0.2, 0.0, p=1),
        lambda kor: kor.RandomBrightness((0.8, 1.2), p=1.0),
    ),
    _BY_NAME["Grayscale"],
)

TORCHVISION_OPS = (
    Op(
        "VerticalFlip",
        ga.VerticalFlip(p=1.0),
        lambda v2: v2.RandomVerticalFlip(p=1.0),
        kornia=lambda kor: kor.RandomVerticalFlip(p=1.0),
    ),
    Op(
        "ColorJitter",
        ga.ColorJitter(*_JITTER),
        lambda v2: v2.ColorJitter(*_JITTER),
        kornia=lambda kor: kor.ColorJitter(*_JITTER, p=1.0, order=[0, 1, 2, 3]),
    ),
    Op(
        "GaussianNoise",
        ga.GaussianNoise(0.0, 0.05),
        lambda v2: v2.GaussianNoise(0.0, 0.05),
        kornia=lambda kor: kor.RandomGaussianNoise(0.0, 0.05, p=1.0),
    ),
    Op(
        "Posterize 3",
        ga.Posterize(3, p=1.0),
        lambda v2: v2.RandomPosterize(3, p=1.0),
        kornia=lambda kor: kor.RandomPosterize((3, 3), p=1.0),
    ),
    Op(
        "Solarize",
        ga.Solarize((0.4, 0.6), p=1.0),
        lambda v2: v2.RandomSolarize(0.5, p=1.0),
        kornia=lambda kor: kor.RandomSolarize(0.1, 0.1, p=1.0),
    ),
    Op(
        "Sharpness",
        ga.Sharpness(2.0, p=1.0),
        lambda v2: v2.RandomAdjustSharpness(2.0, p=1.0),
        kornia=lambda kor: kor.RandomSharpness(0.5, p=1.0),
    ),
    _BY_NAME["Invert"],
    _BY_NAME["Equalize"],
    _BY_NAME["Erasing"],
    Op(
        "Rotation 30",
        ga.RandomRotation(30.0),
        lambda v2: v2.RandomRotation(30, v2.InterpolationMode.BILINEAR),
        kornia=lambda kor: kor.RandomRotation(30.0, p=1.0),
    ),
    Op(
        "Elastic",
        ga.ElasticTransform(),
        lambda v2: v2.ElasticTransform(),
        kornia=lambda kor: kor.RandomElasticTransform(p=1.0),
    ),
)

PIPELINE = Op(
    "pipeline",
    (
        *(ga.HorizontalFlip(p=1.0), ga.VerticalFlip(p=1.0), ga.ColorJitter(*_JITTER)),
        *(ga.Brightness((1.2, 1.2)), ga.Contrast((1.2, 1.2)), ga.GaussianNoise(0.0, 0.05)),
    ),
    lambda v2: v2.Compose(
        [
            *(v2.RandomHorizontalFlip(p=1.0), v2.RandomVerticalFlip(p=1.0)),
            *(v2.ColorJitter(*_JITTER), v2.ColorJitter((1.2, 1.2), (1.2, 1.2))),
            v2.GaussianNoise(0.0, 0.05),
        ]
    ),
    lambda alb: alb.Compose(
        [
            *(alb.HorizontalFlip(p=1), alb.VerticalFlip(p=1), alb.ColorJitter(*_JITTER, p=1)),
            *(alb.RandomBrightnessContrast(p=1), alb.GaussNoise(p=1)),
        ]
    ),
    lambda kor: nn.Sequential(
        *(kor.RandomHorizontalFlip(p=1.0), kor.RandomVerticalFlip(p=1.0)),
        kor.ColorJitter(*_JITTER, p=1.0, order=[0, 1, 2, 3]),
        *(kor.RandomBrightness((1.2, 1.2), p=1.0), kor.RandomContrast((1.2, 1.2), p=1.0)),
        kor.RandomGaussianNoise(0.0, 0.05, p=1.0),
    ),
)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every operation, and one for the pipeline."""
    num = 2 if task.quick else _NUM_IMAGES
    groups: Sequence[tuple[int, Sequence[Op]]] = (
        (256, FLAGSHIP_OPS),
        (224, (*TORCHVISION_OPS, PIPELINE)),
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with one_thread():
        for side, ops in groups:
            images = make_images(num, 48 if task.quick else side).to(device)
            for op in ops:
                yield Row(f"{op.name}, {side}", contestants_of(works_of(op, images), num))


def make_images(num: int, side: int) -> Tensor:
    """Return random images, float32 [num, 3, side, side] in [0, 1], with the values of 8 bits."""
    bytes_ = np.random.default_rng(0).integers(0, 256, (num, 3, side, side), np.uint8)
    return torch.from_numpy(bytes_).float() / 255


def works_of(op: Op, images: Tensor) -> dict[str, Callable[[], Work]]:
    """Return, by library that has the operation, a function that prepares a call on a batch.

    Args:
        op: The operation.
        images: float32 [n, 3, height, width] in [0, 1] on any device; the results lie there too, except Albumentations'.
    """
    makes = {
        "Kornia": (op.kornia, _kornia_work),
        "torchvision": (op.torchvision, _torchvision_work),
        "gpu-aug": (op.ours, _our_work),
        "Albumentations, uint8": (op.albumentations, _albumentations_work),
    }
    return {name: partial(work, op, images) for name, (has, work) in makes.items() if has}


def _kornia_work(op: Op, images: Tensor) -> Work:
    return torch.inference_mode()(_finished(op.make("kornia").to(images.device), images))


def _torchvision_work(op: Op, images: Tensor) -> Work:
    return _finished(op.make("torchvision"), images)


def _our_work(op: Op, images: Tensor) -> Work:
    recipe, (num, _, *size) = op.recipe, images.shape
    engine = ga.compile_engine("fused", recipe, device=images.device)
    indices, sizes, epochs = np.arange(num), np.full((num, 2), size), count()

    def augment(images: Tensor) -> Tensor:
        draws = recipe.draw(0, next(epochs), indices, sizes)
        return run_stages(recipe, engine, images.permute(0, 2, 3, 1), draws, images.device)

    return _finished(augment, images)


def _albumentations_work(op: Op, images: Tensor) -> Work:
    arrays = (images * 255).round().byte().permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return albumentations_work(op, arrays)


def _finished(transform: Callable[[Tensor], Tensor], images: Tensor) -> Work:
    """Return a call that waits until a GPU has made the result."""

    def work() -> Tensor:
        made = transform(images)
        synchronise(images.device)
        return made

    return work
