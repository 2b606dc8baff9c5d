"""What the examples are given, and photographs for those who have none at hand."""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bench.compare.photographs import make_photographs

SAVE_EVERY = 10
"""Steps: what is lost, and done again, when training is stopped by Ctrl-C or worse."""


@dataclass(frozen=True)
class Arguments:
    """What the command line says.

    Attributes:
        data: Class folders of photographs, or whatever else readers.open_dataset takes.
        steps: Where training ends, counted from its beginning.
        checkpoint: Where it is saved on the way and at its end; a run that finds it goes on from it.
    """

    data: str
    steps: int
    checkpoint: Path = Path()

    def saves_at(self, step: int) -> bool:
        """Whether training is saved after so many steps."""
        return step % SAVE_EVERY == 0 or step == self.steps

    @contextmanager
    def saving(self) -> Iterator[BinaryIO]:
        """Open a file that becomes the checkpoint once it is whole: a stop while it is written spoils nothing."""
        unfinished = self.checkpoint.with_name(f"{self.checkpoint.name}.unfinished")
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(self.checkpoint)


def parse_arguments(
    argv: Sequence[str] | None, *, steps: int, checkpoint: str | None = None
) -> Arguments:
    """Read the command line; None takes the process's own. Without a `checkpoint` nothing is saved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", help="photographs (left out: some are made)")
    parser.add_argument("--steps", type=int, default=steps, help="train up to this step")
    if checkpoint is not None:
        where = Path(checkpoint)
        parser.add_argument(
            "--checkpoint", type=Path, default=where, help="saved there; gone on from it"
        )
    given = parser.parse_args(argv)
    return Arguments(**{**vars(given), "data": given.data or str(own_photographs())})


def own_photographs() -> Path:
    """Return a folder with 64 photographs of 8 classes, cut out of those that scikit-image ships."""
    cache = Path(os.environ.get("GPU_AUG_CACHE", "~/.cache/gpu-aug")).expanduser()
    folder = cache / "example-photographs"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unfinished:
            made = Path(unfinished) / "all"
            make_photographs(made, per_class=8)
            _rename_unless_there(made, folder)
    return folder


def _rename_unless_there(made: Path, folder: Path) -> None:
    """Rename a folder to a name that another rank may have given its own meanwhile."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
