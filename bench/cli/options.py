"""Define arguments and options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A folder, a list of files, shards ('train-{000..099}.tar', '*.parquet') of any format "
        "that is known, or a URL of them.",
    ),
]
AnyRecipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="A preset, or a recipe in a YAML or JSON file; imagenet_train when left out, and "
        "video_train for videos.",
    ),
]
BatchSize = Annotated[
    int | None, typer.Option(help="Images per batch (default 64), or clips or windows (default 8).")
]
Split = Annotated[
    str | None, typer.Option(metavar="NAME", help="The split of DATA, if it has several.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of open_dataset, such as image=photo or \"classes=['cat', 'dog']\"; repeatable.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Seed = Annotated[int, typer.Option(help="Seed of the order and of all random draws.")]
Threads = Annotated[
    int | None,
    typer.Option(help="Number of worker threads or processes; default: the number of cores."),
]
Workers = Annotated[
    int | None, typer.Option(help="Number of threads; default: the number of cores.")
]
Processes = Annotated[
    int | None, typer.Option(help="Number of processes; default: the number of cores.")
]
AllowPipe = Annotated[
    bool,
    typer.Option("--allow-pipe", help="Allow DATA of the form pipe:COMMAND; the command is run."),
]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")]


@dataclass(frozen=True)
class SourceOptions:
    """How DATA is opened, as far as it cannot be detected."""

    format: Annotated[
        str | None,
        typer.Option(help="Format of the data if it is not detected, such as frame-folder."),
    ] = None
    split: Split = None
    option: Options = None

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of `readers.open_dataset`.

        Raises:
            BenchError: An option is not of the form NAME=VALUE.
        """
        from bench.output.arguments import source_options

        return source_options(self.format, self.split, self.option or [])


@dataclass(frozen=True)
class ExecutionOptions:
    """Where the tasks of a preparation run."""

    on: Annotated[
        str, typer.Option(help="local, or ray for a cluster (pip install 'gpu-aug\\[ray]').")
    ] = "local"
    ray_address: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of the cluster; default: RAY_ADDRESS, or this machine."),
    ] = None
    task: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run task I of N of an array job, counted from 0."),
    ] = None
    merge: Annotated[
        bool, typer.Option("--merge", help="Check that all tasks are done, and merge their parts.")
    ] = False


@dataclass(frozen=True)
class FrameOptions:
    """Which frames of videos form a clip; the names are those of `bench.compare.clips.clip_settings`."""

    num_frames: Annotated[
        int | None, typer.Option(help="Videos: frames per clip (default 16).")
    ] = None
    stride: Annotated[
        int | None, typer.Option(help="Videos: take every Nth frame (default 4).")
    ] = None
    fps: Annotated[
        float | None, typer.Option(help="Videos: frames per second of a clip, instead of a stride.")
    ] = None


@dataclass(frozen=True)
class WindowOptions:
    """Which windows of a LeRobot dataset are taken; the names are those of `bench.compare.windows.window_settings`."""

    observations: Annotated[
        int | None, typer.Option(help="LeRobot: frames of each camera in a window (default 8).")
    ] = None
    actions: Annotated[
        int | None, typer.Option(help="LeRobot: actions in a window (default 16).")
    ] = None
    delta_timestamps: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="LeRobot: offsets in seconds by feature, instead."),
    ] = None
    shuffle: Annotated[
        str | None,
        typer.Option(
            help="LeRobot: local (the default) takes windows from 64 neighbouring frames at a time, global from all."
        ),
    ] = None


@dataclass(frozen=True)
class ClipOptions(FrameOptions):
    """Which frames of videos form a clip, and the handling of videos that are too short or damaged."""

    padding: Annotated[
        str | None,
        typer.Option(help="Videos too short for a clip: edge (the default), loop or repeat."),
    ] = None
    on_damaged_video: Annotated[
        str | None,
        typer.Option(
            help="Damaged videos: raise makes their clips bad samples, truncate uses the readable part."
        ),
    ] = None


@dataclass(frozen=True)
class SampledClipOptions(ClipOptions):
    """Which clips are taken from a video and which frames form them, and the handling of short or damaged videos."""

    sampling: Annotated[
        str | None,
        typer.Option(help="Videos: which clips; random (the default), uniform, all or first."),
    ] = None
    clips_per_video: Annotated[
        int | None,
        typer.Option(help="Videos: clips of each for random and uniform sampling (default 1)."),
    ] = None


@dataclass(frozen=True)
class TuneOptions:
    """Arguments of `dali_pipes.Loader`; `gpu-aug tune` tries values for the arguments that are not given."""

    device: Device = "auto"
    decoder: Annotated[str, typer.Option(help="auto, dali, cpu or cuda.")] = "auto"
    engine: Annotated[str, typer.Option(help="auto, fused, kornia or albumentations.")] = "auto"
    batch_size: BatchSize = None
    dtype: Annotated[str, typer.Option(help="uint8, float16, bfloat16 or float32.")] = "float32"
    on_bad_sample: Annotated[str, typer.Option(help="raise, replace or skip.")] = "raise"
    max_bad_samples: Annotated[
        int | None,
        typer.Option(
            help="Stop at more different bad samples (default 1 % of the data, at least 100, at most half)."
        ),
    ] = None
    seed: Seed = 0
    threads: Threads = None
    prefetch: Annotated[
        int | None,
        typer.Option(help="Number of batches that the loader makes ahead; default: automatic."),
    ] = None


@dataclass(frozen=True)
class RunOptions(TuneOptions):
    """Arguments of `dali_pipes.Loader`, the length of the run, and its output files."""

    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data (default 1).")] = (
        None
    )
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Stop after this many batches; without --epochs, repeat the data."
        ),
    ] = None
    ledger: Annotated[
        Path | None, typer.Option(help="Append a line of JSON for every bad sample.")
    ] = None
    helper_process: Annotated[bool, typer.Option(help="Run the loader in a separate process.")] = (
        False
    )
    step_ms: Annotated[
        float | None,
        typer.Option(
            help="Simulate a training step of this many milliseconds, by sleeping like a CPU that waits for a GPU."
        ),
    ] = None
    log: Annotated[
        Path | None,
        typer.Option(
            help="Write the run's statistics every second, and its bad samples, as lines of JSON."
        ),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write a trace of all threads, for Perfetto and chrome://tracing; .gz compresses it."
        ),
    ] = None
    json: Json = None
