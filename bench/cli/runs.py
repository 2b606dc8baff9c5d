"""Define the commands that read DATA through a recipe: run, tune, preview, report and audit."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import (
    AllowPipe,
    AnyRecipe,
    ClipOptions,
    Data,
    Json,
    RunOptions,
    SampledClipOptions,
    Seed,
    SourceOptions,
    TuneOptions,
    Workers,
)


def run(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    loader: RunOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
) -> None:
    """Run a loader over DATA, show its speed, and report its bottleneck."""
    from bench.cli.run_show import run_epochs

    run_epochs(data, recipe, loader, clips, source)


def tune(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    step_ms: Annotated[
        float | None, typer.Option(help="Length of a training step, in milliseconds.")
    ] = None,
    images_per_second: Annotated[
        float | None,
        typer.Option(help="Speed of the training, instead of --step-ms; in clips for videos."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Approximate duration.")] = 60.0,
    loader: TuneOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
    json: Json = None,
) -> None:
    """Find the bottleneck of a loader over DATA, and faster settings."""
    from bench.tune.command import tune_and_show

    aim = {"step_ms": step_ms, "images_per_second": images_per_second, "seconds": seconds}
    tune_and_show(data, recipe, loader, clips, source, aim=aim, json_path=json)


def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA|LOG",
            help="The log of gpu-aug run --log, or data: a folder, a list of files, shards or a URL of them.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, .html.")] = Path(
        "report.html"
    ),
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every sample and decode every image.")
    ] = False,
    log_only: Annotated[
        bool, typer.Option("--log-only", help="For a log: do not read its data.")
    ] = False,
    opened: SourceOptions,
    allow_pipe: AllowPipe = False,
    workers: Workers = None,
) -> None:
    """Write one HTML page about a run or about data; the page loads nothing and can be sent to others."""
    from bench.report.write import Asked, write_report

    asked = Asked(verify, log_only, opened.asked(), allow_pipe, workers)
    write_report(source, out, asked)


def preview(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path(
        "preview.png"
    ),
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Number of images (default 6) or clips (default 4)."),
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
        int, typer.Option(min=0, max=4_294_966_295, help="The first epoch to show.")
    ] = 0,
    engine: Annotated[
        str | None,
        typer.Option(help="fused, kornia or albumentations; default: the loader's choice."),
    ] = None,
    engines: Annotated[
        bool,
        typer.Option(
            "--engines",
            help="Show one draw on every decoder and engine instead, with their differences.",
        ),
    ] = False,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Videos: also write an animation of the first clip, .webp, .gif or .png."
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="Images: number of stored channels (default 3).")
    ] = None,
    depth: Annotated[
        str | None, typer.Option(help="Images: stored depth: 8 (default), 16 or float32.")
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD", help="Images: a field with an image; repeatable."),
    ] = None,
    clips: ClipOptions,
    source: SourceOptions,
    seed: Seed = 0,
) -> None:
    """Draw originals next to the images of training in several epochs, with their draws; for videos, strips of frames."""
    from bench.compare.clips import clip_settings, usual_recipe
    from bench.output.arguments import schedule_from
    from bench.output.errors import BenchError
    from bench.preview import Shown, image_options, write_clips, write_images

    how = source.asked()
    settings = clip_settings(data, how, **vars(clips))
    made = schedule_from(recipe or usual_recipe(settings))
    shown = Shown(count, draws, epoch, engine, engines=engines, seed=seed)
    if settings is not None:
        for name, value in {"channels": channels, "depth": depth, "image": image}.items():
            if value:
                raise BenchError(f"--{name} is for images, and {data} holds videos: leave it out")
        write_clips(data, made, settings, out, shown, animate=animate, how=how)
    elif animate is not None:
        raise BenchError(f"--animate {animate} is for videos, and {data} has none: leave it out")
    else:
        kind = image_options(channels, depth, image)
        write_images(data, made, out, shown, how=how, kind=kind)


def audit(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Audit files of a run: a file, folder or 'pattern'.")
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="B", help="Audit files of another run, to compare them."),
    ] = None,
) -> None:
    """Check that a run handed over each sample exactly once, or that two runs handed over the same samples.

    The files are those of Monitoring(audit='run-{rank}.jsonl'), from any number of ranks and after any number of
    resumes: steps that were repeated after a resume count once. Two runs are compared: whether they had the same
    samples in the same order, and if not, the first difference. If one run continued from a state of the other, both
    are checked as one run. Exit code 1 if the answer is no.
    """
    from bench.output.text import print_line
    from dali_pipes.runs.audit_check import check_audit
    from dali_pipes.runs.audit_compare import compare_audits

    if second is None:
        check = check_audit(first)
        lines, is_good = check.lines(), check.once
    else:
        found = compare_audits(first, second)
        lines, is_good = found.lines(), found.same
        if found.continued:
            check = check_audit(first, second)
            how = f"one of them goes on from a state of the other: {first} and {second} are checked as one run"
            lines, is_good = [how, *check.lines()], check.once
    for line in lines:
        print_line(line)
    if not is_good:
        raise typer.Exit(1)
