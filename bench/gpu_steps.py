"""The steps of a visit to a GPU machine. Each runs in a process of its own and leaves one JSON file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from bench.compare import Settings, compare
from bench.dali_baseline import read_files
from bench.doctor import examination
from bench.machine import num_cores
from bench.report import comparison_document, write_json
from bench.timer import Rate, time_slice
from gpu_aug import Recipe

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Data = Annotated[Path, typer.Option(help="A folder of photographs.")]
Out = Annotated[Path, typer.Option(help="The JSON file to write.")]
Rehearse = Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")]


@dataclass(frozen=True)
class Scale:
    """How big and how long."""

    device: str
    batch_sizes: tuple[int, ...]
    seconds: float
    rounds: int
    # Shares of a batch that the GPU's JPEG engine gets; 0.65 is DALI's default. None where it has none.
    hardware_loads: tuple[float | None, ...]


_VISIT = Scale("cuda", (64, 256), seconds=1.0, rounds=3, hardware_loads=(0.0, 0.65, 1.0))
_REHEARSAL = Scale("cpu", (8,), seconds=0.1, rounds=1, hardware_loads=(None,))


def _scale(*, rehearse: bool) -> Scale:
    if not rehearse and not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device; without one there is only --rehearse")
    return _REHEARSAL if rehearse else _VISIT


@app.command()
def environment(data: Data, out: Out, rehearse: Rehearse = False) -> None:
    """Say what is there."""
    found = {finding.subject: finding.found for finding in examination()}
    found["photographs"] = str(len(_files(data)))
    headline = f"{found['CUDA']}; torch {found['torch']}; {found['decoder dali']}"
    write_json(out, {"headline": headline, "findings": found})
    _scale(rehearse=rehearse)


@app.command("region-decode")
def region_decode(data: Data, out: Out, rehearse: Rehearse = False) -> None:
    """Decode a region of each image, beside decoding it whole and cutting. On a GPU this may crash."""
    scale = _scale(rehearse=rehearse)
    batch_size = scale.batch_sizes[0]
    region = _pipeline(data, scale, batch_size, _decode_region)
    whole = _pipeline(data, scale, batch_size, _decode_whole_and_cut)
    largest = 0
    for one, other in zip(region.run()[0].as_cpu(), whole.run()[0].as_cpu(), strict=True):
        difference = np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int))
        largest = max(largest, int(difference.max()))
    rates = {
        "region": _rate(region, batch_size, scale).to_dict(),
        "whole": _rate(whole, batch_size, scale).to_dict(),
    }
    headline = (
        f"region {rates['region']['median']}, whole {rates['whole']['median']} images/s, "
        f"differ by at most {largest}/255"
    )
    write_json(out, {"headline": headline, "largest_difference": largest, "rates": rates})


@app.command("decode-rates")
def decode_rates(data: Data, out: Out, rehearse: Rehearse = False) -> None:
    """Decode whole images with DALI in several batch sizes and shares of the JPEG engine."""
    scale = _scale(rehearse=rehearse)
    rates: dict[str, dict[str, object]] = {}
    for batch_size in scale.batch_sizes:
        for load in scale.hardware_loads:
            name = f"batch {batch_size}" + ("" if load is None else f", hw_decoder_load {load}")
            pipeline = _pipeline(data, scale, batch_size, _decode_whole, hw_decoder_load=load)
            rates[name] = _rate(pipeline, batch_size, scale).to_dict()
            write_json(out, {"headline": f"{name}: {rates[name]['median']}", "rates": rates})
    fastest = max(rates, key=lambda name: rates[name]["median"])  # type: ignore[arg-type, return-value]
    headline = f"{fastest}: {rates[fastest]['median']} images/s"
    write_json(out, {"headline": headline, "rates": rates})


@app.command("compare")
def compare_step(
    data: Data,
    out: Out,
    rehearse: Rehearse = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this row; repeatable.")] = None,
) -> None:
    """Compare pipelines on the device; those that crash leave their tracebacks in the log."""
    scale = _scale(rehearse=rehearse)
    settings = Settings(
        seconds=scale.seconds * scale.rounds,
        rounds=scale.rounds,
        batch_size=scale.batch_sizes[0],
        device=scale.device,
        only=tuple(only or ()),
    )
    comparison = compare(str(data), Recipe.imagenet_train(), settings, typer.echo)
    best = comparison.rows[0] if comparison.rows else None
    headline = f"{best.name}: {best.rate.median:.0f} images/s" if best else "no row"
    if best and scale.device == "cuda":
        headline += f", {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB of torch's memory"
    write_json(out, {"headline": headline, **comparison_document(comparison)})
    crashed = [absent for absent in comparison.absent if absent.trace]
    for absent in crashed:
        typer.echo(f"---- {absent.name}\n{absent.trace}")
    if crashed or not comparison.rows:
        raise typer.Exit(1)


def _pipeline(data: Path, scale: Scale, batch_size: int, graph: Any, **options: Any) -> Any:
    from nvidia.dali import Pipeline

    on_gpu = scale.device == "cuda"
    files = _files(data)
    pipeline = Pipeline(batch_size, num_cores(), 0 if on_gpu else None)
    with pipeline:
        encoded, _ = read_files(files, [0] * len(files), shuffle=False)
        given = {name: value for name, value in options.items() if value is not None}
        pipeline.set_outputs(graph(encoded, "mixed" if on_gpu else "cpu", **given))
    pipeline.build()
    return pipeline


def _decode_whole(encoded: Any, device: str, **options: Any) -> Any:
    from nvidia.dali import fn, types

    return fn.decoders.image(encoded, device=device, output_type=types.RGB, **options)


_WINDOW: Any = {"axes": [0, 1], "rel_start": [0.25, 0.25], "rel_shape": [0.5, 0.5]}  # the middle


def _decode_whole_and_cut(encoded: Any, device: str) -> Any:
    from nvidia.dali import fn

    return fn.slice(_decode_whole(encoded, device), **_WINDOW)


def _decode_region(encoded: Any, device: str) -> Any:
    from nvidia.dali import fn, types

    return fn.decoders.image_slice(encoded, device=device, output_type=types.RGB, **_WINDOW)


def _rate(pipeline: Any, batch_size: int, scale: Scale) -> Rate:
    def next_batch() -> range:
        pipeline.run()
        return range(batch_size)

    def finish() -> None:
        if scale.device == "cuda":
            torch.cuda.synchronize()

    return Rate(
        tuple(
            time_slice(
                next_batch, seconds=scale.seconds, discard=3, finish=finish
            ).images_per_second
            for _ in range(scale.rounds)
        )
    )


def _files(data: Path) -> list[Path]:
    return sorted(data.rglob("*.jpg"))


if __name__ == "__main__":
    app()
