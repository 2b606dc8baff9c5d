"""Write to files the preview pictures that help a user choose augmentations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console

from bench.compare.clips import ClipSettings, open_sound_videos
from bench.compare.images import require_sound
from bench.output.arguments import check_output
from bench.output.errors import BenchError
from bench.output.text import print_line, print_written
from dali_pipes import ImageOptions
from dali_pipes.preview import (
    Preview,
    clip_engines,
    clip_pictures,
    preview_engines,
    preview_images,
    render_strips,
    write_animation,
)
from dali_pipes.preview.strips import MOVING
from dali_pipes.video.source import find_clips
from gpu_aug import Schedule, Views
from readers.prepare.source import open_at_random

PICTURES = (".png", ".jpg", ".jpeg", ".webp")
"""File extensions of pictures."""

_NUM_IMAGES, _NUM_CLIPS = 6, 4
_DRAWS_OF_IMAGES, _DRAWS_OF_CLIPS = 4, 1
_MOST_SIDE = {".jpg": 65_535, ".jpeg": 65_535, ".webp": 16_383}
"""The largest sides that these formats can store, in pixels."""


@dataclass(frozen=True)
class Shown:
    """The samples and epochs of a preview.

    Attributes:
        count: Count of images or clips; None means the default count.
        draws: Count of epochs that are shown of each image or clip; None means the default count.
        epoch: The first epoch.
        engine: Name of the engine; None lets the loader choose.
        engines: Whether to show one epoch on every decoder and engine, instead of several epochs.
        seed: Seed of the order and of all draws.
    """

    count: int | None = None
    draws: int | None = None
    epoch: int = 0
    engine: str | None = None
    engines: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("draws", "engine"):
            value = getattr(self, name)
            if self.engines and value is not None:
                raise BenchError(
                    f"--engines shows one draw on every engine, got --{name} {value} as well: leave one of them out"
                )

    def draws_of(self, default: int) -> dict[str, Any]:
        """Return the arguments of a preview of several epochs; `default` is the count of epochs if `draws` is None."""
        epochs = range(self.epoch, self.epoch + (self.draws or default))
        return {"epochs": epochs, "engine": self.engine or "auto"}


def image_options(
    channels: int | None, depth: str | None, fields: Sequence[str] | None
) -> ImageOptions:
    """Return the options for images that a command was given; None stands for a default."""
    number: Any = int(depth) if depth is not None and depth.isdecimal() else depth
    asked = {"channels": channels, "depth": number, "fields": fields or None}
    return ImageOptions(**{name: value for name, value in asked.items() if value is not None})


def write_images(
    source: str,
    recipe: Schedule,
    out: Path,
    shown: Shown,
    *,
    how: Mapping[str, Any] = MappingProxyType({}),
    kind: ImageOptions | None = None,
) -> None:
    """Write a picture of originals next to the images that training sees, or that every decoder and engine makes.

    Args:
        source: A source as for `readers.open_dataset`.
        recipe: The recipes by epoch.
        out: The file of the picture.
        shown: The samples and epochs to show.
        how: Keyword arguments of `readers.open_dataset`.
        kind: Options for the images; None means one RGB image of 8 bits per sample.

    Raises:
        BenchError: No sample can be drawn, or the file cannot be written.
    """
    check_output(out, PICTURES, "picture")
    dataset = open_at_random(source, **how)
    if find_clips(dataset) is not None:
        raise BenchError(
            f"{source} holds a robot's episodes, of which preview draws no pictures: look at a batch of "
            "Loader(...).peek()"
        )
    kind = kind or ImageOptions()
    count = shown.count or _NUM_IMAGES
    first = recipe.recipes[0]
    first = first.recipes[0] if isinstance(first, Views) else first
    samples, left_out = require_sound(source, dataset, most=count, images=kind, boxes=first.boxes)
    _print_warnings(f"left out: {fault}" for fault in left_out)
    indices = [sample.index for sample in samples]
    common: dict[str, Any] = {"seed": shown.seed, "images": kind}
    with Console().status("drawing"):  # prints nothing without a terminal
        if shown.engines:
            found = preview_engines(dataset, recipe, indices, epoch=shown.epoch, **common)
        else:
            common |= shown.draws_of(_DRAWS_OF_IMAGES)
            found = preview_images(dataset, recipe, indices, **common)
    _print_missing(found.missing)
    _save(found, out)


def write_clips(
    source: str,
    recipe: Schedule,
    settings: ClipSettings,
    out: Path,
    shown: Shown,
    *,
    animate: Path | None = None,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write strips of frames: the frames of each clip, and below them every view of the recipe.

    Raises:
        BenchError: No clip can be drawn, or the file cannot be written.
    """
    check_output(out, PICTURES, "picture")
    if animate is not None:
        check_output(animate, MOVING, "moving picture")
        if shown.engines:
            raise BenchError(
                f"--animate {animate} shows the draws of one engine: leave --engines out"
            )
    count = shown.count or _NUM_CLIPS
    videos, left_out = open_sound_videos(source, settings, most=count, how=how)
    _print_warnings(f"not drawn: {fault}" for fault in left_out)
    numbers = videos.indices_in_whole(range(len(videos))).tolist()
    # Mixing needs the neighbours, which are outside the selection.
    mixes = any(one.group > 1 for one in recipe.recipes)
    clips = settings.clips(videos.whole if mixes else videos, sampling="random")
    which: dict[str, Any] = {"indices" if mixes else "numbers": numbers, "seed": shown.seed}
    if shown.engines:
        drawn, missing = clip_engines(clips, recipe, epoch=shown.epoch, **which)
        _print_missing(missing)
    else:
        drawn = clip_pictures(clips, recipe, **which, **shown.draws_of(_DRAWS_OF_CLIPS))
    parts = [drawn[0].made_by, f"seed {shown.seed}", repr(clips)]
    _save(render_strips(drawn, ["; ".join(part for part in parts if part)]), out)
    if animate is not None:
        write_animation(drawn[0], animate)
        print_written(Console(), animate)


def _print_missing(missing: Mapping[str, str]) -> None:
    _print_warnings(f"{name} is not drawn: {reason}" for name, reason in missing.items())


def _print_warnings(texts: Iterable[str]) -> None:
    for text in texts:
        print_line(text, "yellow")


def _save(preview: Preview, out: Path) -> None:
    """Draw a page into a file.

    Raises:
        BenchError: The page is too large for the format.
    """
    picture = preview.picture
    most = _MOST_SIDE.get(out.suffix.lower(), max(picture.size))
    if max(picture.size) > most:
        raise BenchError(
            f"the picture would have {picture.height} x {picture.width} pixels, too many for {out.name}: ask for fewer "
            "with --count and --draws, or write .png"
        )
    picture.save(out)
    print_written(Console(), out)
