"""Measure the mean and the spread of every channel with CuPy, on batches that lie on the GPU.

python examples/hand_to_cupy.py [DATA] --steps 4
"""

import sys
from collections.abc import Sequence

from arguments import parse_arguments

from dali_pipes import Loader, LoaderError, MissingPackageError
from dali_pipes.integrations.dlpack import to_cupy
from gpu_aug import CenterCrop, Recipe, Resize
from readers import open_dataset


def main(argv: Sequence[str] | None = None) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of red, green and blue, in [0, 1]."""
    given = parse_arguments(argv, steps=4)
    recipe = Recipe([Resize(256), CenterCrop(224)])
    loader = Loader(open_dataset(given.data), recipe, batch_size=16)
    total, squares, num_pixels = 0.0, 0.0, 0
    for _, batch in zip(range(given.steps), loader, strict=False):
        images = to_cupy(batch)["images"].astype("float64")  # [B, 224, 224, 3]; only this copies
        total += images.sum((0, 1, 2))
        squares += (images**2).sum((0, 1, 2))
        num_pixels += images[..., 0].size
    mean = total / num_pixels
    spread = (squares / num_pixels - mean**2) ** 0.5
    print(f"mean {mean}, standard deviation {spread}")
    return mean.tolist(), spread.tolist()


if __name__ == "__main__":
    try:
        main()
    except (LoaderError, MissingPackageError) as error:
        sys.exit(str(error))
