"""Command-line arguments, converted to arguments of the packages."""

import os
from pathlib import Path

import torch

from bench.output.errors import BenchError
from gpu_aug import PRESETS, Recipe, Views
from gpu_aug.files.document import SUFFIXES
from gpu_aug.files.schema import load_recipe

_DTYPES = {
    "uint8": torch.uint8,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}


def dtype_from(text: str) -> torch.dtype:
    """A dtype by its name.

    Raises:
        BenchError: There is no such dtype.
    """
    if text not in _DTYPES:
        raise BenchError(f"dtype must be one of {', '.join(_DTYPES)}, got {text!r}: choose one")
    return _DTYPES[text]


def recipe_from(text: str) -> Recipe | Views:
    """A preset by its name, or a recipe from a file.

    Raises:
        gpu_aug.RecipeError: It is neither, or the file has a fault.
    """
    looks_like_file = Path(text).suffix.lower() in SUFFIXES or Path(text).exists()
    return load_recipe(text) if looks_like_file and text not in PRESETS else Recipe.preset(text)


def check_writable(path: Path | None) -> None:
    """Find out before a long run that its result could not be written.

    Raises:
        BenchError: There is no such folder, or the path is one, or it may not be written.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        raise BenchError(
            f"the result cannot be written to {path}: give the name of a file in a folder that exists"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise BenchError(
            f"the result cannot be written to {path} (permission denied): give a place that you may write to"
        )
