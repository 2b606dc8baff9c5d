"""One step of a visit: ``python -m bench.gpu_visit.step NAME --data=folder --out=file [--rehearse]``."""

import importlib
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench.gpu_visit.scale import Notes, Scale, scale_for

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

# Name of a step -> the module and its function; a module is loaded by its own steps alone.
STEPS = {
    "environment": ("step", "environment"),
    "agreement": ("agree", "agreement"),
    "kinds": ("kinds", "kinds"),
    "positions": ("damage", "positions"),
    "soak": ("damage", "soak"),
    "resume": ("resume", "resume"),
    "races": ("loop", "races"),
    "synchronisations": ("loop", "synchronisations"),
    "sanitizer": ("sanitizer", "sanitizer"),
    "memory": ("loop", "memory"),
    "video-frames": ("video", "frames"),
    "regions-dali": ("decode", "regions_of_dali"),
    "regions-nvimgcodec": ("decode", "regions_of_nvimgcodec"),
    "kernel": ("kernel", "kernel"),
    "tilings": ("kernel", "tilings"),
    "decode-dali": ("decode", "dali"),
    "decode-others": ("decode", "others"),
    "tiles": ("tiles", "tiles"),
    "batch-stage": ("peers", "batch_stage"),
    "compare": ("peers", "compare_loaders"),
    "training": ("training", "training"),
    "shares": ("shares", "shares"),
    "sweep": ("sweep", "sweep"),
    "video-decode": ("video", "decode"),
    "video-loader": ("video", "loader"),
}


def environment(scale: Scale, data: Path, notes: Notes) -> None:
    """Say what is there."""
    from bench.doctor import examination

    found = {finding.subject: finding.found for finding in examination()}
    found["photographs"] = str(len(list(data.rglob("*.jpg"))))
    if scale.on_gpu:
        found["capability"] = str(torch.cuda.get_device_properties(scale.device))
    headline = f"{found['CUDA']}; torch {found['torch']}; {found['decoder dali']}"
    notes.put(findings=found, headline=headline)


@app.command()
def step(
    name: Annotated[str, typer.Argument(help="Which step.")],
    data: Annotated[Path, typer.Option(help="A folder of photographs.")],
    out: Annotated[Path, typer.Option(help="The JSON file to write.")],
    rehearse: Annotated[bool, typer.Option(help="On the CPU, with tiny inputs.")] = False,
) -> None:
    """Run one step and leave what it found; failed measurements are printed, and end it with an error."""
    module, function = STEPS[name]
    notes = Notes(out)
    notes.put()
    scale = scale_for(rehearse=rehearse)
    run = getattr(importlib.import_module(f"bench.gpu_visit.{module}"), function)
    run(scale, data, notes)
    for failure in notes.failures:
        typer.echo(failure)
    if notes.failures:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
