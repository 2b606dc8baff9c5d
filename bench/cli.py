"""The command ``gpu-aug``. Heavy imports happen inside the commands, so that --help is quick."""

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from bench import errors

app = typer.Typer(
    name="gpu-aug",
    help="Encoded images in, augmented batches out: run it, look at it, compare it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(help="Measure this machine.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")
recipe_app = typer.Typer(
    help="Look at a recipe, or make one of another library's pipeline.", no_args_is_help=True
)
app.add_typer(recipe_app, name="recipe")

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A folder, a list of files, shards ('train-{000..099}.tar', '*.parquet') of any format "
        "that is known, or a URL of them.",
    ),
]
RecipeOption = Annotated[
    str, typer.Option(metavar="NAME|FILE", help="A preset, or a recipe in a YAML or JSON file.")
]
AnyRecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="A preset, or a recipe in a YAML or JSON file; imagenet_train when left out, and "
        "video_train for videos.",
    ),
]
BatchSizeOption = Annotated[int | None, typer.Option(help="Images per batch, 64; or clips, 8.")]
FramesOption = Annotated[int | None, typer.Option(help="Of videos: frames of a clip; 16.")]
StrideOption = Annotated[
    int | None, typer.Option(help="Of videos: every how many-th frame a clip takes; 4.")
]
FpsOption = Annotated[
    float | None, typer.Option(help="Of videos: frames per second of a clip, instead of a stride.")
]
PaddingOption = Annotated[
    str | None,
    typer.Option(
        help="Of videos that are too short for a clip: edge, the default, loop or repeat."
    ),
]
OnDamagedVideoOption = Annotated[
    str | None,
    typer.Option(
        help="Of videos that break off: raise makes their clips bad samples, truncate takes what can be read."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(help="Of the data, where its name does not tell it, such as frame-folder."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
SeedOption = Annotated[int, typer.Option(help="Of the order and of every draw.")]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Worker threads or processes; the machine's cores when left out.")
]
WorkersOption = Annotated[
    int | None, typer.Option(help="Threads at work; the machine's cores when left out.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the result here as well.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave the process with its exit code."""
    errors.call(app, arguments)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"gpu-aug {metadata.version('gpu-aug')}")  # noqa: T201 - what was asked for
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option(errors.DEBUG_FLAG, help="Show tracebacks; allowed anywhere.")
    ] = False,  # taken out of the arguments before they get here
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del debug, version


@app.command()
def run(
    data: Data,
    recipe: AnyRecipeOption = None,
    device: DeviceOption = "auto",
    decoder: Annotated[str, typer.Option(help="auto, dali or cpu.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, fused, kornia or albumentations.")] = "auto",
    batch_size: BatchSizeOption = None,
    epochs: Annotated[
        int | None, typer.Option(help="How often to go through the data; once when left out.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Stop after so many batches; without --epochs, go round.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="uint8, float16, bfloat16 or float32.")] = "float32",
    on_bad_sample: Annotated[str, typer.Option(help="raise, replace or skip.")] = "raise",
    max_bad_samples: Annotated[
        int | None,
        typer.Option(
            help="Stop a run that meets more different ones; 1 % of the data, at least 100, at most half."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Append a line of JSON for every bad sample.")
    ] = None,
    num_frames: FramesOption = None,
    stride: StrideOption = None,
    fps: FpsOption = None,
    sampling: Annotated[
        str | None,
        typer.Option(help="Of videos, which clips: random, the default, uniform, all or first."),
    ] = None,
    clips_per_video: Annotated[
        int | None, typer.Option(help="Of videos, for random and uniform; 1.")
    ] = None,
    padding: PaddingOption = None,
    on_damaged_video: OnDamagedVideoOption = None,
    format: FormatOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    json: JsonOption = None,
) -> None:
    """Run a loader over DATA, show its speed as it goes, and sum up."""
    from bench.run import RunSettings, run_epochs
    from bench.video.clips import clip_settings, usual_recipe

    clips = clip_settings(
        data,
        format,
        num_frames=num_frames,
        stride=stride,
        fps=fps,
        sampling=sampling,
        clips_per_video=clips_per_video,
        padding=padding,
        on_damaged_video=on_damaged_video,
    )
    run_epochs(
        data,
        recipe or usual_recipe(clips),
        RunSettings(
            device=device,
            decoder=decoder,
            engine=engine,
            batch_size=batch_size,
            epochs=epochs,
            steps=steps,
            dtype=dtype,
            on_bad_sample=on_bad_sample,
            max_bad_samples=max_bad_samples,
            ledger=ledger,
            seed=seed,
            threads=threads,
            clips=clips,
            format=format,
        ),
        json_path=json,
    )


@app.command()
def warm(
    workers: Annotated[
        int | None, typer.Option(help="Processes at work; the machine's cores when left out.")
    ] = None,
) -> None:
    """Compile all of our functions beforehand, for this processor: in a container, when it is built."""
    from bench.warm import warm_and_show

    warm_and_show(workers)


@bench_app.command("compare")
def bench_compare(
    data: Data,
    recipe: AnyRecipeOption = None,
    seconds: Annotated[float, typer.Option(help="Measured time per pipeline, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per pipeline that the time is cut into.")] = 5,
    batch_size: BatchSizeOption = None,
    num_frames: FramesOption = None,
    stride: StrideOption = None,
    fps: FpsOption = None,
    format: FormatOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="bfloat16 or float32; images have bfloat16, as people train, clips float32."
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="all|none|NAME",
            help="Baselines, repeatable; when left out, those that need no environment of their own.",
        ),
    ] = None,
    tiled: Annotated[
        bool, typer.Option("--tiled", help="Also run our fused rows on tiled copies of the JPEGs.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only the row of this name; repeatable.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Compare every engine of ours with other pipelines, in turns, on the same files."""
    from bench.compare.compare import Settings
    from bench.compare.report import compare_and_show
    from bench.video.clips import clip_settings, usual_batch_size, usual_dtype, usual_recipe

    clips = clip_settings(data, format, num_frames=num_frames, stride=stride, fps=fps)
    settings = Settings(
        seconds=seconds,
        rounds=rounds,
        batch_size=usual_batch_size(clips) if batch_size is None else batch_size,
        device=device,
        num_threads=threads,
        seed=seed,
        only=tuple(only or ()),
        dtype=dtype or usual_dtype(clips),
        peers=tuple(peers or ()),
        tiled=tiled,
        clips=clips,
        format=format,
    )
    compare_and_show(data, recipe or usual_recipe(clips), settings, json_path=json)


@bench_app.command("make-videos")
def bench_make_videos(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Gets one folder per class.")],
    size: Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="In pixels.")] = "340x256",
    count: Annotated[int, typer.Option(help="Videos in all.")] = 16,
    seconds: Annotated[float, typer.Option(help="Of each.")] = 10.0,
    seed: SeedOption = 0,
) -> None:
    """Make videos: a camera that moves over real photographs, H.264 with x264's default settings."""
    from bench.video.making import make_and_show

    make_and_show(folder, size, count=count, seconds=seconds, seed=seed)


@bench_app.command("windows")
def bench_windows(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per way, in all.")] = 5.0,
    rounds: Annotated[int, typer.Option(help="Turns per way that the time is cut into.")] = 5,
    json: JsonOption = None,
) -> None:
    """Decode small windows of 1080p JPEGs: tiled, by region decoding, and whole."""
    from bench.micro.windows import windows_and_show

    windows_and_show(data, seconds=seconds, rounds=rounds, json_path=json)


@bench_app.command("busy")
def bench_busy(
    data: Data,
    recipe: RecipeOption = "imagenet_train",
    seconds: Annotated[float, typer.Option(help="Measured time per kind, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per kind that the time is cut into.")] = 5,
    batch_size: Annotated[int, typer.Option(help="Images per batch.")] = 64,
    decoder: Annotated[str, typer.Option(help="auto, dali or cpu.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, fused, kornia or albumentations.")] = "auto",
    threads: Annotated[int, typer.Option(help="Decoding and augmenting threads.")] = 1,
    helper_process: Annotated[
        bool, typer.Option(help="Let the loader work in a process of its own.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Measure how much of its speed the loader keeps while the trainer's Python is busy."""
    from bench.compare.compare import Settings
    from bench.micro.busy import busy_and_show

    settings = Settings(seconds=seconds, rounds=rounds, batch_size=batch_size, num_threads=threads)
    busy_and_show(
        data,
        recipe,
        settings,
        decoder=decoder,
        engine=engine,
        helper_process=helper_process,
        json_path=json,
    )


@bench_app.command("read")
def bench_read(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per reader, warm, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per reader that the time is cut into.")] = 5,
    cold_rounds: Annotated[int, typer.Option(help="Turns with an empty page cache.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.")] = 256,
    size: Annotated[
        str, typer.Option(help="How much of DATA, repeated where it has less.")
    ] = "512MiB",
    threads: ThreadsOption = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this format (files, tar, ...); repeatable.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Read the samples of DATA in shuffled order from every format, beside the formats' own libraries."""
    from bench.pack import size_from
    from bench.reading.read import ReadSettings, read_and_show

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


@bench_app.command("install-peers")
def bench_install_peers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Which; all when left out.")
    ] = None,
) -> None:
    """Install other people's loaders, each into a virtual environment of its own under .peers/."""
    from bench.compare.report import install_and_show

    install_and_show(names or [])


@bench_app.command("overhead")
def bench_overhead(
    data: Data,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    threads: ThreadsOption = None,
    json: JsonOption = None,
) -> None:
    """Measure the loader's own cost: everything but decoding and augmenting."""
    from bench.compare.report import overhead_and_show

    overhead_and_show(data, seconds=seconds, threads=threads, json_path=json)


PhotographsOption = Annotated[
    str | None,
    typer.Option(
        "--data", metavar="DATA", help="Photographs; those that scikit-image ships when left out."
    ),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Tiny inputs and one short turn, to see that it works.")
]


@bench_app.command("ops")
def bench_ops(
    data: PhotographsOption = None, quick: QuickOption = False, json: JsonOption = None
) -> None:
    """Time single operations of torchvision, Albumentations, Kornia and ours, on one thread."""
    from bench.micro.ops import QUICK, OpsSettings, ops_and_show

    ops_and_show(data, QUICK if quick else OpsSettings(), json_path=json)


@bench_app.command("batch")
def bench_batch(
    data: PhotographsOption = None, quick: QuickOption = False, json: JsonOption = None
) -> None:
    """Time the batch stage alone: affine, jitter, erasing and normalising, on one thread."""
    from bench.micro.batch import QUICK, BatchSettings, batch_and_show

    batch_and_show(data, QUICK if quick else BatchSettings(), json_path=json)


@bench_app.command("scale")
def bench_scale(
    data: Data,
    recipe: RecipeOption = "imagenet_train",
    device: DeviceOption = "auto",
    decoder: Annotated[str, typer.Option(help="auto, dali or cpu.")] = "auto",
    engine: Annotated[str, typer.Option(help="auto, fused, kornia or albumentations.")] = "auto",
    quick: QuickOption = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the result here, as .svg.")] = None,
    json: JsonOption = None,
) -> None:
    """Measure how cost grows with threads, image size, batch size, dataset length and time."""
    from dataclasses import replace

    from bench.micro.scale import scale_and_show
    from bench.micro.scale_result import QUICK, ScaleSettings

    settings = replace(
        QUICK if quick else ScaleSettings(), device=device, decoder=decoder, engine=engine
    )
    scale_and_show(data, recipe, settings, json_path=json, plot_path=plot)


@recipe_app.command("show")
def recipe_show(
    recipe: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A preset, or a YAML or JSON file.")
    ],
) -> None:
    """Print a recipe as a table: operations, arguments, and what each costs on every engine."""
    from bench.recipe import show_recipe

    show_recipe(recipe)


@recipe_app.command("convert")
def recipe_convert(
    pipeline: Annotated[
        Path, typer.Argument(help="A YAML or JSON file that albumentations.save wrote.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The recipe to write, .yaml or .json.")],
    keep_foreign: Annotated[
        bool, typer.Option(help="Keep what has no equal here as a step that runs on the CPU.")
    ] = False,
) -> None:
    """Make a recipe of an Albumentations pipeline, and say what was kept, changed and refused."""
    from bench.convert import convert_and_show

    convert_and_show(pipeline, out, keep_foreign=keep_foreign)


@app.command()
def preview(
    data: Data,
    recipe: AnyRecipeOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture to write.")] = Path(
        "preview.png"
    ),
    count: Annotated[int | None, typer.Option(help="How many images, 6; or clips, 4.")] = None,
    animate: Annotated[
        Path | None,
        typer.Option(
            help="Of videos: also write a moving picture of the first clip, .webp, .gif or .png."
        ),
    ] = None,
    num_frames: FramesOption = None,
    stride: StrideOption = None,
    fps: FpsOption = None,
    padding: PaddingOption = None,
    on_damaged_video: OnDamagedVideoOption = None,
    format: FormatOption = None,
    seed: SeedOption = 0,
) -> None:
    """Draw originals beside what every engine makes of them, with the same draws; of videos, strips of frames."""
    from bench.errors import BenchError
    from bench.preview import draw_preview
    from bench.video.clips import clip_settings, usual_recipe
    from bench.video.preview import draw_clips

    clips = clip_settings(
        data,
        format,
        num_frames=num_frames,
        stride=stride,
        fps=fps,
        padding=padding,
        on_damaged_video=on_damaged_video,
    )
    recipe = recipe or usual_recipe(clips)
    if clips is not None:
        draw_clips(
            data,
            recipe,
            clips,
            out,
            count=4 if count is None else count,
            seed=seed,
            animate=animate,
            format=format,
        )
    elif animate is not None:
        raise BenchError(f"--animate {animate} is for videos, and {data} has none: leave it out")
    else:
        draw_preview(
            data, recipe, out, count=6 if count is None else count, seed=seed, format=format
        )


@app.command()
def tile(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="A folder, or .tar shards ('train-{000..099}.tar')."),
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="DST", help="The folder of the copy; may hold a part of it.")
    ],
    workers: WorkersOption = None,
) -> None:
    """Copy images with restart markers in every JPEG, so that crops decode faster; pixels stay the same."""
    from bench.tile import tile_and_show

    tile_and_show(source, destination, num_workers=workers)


@app.command()
def pack(
    source: Data,
    destination: Annotated[
        Path,
        typer.Argument(metavar="DST", help="The folder of the shards; may hold a part of them."),
    ],
    format: Annotated[str, typer.Option(help="tar (WebDataset) or parquet.")] = "tar",
    tile: Annotated[
        bool, typer.Option("--tile", help="Put restart markers into every JPEG; see gpu-aug tile.")
    ] = False,
    shard_size: Annotated[str, typer.Option(help="Largest size of a shard.")] = "256MB",
    shuffle: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Mix samples and classes; in order when left out."),
    ] = None,
    allow_pipe: Annotated[
        bool, typer.Option("--allow-pipe", help="Let DATA be pipe:COMMAND, which is run.")
    ] = False,
    source_format: Annotated[
        str | None,
        typer.Option(help="Format of DATA; stream reads tars of any server front to back."),
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Pack DATA into WebDataset tar shards with their indexes, or Parquet; a second run goes on with the first."""
    from bench.pack import PackSettings, pack_and_show

    settings = PackSettings(format, tile, shard_size, shuffle, allow_pipe, source_format)
    pack_and_show(source, destination, settings, num_workers=workers)


@app.command()
def audit(
    first: Annotated[
        str, typer.Argument(metavar="A", help="Audit files of a run: a file, folder or 'pattern'.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Those of another run.")],
) -> None:
    """Say whether two runs handed over the same samples in the same order, and if not, where they part.

    The files are what Loader(audit='run-{rank}.jsonl') wrote, on any number of ranks and after any number of
    resumes. Exit code 1 if they differ.
    """
    from bench.audit import audit_and_show

    if not audit_and_show(first, second):
        raise typer.Exit(1)


@app.command()
def inspect(
    data: Data,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look at every sample and decode every image.")
    ] = False,
    format: FormatOption = None,
    allow_pipe: Annotated[
        bool, typer.Option("--allow-pipe", help="Let the shell run DATA if it is pipe:COMMAND.")
    ] = False,
    workers: WorkersOption = None,
    json: JsonOption = None,
) -> None:
    """Say what is in DATA: fields, sizes, shapes, classes, and what is broken (exit code 1)."""
    from bench.inspect import InspectSettings, inspect_and_show

    settings = InspectSettings(verify, format, allow_pipe)
    if not inspect_and_show(data, settings, num_workers=workers, json_path=json):
        raise typer.Exit(1)


@app.command()
def index(
    data: Data,
    format: FormatOption = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes at work; the machine's cores when left out.")
    ] = None,
) -> None:
    """Build the indexes that DATA needs to be read at random; a second run goes on with the first.

    Videos are looked through as well. Bad ones are named, and are no failure: an index says which they are.
    (gpu-aug inspect has exit code 1 for them.)
    """
    from bench.index import index_and_show

    index_and_show(data, format=format, num_workers=workers)


@app.command()
def doctor() -> None:
    """Say what this machine has, what will be used, and what is missing and how to get it."""
    from bench.doctor import examine

    examine()
