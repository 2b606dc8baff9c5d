"""Recipes of image augmentations, their draws, and the engines that carry them out."""

from gpu_aug.apply import apply
from gpu_aug.draws import Draws
from gpu_aug.engines.engine import Engine, compile_engine
from gpu_aug.errors import EngineError, RecipeError, TargetsError
from gpu_aug.move import move_batch
from gpu_aug.ops import *
from gpu_aug.recipe import PRESETS, Recipe
from gpu_aug.targets import BoxParams, KeypointParams, Targets
from gpu_aug.views import Views
from gpu_aug.windows import Windows
