"""Other people's pipelines on torch's DataLoader, written as their users write them.

Each is a small class with the steps that a user's Dataset has: open a file, augment the image and, for
Kornia, augment the batch. `TorchLoader` puts a DataLoader around it, `dali_baseline` stands beside them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bench.baselines.translations import (
    albumentations_transforms,
    kornia_modules,
    torchvision_transforms,
)
from gpu_aug import Recipe, Resize


def one_opencv_thread(worker: int) -> None:  # noqa: ARG001 - in every worker alike
    """Keep OpenCV to one thread, as is recommended for worker processes."""
    import cv2

    cv2.setNumThreads(0)


class Baseline(ABC):
    """Another library's way from a file to an augmented batch.

    Attributes:
        name: As it is printed.
        note: What differs from our way.
        worker_init: What its users do at the start of a DataLoader worker.
    """

    name: ClassVar[str]
    note: str
    worker_init: Callable[[int], None] | None = None

    @abstractmethod
    def __init__(self, recipe: Recipe) -> None:
        """Translate the recipe, or be Unable."""

    @abstractmethod
    def open(self, path: Path) -> Any:
        """Read and decode a file; runs in a worker."""

    @abstractmethod
    def augment(self, image: Any) -> torch.Tensor:
        """Turn an opened image into a tensor [3, height, width]; runs in a worker."""

    def finish(self, images: torch.Tensor) -> torch.Tensor:
        """Complete a batch that has arrived on the device, if anything is left to do."""
        return images


class TorchvisionPil(Baseline):
    """Pillow decodes, torchvision's v2 transforms work on PIL images."""

    name = "torchvision-pil"
    note = "Pillow, then transforms.v2 on PIL images"

    def __init__(self, recipe: Recipe) -> None:
        from torchvision.transforms import v2

        self._transform = v2.Compose(
            torchvision_transforms(recipe, before_float=[v2.PILToTensor()])
        )

    def open(self, path: Path) -> Any:
        """Open as torchvision's ImageFolder does."""
        from PIL import Image

        with Image.open(path) as image:
            return image.convert("RGB")

    def augment(self, image: Any) -> torch.Tensor:
        """Transform a PIL image."""
        tensor: torch.Tensor = self._transform(image)
        return tensor


class TorchvisionV2(TorchvisionPil):
    """Pillow decodes, torchvision's v2 transforms work on tensors, as its documentation advises."""

    name = "torchvision-v2"
    note = "Pillow, then transforms.v2 on uint8 tensors"

    def __init__(self, recipe: Recipe) -> None:
        from torchvision.transforms import v2

        self._transform = v2.Compose(
            [v2.PILToTensor(), *torchvision_transforms(recipe, before_float=[])]
        )


class TorchvisionTensor(Baseline):
    """torchvision.io decodes to tensors, the v2 transforms work on them."""

    name = "torchvision-tensor"
    note = "torchvision.io, then transforms.v2 on uint8 tensors"

    def __init__(self, recipe: Recipe) -> None:
        from torchvision.transforms import v2

        self._transform = v2.Compose(torchvision_transforms(recipe, before_float=[]))

    def open(self, path: Path) -> Any:
        """Decode to uint8 [3, height, width]."""
        from torchvision.io import ImageReadMode, decode_image

        return decode_image(str(path), mode=ImageReadMode.RGB)

    def augment(self, image: Any) -> torch.Tensor:
        """Transform a uint8 tensor."""
        tensor: torch.Tensor = self._transform(image)
        return tensor


class OpencvAlbumentations(Baseline):
    """OpenCV reads, Albumentations transforms."""

    name = "opencv-albumentations"
    note = "cv2.imread, then Albumentations, whose resizing is not antialiased"
    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        import albumentations as A
        from albumentations.pytorch import ToTensorV2

        self._transform = A.Compose([*albumentations_transforms(recipe), ToTensorV2()])

    def open(self, path: Path) -> NDArray[np.uint8]:
        """Read to uint8 [height, width, 3]."""
        return _imread(path)

    def augment(self, image: NDArray[np.uint8]) -> torch.Tensor:
        """Transform an array."""
        tensor: torch.Tensor = self._transform(image=image)["image"]
        return tensor


class Kornia(Baseline):
    """OpenCV reads and resizes to one size in the workers, Kornia augments the whole batch."""

    name = "kornia"
    worker_init = staticmethod(one_opencv_thread)

    def __init__(self, recipe: Recipe) -> None:
        import kornia.augmentation as K

        self._side = _common_side(recipe)
        self._augment = K.AugmentationSequential(*kornia_modules(recipe))
        self.note = (
            f"cv2.imread, resized to {self._side}x{self._side} without antialiasing so that the batch "
            "has one size, then kornia.augmentation on the batch"
        )

    def open(self, path: Path) -> NDArray[np.uint8]:
        """Read to uint8 [height, width, 3]."""
        return _imread(path)

    def augment(self, image: NDArray[np.uint8]) -> torch.Tensor:
        """Bring an image to the common size: uint8 [3, side, side]."""
        import cv2

        resized = cv2.resize(image, (self._side, self._side), interpolation=cv2.INTER_LINEAR)
        return torch.from_numpy(np.ascontiguousarray(resized.transpose(2, 0, 1)))

    def finish(self, images: torch.Tensor) -> torch.Tensor:
        """Augment a uint8 batch on its device."""
        with torch.no_grad():
            augmented: torch.Tensor = self._augment(images.float() / 255)
        return augmented


def _imread(path: Path) -> NDArray[np.uint8]:
    import cv2

    return np.asarray(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB), np.uint8)


def _common_side(recipe: Recipe) -> int:
    """The recipe's own resize, or an eighth more than its result: 256 for 224."""
    for step in recipe.operations:
        if isinstance(step, Resize):
            size = step.size or step.max_size or 256
            return size if isinstance(size, int) else max(size)
    return max(recipe.fixed_size) * 8 // 7
