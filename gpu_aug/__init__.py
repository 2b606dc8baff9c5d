"""Recipes of image augmentations, their draws, and the engines that carry them out."""

from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine, compile_engine
from gpu_aug.errors import EngineError, RecipeError
from gpu_aug.ops import *
from gpu_aug.recipe import PRESETS, Recipe
from gpu_aug.windows import Windows
