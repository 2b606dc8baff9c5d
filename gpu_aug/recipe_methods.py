"""Constructors and conversions, attached to `Recipe` as methods.

The functions know `Recipe`; so that it need not know them, they are attached here. Importing this does it.
"""

from functools import partialmethod
from importlib import import_module
from types import MethodType
from typing import Any

from gpu_aug.engines.choose import explain_recipe
from gpu_aug.files.schema import (
    from_dict,
    load_schedule,
    load_single,
    operation_from_dict,
    params_from_dict,
)
from gpu_aug.ops.operation import Operation
from gpu_aug.presets import (
    imagenet_eval,
    imagenet_train,
    imagenet_train_jitter,
    make_preset,
)
from gpu_aug.recipe import Recipe
from gpu_aug.schedule import Schedule
from gpu_aug.targets.targets import BoxParams, KeypointParams
from gpu_aug.transform import ScheduleTransform, Transform, ViewsTransform
from gpu_aug.views import Views


class _Conversion:
    """A function of `gpu_aug.convert`, imported when it is first used: converters are many modules.

    Args:
        name: Its name there.
        is_method: Whether it is a method of recipes; otherwise it makes one.
    """

    def __init__(self, name: str, *, is_method: bool) -> None:
        self._name, self._is_method = name, is_method

    def __get__(self, recipe: Recipe | None, owner: type[Recipe]) -> Any:
        function = getattr(import_module("gpu_aug.convert"), self._name)
        return function if recipe is None or not self._is_method else MethodType(function, recipe)


Recipe.preset = staticmethod(make_preset)
Recipe.imagenet_train = staticmethod(imagenet_train)
Recipe.imagenet_train_jitter = staticmethod(imagenet_train_jitter)
Recipe.imagenet_eval = staticmethod(imagenet_eval)
Recipe.load = staticmethod(load_single)
Schedule.load = staticmethod(load_schedule)
for made in (Recipe, Views, Schedule):
    made.from_dict = classmethod(from_dict)  # type: ignore[assignment,arg-type] # bound as a function is
Operation.from_dict = staticmethod(operation_from_dict)
for params in (BoxParams, KeypointParams):
    params.from_dict = classmethod(params_from_dict)  # type: ignore[assignment] # bound as a function is
Recipe.from_albumentations = _Conversion("from_albumentations", is_method=False)  # type: ignore[assignment] # a descriptor
Recipe.from_torchvision = _Conversion("from_torchvision", is_method=False)  # type: ignore[assignment] # a descriptor
Recipe.to_albumentations = _Conversion("to_albumentations", is_method=True)  # type: ignore[assignment] # a descriptor
Recipe.to_kornia = _Conversion("to_kornia", is_method=True)  # type: ignore[assignment] # a descriptor
Recipe.explain = explain_recipe
Recipe.transform = partialmethod(Transform)  # type: ignore[assignment] # bound as a function is
Views.transform = partialmethod(ViewsTransform)  # type: ignore[assignment] # bound as a function is
Schedule.transform = partialmethod(ScheduleTransform)  # type: ignore[assignment] # bound as a function is
