"""Steps: the batch stage and the loaders beside those of others."""

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import torch
import typer

from bench.baselines.torchvision_cuda import NAME as TORCHVISION_CUDA
from bench.compare.compare import Settings, compare
from bench.compare.contestant import Unable
from bench.compare.report import comparison_document
from bench.gpu_visit.flow import summary
from bench.gpu_visit.scale import Notes, Scale
from bench.micro.batch import RECIPE, BatchSettings, measure_batch
from bench.micro.batch_peers import kornia_module
from bench.micro.pictures import load_pictures
from bench.micro.turns import Turns, Work, take_turns
from bench.micro.works import Case, compiled, on_tensor, ours
from gpu_aug import Recipe

_ROWS = ("gpu-aug/dali+fused", "gpu-aug/cpu+fused", "gpu-aug/dali+kornia")
_PEERS = ("opencv-albumentations",)  # the fastest of those that decode on the CPU
_PEERS_ON_GPU = ("dali-gpu", TORCHVISION_CUDA)


def batch_stage(scale: Scale, data: Path, notes: Notes) -> None:
    """Affine, jitter, erasing and normalising: ours, Kornia's, torchvision's v2; then beside Kornia compiled.

    Compiling may take its time, so it comes last and has a limit; it takes turns with ours once more.
    """
    settings = BatchSettings(
        scale.batch_size, scale.side, turns=3, seconds=scale.seconds / 2, with_compiled=False
    )
    case = Case(load_pictures(str(data), scale.batch_size, scale.side), scale.device)
    result = measure_batch(case, settings)
    absent = dict(result.absent)
    _put_turns(result.turns, "", scale, notes)
    notes.put(absent=absent, headline=_headline(notes))
    with notes.attempt("compiling Kornia") as row:
        ours_again = ours(RECIPE, case, "fused", dtype=torch.float32)
        began = time.perf_counter()
        try:
            theirs = _kornia_compiled(case, scale)
        except Unable as reason:
            notes.put(absent={**absent, "kornia compiled": str(reason)})
            return
        row["seconds"] = round(time.perf_counter() - began, 1)
        works = {_OURS: ours_again, "kornia compiled": theirs}
        turns = take_turns(works, turns=3, seconds=scale.seconds / 2, finish=case.finish)
        _put_turns(turns, _BESIDE, scale, notes)
    notes.put(headline=_headline(notes))


_OURS = "gpu-aug/fused"
_BESIDE = " (beside Kornia compiled)"
_COMPILE_SECONDS_MAX = 45.0


def _kornia_compiled(case: Case, scale: Scale) -> Work:
    if not scale.on_gpu:  # a compiler for the CPU may be missing, and takes half a minute
        return on_tensor(kornia_module(case.device), case.floats)
    module = kornia_module(case.device)
    return compiled(module, case.floats, seconds_max=_COMPILE_SECONDS_MAX)


def _put_turns(turns: Mapping[str, Turns], beside: str, scale: Scale, notes: Notes) -> None:
    """Rows of images per second; "ours_times" is by how much ours was faster in the same turns."""
    for name, own in turns.items():
        row: dict[str, Any] = summary([scale.batch_size / run for run in own.runs])
        if _OURS in turns:
            pairs = zip(own.runs, turns[_OURS].runs, strict=True)
            row["ours_times"] = round(median(theirs / mine for theirs, mine in pairs), 2)
        notes.put(**{name + beside: row})


def _headline(notes: Notes) -> str:
    rows = {
        name.removesuffix(_BESIDE): row
        for name, row in notes.found.items()
        if isinstance(row, dict) and "images_per_second" in row
    }
    if _OURS not in rows:
        return f"{_OURS} did not run: {notes.found.get('absent')}"
    peers = {name: row["ours_times"] for name, row in rows.items() if name != _OURS}
    told = ", ".join(f"{name} {times}" for name, times in peers.items())
    return f"fused {rows[_OURS]['images_per_second']:.0f} images/s; times as fast as: {told}"


def compare_loaders(scale: Scale, data: Path, notes: Notes) -> None:
    """Our loaders, ordinary and tiled, beside those that decode on the GPU and on the CPU, in turns."""
    tiled = tuple(f"{row} (tiled)" for row in _ROWS[:2])
    peers = _PEERS_ON_GPU if scale.on_gpu else ("dali-cpu", TORCHVISION_CUDA)
    settings = Settings(
        seconds=scale.seconds * 2.5,
        rounds=3 if scale.on_gpu else 1,
        batch_size=min(scale.batch_size, 128),
        device=scale.device.type,
        only=(*_PEERS, *peers, *_ROWS, *tiled, "decode-only"),
        peers=(*_PEERS, *peers),
        tiled=True,
    )
    recipe = Recipe.imagenet_train(size=scale.side)
    comparison = compare(str(data), recipe, settings, typer.echo)
    ranked = "; ".join(f"{row.name} {row.rate.median:.0f}" for row in comparison.rows)
    notes.put(**comparison_document(comparison), headline=f"images/s: {ranked}")
    for absent in comparison.absent:
        told = f"---- {absent.name}: {absent.reason}\n{absent.trace}"
        if absent.trace:  # it crashed
            notes.failures.append(told)
        else:
            typer.echo(told)
