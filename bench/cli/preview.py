"""``gpu-aug preview``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import AnyRecipe, ClipOptions, Data, Seed, SourceOptions


def preview(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path(
        "preview.png"
    ),
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Number of images (default 6), or clips (default 4)."),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Draws of each image (default 4) or clip (default 1): one for each epoch of training.",
        ),
    ] = None,
    epoch: Annotated[
        int, typer.Option(min=0, max=4_294_966_295, help="The first epoch that is shown.")
    ] = 0,
    engine: Annotated[
        str | None,
        typer.Option(help="fused, kornia or albumentations; the loader's choice when left out."),
    ] = None,
    engines: Annotated[
        bool,
        typer.Option(
            "--engines",
            help="Instead: one draw on every decoder and engine, and how far they are apart.",
        ),
    ] = False,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Videos: also write a moving picture of the first clip, .webp, .gif or .png."
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="Images: channels as they are stored (default 3).")
    ] = None,
    depth: Annotated[
        str | None, typer.Option(help="Images: 8 (the default), 16 or float32, as they are stored.")
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD", help="Images: the field that holds one; several times for several."
        ),
    ] = None,
    clips: ClipOptions,
    source: SourceOptions,
    seed: Seed = 0,
) -> None:
    """Draw originals beside what training sees in several epochs, and what was drawn; of videos, strips of frames."""
    from bench.compare.clips import clip_settings, usual_recipe
    from bench.output.arguments import schedule_from
    from bench.output.errors import BenchError
    from bench.preview import Shown, image_options, write_clips, write_images

    how = source.asked()
    settings = clip_settings(data, how, **clips.asked())
    made = schedule_from(recipe or usual_recipe(settings))
    shown = Shown(count, draws, epoch, engine, engines=engines, seed=seed)
    kind = image_options(channels, depth, image)
    if settings is not None:
        for name in kind:
            raise BenchError(f"--{name} is for images, and {data} holds videos: leave it out")
        write_clips(data, made, settings, out, shown, animate=animate, how=how)
    elif animate is not None:
        raise BenchError(f"--animate {animate} is for videos, and {data} has none: leave it out")
    else:
        write_images(data, made, out, shown, how=how, kind=kind)
