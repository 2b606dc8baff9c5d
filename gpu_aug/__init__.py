"""Recipes of image augmentations, their draws, and the engines that carry them out."""

import logging
from importlib import import_module as _import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpu_aug.apply import apply
from gpu_aug.draws import Draws
from gpu_aug.engines.choose import compile_engine
from gpu_aug.engines.engine import Engine
from gpu_aug.errors import EngineError, RecipeError, TargetsError
from gpu_aug.image_kind import ImageKind
from gpu_aug.names import missing as _missing
from gpu_aug.ops import *
from gpu_aug.presets import PRESETS
from gpu_aug.recipe import Recipe
from gpu_aug.resampling.crops import Crops
from gpu_aug.schedule import Schedule
from gpu_aug.targets.move_batch import move_batch
from gpu_aug.targets.targets import BoxParams, KeypointParams, MaskParams, Targets
from gpu_aug.transform import Transform
from gpu_aug.views import CameraRecipes, Views

# Without a handler of the user nothing is printed, not even warnings.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# Names above that are not of this package.
_OTHERS = ("Any", "ModuleType", "TYPE_CHECKING")
__all__ = sorted(  # operations are listed in the __all__ of their file
    name
    for name, value in dict(globals()).items()
    if not name.startswith("_") and name not in _OTHERS and not isinstance(value, ModuleType)
)

if not TYPE_CHECKING:  # type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name == "convert":  # many modules, which few programs need
            return _import_module("gpu_aug.convert")
        raise _missing(__name__, name, __all__)
