"""Every pair of a decoder and an engine, and how it is called."""

from typing import Literal

Decoder = Literal["dali", "cpu"]
Engine = Literal["kornia", "albumentations", "fused"]

DECODERS: tuple[Decoder, ...] = ("dali", "cpu")
ENGINES: tuple[Engine, ...] = ("kornia", "albumentations", "fused")


def pair_name(decoder: str, engine: str) -> str:
    """How a decoder and an engine are called in tables, pictures and files."""
    return f"gpu-aug/{decoder}+{engine}"


def short_name(name: str) -> str:
    """Return the name of a pair without the package's."""
    return name.partition("/")[2]
