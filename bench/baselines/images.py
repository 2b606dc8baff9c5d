"""Other libraries' pipelines from an image file to an augmented batch, written like their users write them."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torchvision.transforms import v2

from bench.baselines.torch_loader import Baseline, one_opencv_thread
from bench.baselines.translations import (
    albumentations_compose,
    kornia_modules,
    torchvision_compose,
    torchvision_transforms,
)
from gpu_aug import Recipe, Resize


class TorchvisionPil(Baseline):
    """Baseline in which Pillow decodes, and torchvision's v2 transforms work on PIL images."""

    note = "Pillow, then transforms.v2 on PIL images, .to(dtype) in the worker"

    def __init__(self, recipe: Recipe) -> None:
        self.transform = v2.Compose(torchvision_transforms(recipe, before_float=[v2.PILToTensor()]))

    def load(self, item: Path) -> torch.Tensor:
        """Open an image like torchvision's ImageFolder, and transform it."""
        from PIL import Image

        with Image.open(item) as image:
            return self.transform(image.convert("RGB"))


class TorchvisionV2(TorchvisionPil):
    """Baseline in which Pillow decodes, and torchvision's v2 transforms work on tensors, as torchvision advises."""

    note = "Pillow, then transforms.v2 on uint8 tensors, .to(dtype) in the worker"

    def __init__(self, recipe: Recipe) -> None:
        self.transform = v2.Compose([v2.PILToTensor(), torchvision_compose(recipe)])


class TorchvisionTensor(Baseline):
    """Baseline in which torchvision.io decodes to tensors, on which the v2 transforms work."""

    note = "torchvision.io, then transforms.v2 on uint8 tensors, .to(dtype) in the worker"

    def load(self, item: Path) -> torch.Tensor:
        """Decode to uint8 [3, height, width], and transform."""
        from torchvision.io import ImageReadMode, decode_image

        return self.transform(decode_image(str(item), mode=ImageReadMode.RGB))


class OpencvAlbumentations(Baseline):
    """Baseline in which OpenCV reads and decodes, and Albumentations transforms."""

    note = "cv2.imread, then Albumentations, whose resizing is not antialiased, .to(dtype) in the worker"
    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        self._compose = albumentations_compose(recipe)

    def load(self, item: Path) -> Any:
        """Read to uint8 [height, width, 3], and transform."""
        return self._compose(image=_imread(item))["image"]


class Kornia(Baseline):
    """Baseline in which OpenCV reads and resizes to one size in the workers, and Kornia augments the full batch."""

    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        import kornia.augmentation as K

        self._side = _common_side(recipe)
        self.transform = K.AugmentationSequential(*kornia_modules(recipe))
        self.note = (
            f"cv2.imread, resized to {self._side}x{self._side} without antialiasing so that the batch "
            "has one size, then kornia.augmentation on the batch"
        )

    def load(self, item: Path) -> torch.Tensor:
        """Read and resize to the common size: uint8 [3, side, side]."""
        size = (self._side, self._side)
        resized = cv2.resize(_imread(item), size, interpolation=cv2.INTER_LINEAR)
        return torch.from_numpy(np.ascontiguousarray(resized.transpose(2, 0, 1)))

    def finish(self, batch: torch.Tensor) -> torch.Tensor:
        """Augment a uint8 batch on its device."""
        with torch.no_grad():
            return self.transform(batch.float() / 255)


def _imread(path: Path) -> NDArray[np.uint8]:
    return np.asarray(cv2.imread(str(path), cv2.IMREAD_COLOR_RGB), np.uint8)


def _common_side(recipe: Recipe) -> int:
    """Return the side of the square to which images are resized before Kornia.

    It is the side of the recipe's own Resize, or an eighth more than the output: 256 for 224.
    """
    for step in recipe.operations:
        if isinstance(step, Resize):
            size = step.size or step.max_size or 256
            return size if isinstance(size, int) else max(size)
    return max(recipe.fixed_size) * 8 // 7
