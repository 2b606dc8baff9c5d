"""What makes recipes, and what is made of them, as methods of `Recipe`.

The functions know `Recipe`; so that it need not know them, they are attached here. Importing this does it.
"""

from gpu_aug.convert import from_albumentations, from_torchvision, to_albumentations, to_kornia
from gpu_aug.engines.choose import explain_recipe
from gpu_aug.files.schema import load_single
from gpu_aug.presets import make_preset
from gpu_aug.recipe import Recipe

Recipe.preset = staticmethod(make_preset)
Recipe.load = staticmethod(load_single)
Recipe.from_albumentations = staticmethod(from_albumentations)
Recipe.from_torchvision = staticmethod(from_torchvision)
Recipe.to_albumentations = to_albumentations
Recipe.to_kornia = to_kornia
Recipe.explain = explain_recipe
