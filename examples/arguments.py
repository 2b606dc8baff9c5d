"""What the examples are given, and photographs for those who have none at hand."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.photographs import make_photographs


@dataclass(frozen=True)
class Arguments:
    """What the command line says.

    Attributes:
        data: Class folders of photographs, or whatever else readers.open_dataset takes.
        steps: Where training ends, counted from its beginning.
        checkpoint: Where it is saved at its end; a run that finds it goes on from it.
    """

    data: str
    steps: int
    checkpoint: Path


def parse_arguments(argv: Sequence[str] | None, *, steps: int) -> Arguments:
    """Read the command line; None takes the process's own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", help="photographs (left out: some are made)")
    parser.add_argument("--steps", type=int, default=steps, help="train up to this step")
    parser.add_argument(
        "--checkpoint", type=Path, default=Path("example.pt"), help="saved there; gone on from it"
    )
    given = parser.parse_args(argv)
    return Arguments(given.data or str(own_photographs()), given.steps, given.checkpoint)


def own_photographs() -> Path:
    """Return a folder with 64 photographs of 8 classes, cut out of those that scikit-image ships."""
    cache = Path(os.environ.get("GPU_AUG_CACHE", "~/.cache/gpu-aug")).expanduser()
    folder = cache / "example-photographs"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unfinished:
            make_photographs(Path(unfinished) / "all", per_class=8)
            (Path(unfinished) / "all").rename(folder)
    return folder
