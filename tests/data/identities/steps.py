"""Steps of a user's own that are of libraries, or derived from their classes."""

import albumentations as A
import kornia.augmentation as K
import torch
from torchvision.transforms import v2


def helper(x):
    return x // 2


class Noise(torch.nn.Module):
    """A module of one's own."""

    def __init__(self, strength):
        super().__init__()
        self.register_buffer("strength", torch.tensor(strength))

    def forward(self, x):
        """See torch."""
        return helper(x + self.strength * torch.rand_like(x))


class Darker(A.ImageOnlyTransform):
    """A transform of one's own."""

    def apply(self, img, **_):
        """See Albumentations."""
        return helper(img)


def steps():
    """Return what stands in a recipe, by a name."""
    return {
        "module of one's own": Noise(0.5),
        "module of Kornia": K.RandomGamma((0.5, 1.5), p=0.3),
        "torchvision": v2.RandomAffine(10, interpolation=v2.InterpolationMode.BILINEAR),
        "Albumentations": A.Compose([A.Blur(), A.OneOf([A.GaussNoise(p=0.2), A.NoOp()])]),
        "Albumentations with a function": A.Lambda(image=helper, name="halved", p=0.5),
        "Albumentations with a class": Darker(p=0.5),
    }
