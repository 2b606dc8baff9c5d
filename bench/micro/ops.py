"""Measure single operations in four libraries, and chains of operations on one image at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import gpu_aug as ga
from bench.micro.ops_table import MEAN, OPS, STD, Op
from bench.micro.pictures import load_pictures
from bench.micro.rows import Row, Task, contestants_of
from bench.timing import one_thread
from gpu_aug import Recipe

MEANING = (
    "Time per image on one CPU thread, images of 224x224 in memory (--quick: 32x32); speed relative to torchvision. Operations: "
    "16 images (--quick: 2) at once, all of which are changed; torchvision v2 gets a uint8 tensor and draws once for all of them, "
    "Albumentations uint8 arrays one by one, Kornia a float32 tensor, ours uint8 and a draw for each image. one image: pipelines as "
    "a dataset's __getitem__ calls them, a draw in each call."
)

Work = Callable[[], object]
Pictures = NDArray[np.uint8]


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every operation on a batch, and for every chain on one image."""
    num, side = (2, 32) if task.quick else (16, 224)
    pictures = load_pictures(task.source, num, side)
    with one_thread():
        for op in OPS:
            makes = {name: partial(make, op, pictures) for name, make in BATCH_WORKS.items()}
            yield Row(op.name, contestants_of(makes, num))
        for chain in CHAINS:
            works = chain_works(chain, pictures[0])
            yield Row(f"one image: {chain.name}", contestants_of(works, 1))


def torchvision_work(op: Op, pictures: Pictures) -> Work:
    """Return a call of torchvision's operation on a batch, uint8 [n, 3, height, width]."""
    return partial(op.make("torchvision"), planar(pictures))


def albumentations_work(op: Op, pictures: Pictures) -> Work:
    """Return a call of Albumentations' operation on each array."""
    transform = op.make("albumentations")
    return lambda: [transform(image=picture)["image"] for picture in pictures]


def kornia_work(op: Op, pictures: Pictures) -> Work:
    """Return a call of Kornia's operation on a batch, float32 [n, 3, height, width] in [0, 1]."""
    transform, images = op.make("kornia"), planar(pictures).float() / 255
    return torch.inference_mode()(partial(transform, images))


def our_work(op: Op, pictures: Pictures) -> Work:
    """Return a call that draws for each image and runs our engine; it returns uint8 or, if it normalises, float32."""
    recipe, (num, *size, _) = op.recipe, pictures.shape
    engine = ga.compile_engine("auto", recipe, device=torch.device("cpu"))
    dtype = torch.float32 if isinstance(op.ours, ga.Normalize) else torch.uint8
    out = torch.empty((num, 3, *size), dtype=dtype, memory_format=torch.channels_last)
    images, indices, sizes = torch.from_numpy(pictures), np.arange(num), np.full((num, 2), size)
    epochs = count()

    def work() -> torch.Tensor:
        engine.run(images, recipe.draw(0, next(epochs), indices, sizes), out)
        return out

    return work


BATCH_WORKS: dict[str, Callable[[Op, Pictures], Work]] = {
    "torchvision": torchvision_work,
    "Albumentations": albumentations_work,
    "Kornia": kornia_work,
    "gpu-aug": our_work,
}


def planar(pictures: Pictures) -> torch.Tensor:
    """Return pictures [n, height, width, 3] as a tensor [n, 3, height, width]."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Chain:
    """A pipeline for one image, written for three libraries.

    Attributes:
        name: Name in the table.
        ours: A function that makes our operations, given the side of the output in pixels.
        albumentations: A function that makes the operations of Albumentations, given its module and the side.
        torchvision: A function that makes the operations of torchvision, given transforms.v2 and the side.
    """

    name: str
    ours: Callable[[int], list[Any]]
    albumentations: Callable[[Any, int], list[Any]]
    torchvision: Callable[[Any, int], list[Any]]


_JITTER = (0.4, 0.4, 0.4, 0.1)
CHAINS = (
    Chain(
        "flip",
        lambda _: [ga.HorizontalFlip(1.0)],
        lambda al, _: [al.HorizontalFlip(p=1.0)],
        lambda v2, _: [v2.RandomHorizontalFlip(1.0)],
    ),
    Chain(
        "crop, flip",
        lambda side: [ga.RandomCrop(side), ga.HorizontalFlip()],
        lambda al, side: [al.RandomCrop(side, side), al.HorizontalFlip()],
        lambda v2, side: [v2.RandomCrop(side), v2.RandomHorizontalFlip()],
    ),
    Chain(
        "crop, resize, flip, jitter, normalise",
        lambda side: [
            *(ga.RandomResizedCrop(side), ga.HorizontalFlip()),
            *(ga.ColorJitter(*_JITTER), ga.Normalize()),
        ],
        lambda al, side: [
            *(al.RandomResizedCrop((side, side)), al.HorizontalFlip()),
            *(al.ColorJitter(*_JITTER, p=1), al.Normalize()),
        ],
        lambda v2, side: [
            *(v2.RandomResizedCrop(side), v2.RandomHorizontalFlip(), v2.ColorJitter(*_JITTER)),
            *(v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)),
        ],
    ),
)


def chain_works(chain: Chain, picture: Pictures) -> dict[str, Callable[[], Work]]:
    """Return, by library and type of image, a function that makes a call of a chain on one image."""
    import albumentations
    from PIL import Image
    from torchvision.transforms import v2

    side = picture.shape[0] * 7 // 8
    pillow, tensor = Image.fromarray(picture), planar(picture[None])[0]
    theirs = albumentations.Compose(chain.albumentations(albumentations, side))
    torchvision = v2.Compose(chain.torchvision(v2, side))
    ours = Recipe(chain.ours(side))
    return {
        "torchvision, Pillow": lambda: partial(torchvision, pillow),
        "torchvision, tensor": lambda: partial(torchvision, tensor),
        "Albumentations, array": lambda: partial(theirs, image=picture),
        "gpu-aug, Pillow": lambda: partial(ours.transform(seed=0), pillow),
        "gpu-aug, tensor": lambda: partial(ours.transform(seed=0), tensor),
        "gpu-aug, array": lambda: partial(ours.transform(seed=0), picture),
    }
