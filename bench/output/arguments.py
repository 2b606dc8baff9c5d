"""Convert command-line arguments to arguments of the packages."""

import ast
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch

from bench.output.errors import BenchError, choose
from gpu_aug import PRESETS, Recipe, Schedule, Views
from gpu_aug.files.document import SUFFIXES
from gpu_aug.files.schema import load_recipe, load_schedule

_DTYPES = {
    "uint8": torch.uint8,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}


def dtype_from(text: str) -> torch.dtype:
    """Return a dtype by name.

    Raises:
        BenchError: The name is unknown.
    """
    return choose("dtype", text, _DTYPES)


def recipe_from(text: str) -> Recipe | Views:
    """Return a preset by name, or a recipe from a file.

    Raises:
        gpu_aug.RecipeError: The text is neither a preset nor a file, or the file is invalid.
    """
    return load_recipe(text) if _is_file(text) else Recipe.preset(text)


def _is_file(text: str) -> bool:
    looks_like_file = Path(text).suffix.lower() in SUFFIXES or Path(text).exists()
    return looks_like_file and text not in PRESETS


def schedule_from(text: str) -> Schedule:
    """Return as a schedule a preset, given by name, or the recipe, views or recipes by epoch in a file.

    Raises:
        gpu_aug.RecipeError: The text is neither a preset nor a file, or the file is invalid.
    """
    if _is_file(text):
        return load_schedule(text)
    return Schedule({0: Recipe.preset(text)})


def source_options(format: str | None, split: str | None, options: Sequence[str]) -> dict[str, Any]:
    """Return the keyword arguments of `readers.open_dataset` that were given.

    Args:
        format: Name of the format.
        split: Name of the split.
        options: Texts NAME=VALUE. A value in Python syntax is parsed; any other value is a string.

    Raises:
        BenchError: A text has another form, or an option is repeated.
    """
    own = {"format": format, "split": split}
    found: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    for text in options:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise BenchError(
                f"--option must be NAME=VALUE, got {text!r}: give one such as image=photo"
            )
        if name in found or name in own:
            raise BenchError(
                f"--option {name}= is there twice, or is --{name}: give it once"
                if name in found
                else f"--option {text} is an option of its own: say --{name} {value}"
            )
        found[name] = _value_from(name, value)
    return found


def _value_from(name: str, text: str) -> Any:
    """Return a value in Python syntax, or the text itself.

    Raises:
        BenchError: The text starts like a list, a dictionary or a quoted string, but is invalid.
    """
    if text in ("true", "false"):
        raise BenchError(f"--option {name}={text} is no value of Python: say {text.capitalize()}")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if text[:1] in {*"[{('\""}:
            raise BenchError(
                f"--option {name}={text} cannot be read: write values as Python does, and quotes around "
                "all of it, \"classes=['cat', 'dog']\""
            ) from None
        return text


def check_different(**paths: Path | None) -> None:
    """Raise before a long run if two of its results would be written to the same file.

    Args:
        paths: For each option's name, without dashes, the path that it was given.

    Raises:
        BenchError: Two of the paths lead to one file.
    """
    names: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        first = names.setdefault(path.resolve(), name)
        if first != name:
            raise BenchError(
                f"--{first} and --{name} would both be written to {path}: give each a file of its own"
            )


def check_writable(path: Path | None) -> None:
    """Create the folder of a result, and raise before a long run if the result cannot be written.

    Raises:
        BenchError: The folder cannot be created, the path is a folder, or it is not writable.
    """
    if path is None:
        return
    folder = path.absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            f"the result cannot be written to {path}: its folder cannot be made ({error.strerror}); give another place"
        ) from None
    if path.is_dir():
        raise BenchError(
            f"the result cannot be written to {path}: it is a folder; name a file in it"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise BenchError(
            f"the result cannot be written to {path} (permission denied): give a place that you may write to"
        )


def check_output(path: Path, endings: Collection[str], what: str) -> None:
    """Do as `check_writable`, and raise as well if the name of a result does not say its format.

    Args:
        path: The file to write.
        endings: Allowed endings, such as ".png".
        what: Name of the result, for the error: "picture".

    Raises:
        BenchError: The name has another ending, or the file cannot be written.
    """
    check_writable(path)
    if path.suffix.lower() not in endings:
        raise BenchError(
            f"a {what}'s name must end in {', '.join(endings)}, got {path}: name it so"
        )
