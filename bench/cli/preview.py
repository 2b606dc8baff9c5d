"""``gpu-aug preview``."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.cli.options import AnyRecipe, ClipOptions, Data, Seed, SourceOptions

if TYPE_CHECKING:
    from bench.video.clips import ClipSettings

_PICTURES = (".png", ".jpg", ".jpeg", ".webp")


def preview(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path(
        "preview.png"
    ),
    count: Annotated[
        int | None, typer.Option(help="Number of images (default 6), or clips (default 4).")
    ] = None,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Videos: also write a moving picture of the first clip, .webp, .gif or .png."
        ),
    ] = None,
    clips: ClipOptions,
    source: SourceOptions,
    seed: Seed = 0,
) -> None:
    """Draw originals beside what every engine makes of them, with the same draws; of videos, strips of frames."""
    from bench.output.errors import BenchError
    from bench.video.clips import clip_settings, usual_recipe

    how = source.asked()
    settings = clip_settings(data, how, **clips.asked())
    recipe = recipe or usual_recipe(settings)
    if settings is not None:
        count = 4 if count is None else count
        write_clips(data, recipe, settings, out, count=count, seed=seed, animate=animate, how=how)
    elif animate is not None:
        raise BenchError(f"--animate {animate} is for videos, and {data} has none: leave it out")
    else:
        write_images(data, recipe, out, count=6 if count is None else count, seed=seed, how=how)


def write_images(
    source: str,
    recipe: str,
    out: Path,
    *,
    count: int,
    seed: int,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a grid of originals and what every decoder and engine makes of them.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    from rich.console import Console

    from bench.cli.arguments import check_writable, recipe_from
    from bench.compare.images import require_sound
    from bench.output.errors import BenchError
    from bench.output.text import print_plain, print_written
    from dali_pipes.preview import preview_images
    from readers.prepare.source import open_at_random

    check_writable(out)
    if count < 1:
        raise BenchError(f"count must be 1 or more, got {count}: leave it out to get 6")
    if out.suffix.lower() not in _PICTURES:
        raise BenchError(f"a picture's name must end in .png, .jpg or .webp, got {out}")
    console = Console()
    dataset = open_at_random(source, **how)
    samples, left_out = require_sound(source, dataset, most=count)
    for fault in left_out:
        print_plain(console, f"left out: {fault}", "yellow")
    with console.status("drawing") as status:  # nothing where there is no terminal
        found = preview_images(
            dataset,
            recipe_from(recipe),
            [sample.index for sample in samples],
            seed=seed,
            on_pair=lambda name: status.update(f"drawing {name}"),
        )
    for name, reason in found.missing.items():
        print_plain(console, f"{name} is not drawn: {reason}", "yellow")
    found.picture.save(out)
    print_written(console, out)


def write_clips(
    source: str,
    recipe: str,
    settings: "ClipSettings",
    out: Path,
    *,
    count: int,
    seed: int,
    animate: Path | None = None,
    how: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write strips of frames: those of each clip, and below them every view that the recipe makes.

    Raises:
        BenchError: Nothing can be drawn, or not there.
    """
    from rich.console import Console

    from bench.cli.arguments import check_writable, recipe_from
    from bench.output.errors import BenchError
    from bench.output.text import print_plain, print_written
    from bench.video.clips import open_sound_videos
    from dali_pipes.preview import clip_pictures, render_strips, write_animation
    from dali_pipes.preview.animation import MOVING
    from gpu_aug import Views

    for path, endings, what in ((out, _PICTURES, "picture"), (animate, MOVING, "moving picture")):
        check_writable(path)
        if path is not None and path.suffix.lower() not in endings:
            raise BenchError(f"a {what}'s name must end in {', '.join(endings)}, got {path}")
    if count < 1:
        raise BenchError(f"count must be 1 or more, got {count}: leave it out to get 4")
    parsed = recipe_from(recipe)
    views = parsed if isinstance(parsed, Views) else Views([parsed])
    console = Console()
    videos, left_out = open_sound_videos(source, settings, most=count, how=how)
    for fault in left_out:
        print_plain(console, f"not drawn: {fault}", "yellow")
    clips = settings.clips(videos, sampling="random")
    drawn = list(clip_pictures(clips, views, seed))
    render_strips(drawn).save(out)
    print_written(console, out)
    if animate is not None:
        write_animation(drawn[0], animate)
        print_written(console, animate)
