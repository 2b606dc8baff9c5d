"""The text of the kernels, for either compiler."""

from functools import cache
from pathlib import Path
from typing import Literal

_FOLDER = Path(__file__).parent / "kernels"
_FILES = ("types", "huffman", "idct", "color", "resize")


@cache
def source(target: Literal["gpu", "cpu"]) -> str:
    """Return one translation unit: the kernels for NVRTC, or plain functions for g++."""
    names = (*_FILES, f"launch_{target}")
    return "\n".join((_FOLDER / f"{name}.cuh").read_text(encoding="utf-8") for name in names)
