"""The commands ``gpu-aug bench ...``, which measure this machine."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import (
    AnyRecipe,
    BatchSize,
    Data,
    Device,
    FrameOptions,
    Json,
    Seed,
    SourceOptions,
    Threads,
    WindowOptions,
)

Photographs = Annotated[
    str | None,
    typer.Argument(metavar="DATA", help="Photographs; default: those that scikit-image ships."),
]
RowSeconds = Annotated[float, typer.Option(help="Total measured time per line of the table.")]
RowRounds = Annotated[int, typer.Option(help="Number of turns, which share the measured time.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Use tiny inputs and one short turn, to check that it works."),
]


def compare(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    seconds: Annotated[float, typer.Option(help="Total measured time per pipeline.")] = 10.0,
    rounds: Annotated[
        int, typer.Option(help="Number of turns per pipeline, which share the measured time.")
    ] = 5,
    batch_size: BatchSize = None,
    frames: FrameOptions,
    window: WindowOptions,
    source: SourceOptions,
    device: Device = "auto",
    threads: Threads = None,
    seed: Seed = 0,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="bfloat16 or float32; default bfloat16 for images, as people train, and float32 for clips. LeRobot: "
            "also uint8; default a row for each."
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="all|none|NAME",
            help="Baselines, repeatable; what is missing is installed into .peers/. When left out, those that are "
            "installed.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure only the row with this name; repeatable.")
    ] = None,
    json: Json = None,
) -> None:
    """Compare every engine of ours with other pipelines, in turns, on the same files."""
    from bench.compare.clips import clip_settings, usual_batch_size, usual_dtype, usual_recipe
    from bench.compare.compare import Settings
    from bench.compare.report import compare_and_show
    from bench.compare.windows import window_settings
    from bench.output.errors import BenchError

    how = source.asked()
    clips = clip_settings(data, how, **vars(frames))
    windows = window_settings(data, how, dtype=dtype, **vars(window))
    if windows and recipe:
        raise BenchError("windows are compared as full pictures: leave --recipe out")
    settings = Settings(
        seconds=seconds,
        rounds=rounds,
        batch_size=usual_batch_size(clips or windows) if batch_size is None else batch_size,
        device=device,
        num_threads=threads,
        seed=seed,
        only=tuple(only or ()),
        dtype=usual_dtype(clips) if windows or dtype is None else dtype,
        peers=tuple(peers or ()),
        clips=clips,
        windows=windows,
        how=how,
    )
    compare_and_show(data, recipe or usual_recipe(clips), settings, json_path=json)


def read(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Total measured time per reader, warm.")] = 10.0,
    rounds: Annotated[
        int, typer.Option(help="Number of turns per reader, which share the measured time.")
    ] = 5,
    cold_rounds: Annotated[int, typer.Option(help="Number of turns with an empty page cache.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.")] = 256,
    size: Annotated[
        str, typer.Option(help="How much of DATA to read; DATA is repeated if it is smaller.")
    ] = "512MiB",
    threads: Threads = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Measure only this format (files, tar, ...); repeatable."),
    ] = None,
    json: Json = None,
) -> None:
    """Read the samples of DATA in shuffled order from every format, with our readers and the formats' own libraries."""
    from bench.reading.read import ReadSettings, read_and_show
    from readers.prepare.packing import size_from

    settings = ReadSettings(
        seconds=seconds,
        rounds=rounds,
        cold_rounds=cold_rounds,
        batch_size=batch_size,
        num_threads=threads,
        size_bytes=size_from(size),
        only=tuple(only or ()),
    )
    read_and_show(data, settings, json_path=json)


def micro(
    name: Annotated[str, typer.Argument(metavar="NAME", help="decode, overhead or scale.")],
    data: Photographs = None,
    seconds: RowSeconds = 2.0,
    rounds: RowRounds = 5,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure one part of the work at a time, on this machine's CPU.

    decode: each kind of file in full, smaller, and crops, by our decoder and others, on one thread.

    overhead: the loader's work besides decoding and augmenting, and how long it holds the GIL.

    scale: the loader's cost by threads, batch size, image size and dataset length.
    """
    from bench.micro.micro import RunSettings, micro_and_show

    micro_and_show(name, RunSettings(data, seconds, rounds, quick, json))


def published(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="imread, spdl, grain, albumentations-dali, albumentations-images or kornia-ops.",
        ),
    ],
    data: Photographs = None,
    seconds: RowSeconds = 2.0,
    rounds: RowRounds = 5,
    quick: Quick = False,
    install: Annotated[
        bool,
        typer.Option(
            "--install", help="First install the contestants that are missing into .peers/."
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Run a benchmark that others published, with our loader or decoder as a further contestant.

    imread: JPEG decoders on one thread and in a DataLoader, by their own protocol (arXiv 2605.08731).

    spdl: SPDL's example of loading ImageNet, and our Loader on the same files.

    grain: the image example in Grain's guide, and our Loader on the same files.

    albumentations-dali: Albumentations' comparison with DALI: 22 transforms, a DataLoader, batches of 256.

    albumentations-images: Albumentations' comparison of single transforms.

    kornia-ops: Kornia's comparison of single operations and of pipelines.
    """
    from bench.micro.micro import RunSettings
    from bench.published.published import publish_and_show

    publish_and_show(name, RunSettings(data, seconds, rounds, quick, json), install=install)


def make_videos(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Gets one folder per class.")],
    size: Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="Size in pixels.")] = "340x256",
    count: Annotated[int, typer.Option(help="Number of videos.")] = 16,
    seconds: Annotated[float, typer.Option(help="Length of each video.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Make videos: a camera moves over real photographs, H.264 with x264's default settings."""
    from bench.compare.photographs import make_and_show

    make_and_show(folder, size, count=count, seconds=seconds, seed=seed)
