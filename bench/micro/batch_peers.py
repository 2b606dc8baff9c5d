"""The batch stage of `bench.micro.batch` in the words of other libraries, as their users would write it."""

from typing import Any

import torch

from bench.micro.cases import Case, on_arrays
from bench.micro.turns import Work

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def albumentations_work(case: Case) -> Work:
    """One array after the other, then stacked."""
    import albumentations as A
    from albumentations.pytorch import ToTensorV2

    transform = A.Compose(
        [
            A.Affine((0.9, 1.1), (-0.1, 0.1), None, (-15, 15), p=1.0),
            A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1.0),
            A.GaussianBlur((7, 7), (0.1, 2.0), p=0.0),
            A.Erasing(p=0.5),
            A.Normalize(MEAN, STD),
            ToTensorV2(),
        ]
    )
    each = on_arrays(transform, case)

    def work() -> object:
        tensors: Any = each()
        return torch.stack(tensors)

    return work


def kornia_module(device: torch.device) -> torch.nn.Module:
    """For the whole batch."""
    import kornia.augmentation as K

    module: torch.nn.Module = K.AugmentationSequential(
        K.RandomAffine(15.0, (0.1, 0.1), (0.9, 1.1), p=1.0),
        K.ColorJitter(0.4, 0.4, 0.4, 0.1, p=1.0),
        K.RandomGaussianBlur((7, 7), (0.1, 2.0), p=0.0),
        K.RandomErasing(p=0.5),
        K.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
        data_keys=["input"],
    )
    return module.to(device)


def torchvision_work(case: Case) -> Work:
    """One image after the other, since a batch of images would get one draw for all."""
    from torchvision.transforms import v2

    transform = v2.Compose(
        [
            v2.RandomAffine(
                15, (0.1, 0.1), (0.9, 1.1), interpolation=v2.InterpolationMode.BILINEAR
            ),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.RandomApply([v2.GaussianBlur(7, (0.1, 2.0))], p=0.0),
            v2.RandomErasing(p=0.5),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    images = case.planar
    return lambda: torch.stack([transform(image) for image in images])
