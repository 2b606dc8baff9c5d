"""Pictures for choosing augmentations, written to files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bench.output.errors import BenchError

if TYPE_CHECKING:
    from bench.video.clips import ClipSettings
    from dali_pipes.preview.page import Page
    from gpu_aug import Schedule

PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""How the names of pictures end."""

ENGINES = ("auto", "fused", "kornia", "albumentations")

_NUM_IMAGES, _NUM_CLIPS = 6, 4
_DRAWS_OF_IMAGES, _DRAWS_OF_CLIPS = 4, 1
_MOST_DRAWS = 1000
_MOST_PIXELS = 200_000_000  # 0.6 GB
_MOST_SIDE = {".jpg": 65_535, ".jpeg": 65_535, ".webp": 16_383}


@dataclass(frozen=True)
class Shown:
    """What is shown.

    Attributes:
        count: Number of images or clips; None is what is usual.
        draws: How many epochs of each; None is what is usual.
        epoch: The first of them.
        engine: None is the loader's choice.
        engines: Instead: one epoch on every decoder and engine.
        seed: Of the order and of all draws.
    """

    count: int | None = None
    draws: int | None = None
    epoch: int = 0
    engine: str | None = None
    engines: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        from dali_pipes.schedule import MAX_EPOCH

        for name in ("draws", "engine"):
            value = getattr(self, name)
            if self.engines and value is not None:
                raise BenchError(
                    f"--engines shows one draw on every engine, got --{name} {value} as well: leave one of them out"
                )
        if self.draws is not None and not 1 <= self.draws <= _MOST_DRAWS:
            raise BenchError(
                f"draws must be from 1 to {_MOST_DRAWS}, got {self.draws}: leave it out to get what is usual"
            )
        if not 0 <= self.epoch <= MAX_EPOCH - _MOST_DRAWS:
            raise BenchError(
                f"epoch must be from 0 to {MAX_EPOCH - _MOST_DRAWS}, got {self.epoch}: leave it out to get 0"
            )
        if self.engine not in (None, *ENGINES):
            raise BenchError(
                f"engine must be one of {', '.join(ENGINES)}, got {self.engine!r}: leave it out to get the loader's choice"
            )
        if self.seed < 0:
            raise BenchError(f"seed must be 0 or more, got {self.seed}: leave it out to get 0")

    def number(self, usual: int) -> int:
        """How many images or clips.

        Raises:
            BenchError: None at all.
        """
        if self.count is not None and self.count < 1:
            raise BenchError(
                f"count must be 1 or more, got {self.count}: leave it out to get {usual}"
            )
        return self.count or usual

    def epochs(self, usual: int) -> range:
        """Which epochs."""
        return range(self.epoch, self.epoch + (self.draws or usual))


def write_images(
    source: str,
    recipe: "Schedule",
    out: Path,
    shown: Shown,
    *,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write originals and what training sees of them, or what every decoder and engine makes of them.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    from rich.console import Console

    from bench.compare.images import require_sound
    from bench.output.text import print_plain
    from dali_pipes.preview import preview_engines, preview_images
    from readers.prepare.source import open_at_random

    _check_name(out, PICTURES, "picture")
    most = shown.number(_NUM_IMAGES)
    console = Console()
    dataset = open_at_random(source, **how)
    samples, left_out = require_sound(source, dataset, most=most)
    for fault in left_out:
        print_plain(console, f"left out: {fault}", "yellow")
    indices = [sample.index for sample in samples]
    with console.status("drawing") as status:  # nothing where there is no terminal

        def say(what: object) -> None:
            status.update(f"drawing {what}")

        if shown.engines:
            found = preview_engines(
                dataset, recipe, indices, seed=shown.seed, epoch=shown.epoch, on_pair=say
            )
        else:
            found = preview_images(
                dataset,
                recipe,
                indices,
                seed=shown.seed,
                epochs=shown.epochs(_DRAWS_OF_IMAGES),
                engine=shown.engine or "auto",  # type: ignore[arg-type] # it is one of ENGINES
                on_epoch=lambda epoch: say(f"epoch {epoch}"),
            )
    _tell_missing(found.missing)
    _save(found.page, out)


def write_clips(
    source: str,
    recipe: "Schedule",
    settings: "ClipSettings",
    out: Path,
    shown: Shown,
    *,
    animate: Path | None = None,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write strips of frames: those of each clip, and below them every view that the recipe makes.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    from rich.console import Console

    from bench.output.text import print_plain, print_written
    from bench.video.clips import open_sound_videos
    from dali_pipes.preview import clip_engines, clip_pictures, render_strips, write_animation
    from dali_pipes.preview.animation import MOVING
    from dali_pipes.preview.images import as_views

    _check_name(out, PICTURES, "picture")
    if animate is not None:
        _check_name(animate, MOVING, "moving picture")
        if shown.engines:
            raise BenchError(
                f"--animate {animate} shows the draws of one engine: leave --engines out"
            )
    most = shown.number(_NUM_CLIPS)
    console = Console()
    videos, left_out = open_sound_videos(source, settings, most=most, how=how)
    for fault in left_out:
        print_plain(console, f"not drawn: {fault}", "yellow")
    numbers = videos.indices_in_whole(range(len(videos))).tolist()
    which: dict[str, Any] = {"numbers": numbers}
    clips = settings.clips(videos, sampling="random")
    if any(as_views(one).group > 1 for one in recipe.recipes):  # the neighbours are elsewhere
        which = {"indices": numbers}
        clips = settings.clips(videos.whole, sampling="random")
    if shown.engines:
        drawn, missing = clip_engines(clips, recipe, seed=shown.seed, epoch=shown.epoch, **which)
        _tell_missing(missing)
    else:
        epochs = shown.epochs(_DRAWS_OF_CLIPS)
        engine: Any = shown.engine or "auto"
        drawn = list(
            clip_pictures(clips, recipe, seed=shown.seed, epochs=epochs, engine=engine, **which)
        )
    parts = [drawn[0].made_by, f"seed {shown.seed}", repr(clips)]
    _save(render_strips(drawn, ["; ".join(part for part in parts if part)]), out)
    if animate is not None:
        write_animation(drawn[0], animate)
        print_written(console, animate)


def _check_name(path: Path, endings: tuple[str, ...], what: str) -> None:
    from bench.cli.arguments import check_writable

    check_writable(path)
    if path.suffix.lower() not in endings:
        raise BenchError(f"a {what}'s name must end in {', '.join(endings)}, got {path}")


def _tell_missing(missing: Mapping[str, str]) -> None:
    from rich.console import Console

    from bench.output.text import print_plain

    for name, reason in missing.items():
        print_plain(Console(), f"{name} is not drawn: {reason}", "yellow")


def _save(page: "Page", out: Path) -> None:
    """Draw a page into a file.

    Raises:
        BenchError: It is too large.
    """
    from rich.console import Console

    from bench.output.text import print_written

    width, height = page.size
    most = _MOST_SIDE.get(out.suffix.lower(), _MOST_PIXELS)
    if max(width, height) > most or width * height > _MOST_PIXELS:
        raise BenchError(
            f"the picture would have {height} x {width} pixels, too many for {out.name}: ask for fewer with --count "
            "and --draws" + (", or write .png" if most < _MOST_PIXELS else "")
        )
    page.render().save(out)
    print_written(Console(), out)
