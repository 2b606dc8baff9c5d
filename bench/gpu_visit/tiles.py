"""Step: parts cut out of tiled JPEGs on the GPU's decoders."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_visit.decode import DaliDecoder, NvImageCodec, backends
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, rate
from dali_pipes.tiling.cut import cut_many
from dali_pipes.tiling.tile import add_restarts
from gpu_aug import RandomResizedCrop, Recipe
from readers.restarts import restart_offsets

_SHARES = (1.0, 0.7, 0.5, 0.25, 0.1)  # of each side


def tiles(scale: Scale, data: Path, notes: Notes) -> None:
    """Are restart markers accepted, are the pixels the same, and does the time fall with the window?"""
    rng = np.random.default_rng(0)
    for size, (count, batch_sizes) in scale.pictures.items():
        plain = photographs(data, size, count)
        tiled = [add_restarts(part) for part in plain]
        offsets = [restart_offsets(part) for part in tiled]
        grown = round(sum(map(len, tiled)) / sum(map(len, plain)), 4)
        with notes.attempt(f"{size} restart markers") as row:
            row["size"] = grown
            for kind in backends(scale):
                row[kind] = _same(kind, plain[:4], tiled[:4], scale)
        batch_size = min(batch_sizes[-1], count)
        parts: dict[str, Any] = {"plain": plain[:batch_size], "tiled": tiled[:batch_size]}
        for share in _SHARES:
            windows = _windows(size, share, batch_size, rng)
            parts[f"cut {share}"] = cut_many(tiled[:batch_size], windows, offsets[:batch_size]).data
        windows = _random_resized_crops(size, batch_size)
        parts["cut RandomResizedCrop"] = cut_many(tiled[:batch_size], windows, offsets[:batch_size]).data  # fmt: skip
        for name, encoded in parts.items():
            share_of_bytes = round(sum(map(len, encoded)) / sum(map(len, parts["tiled"])), 3)
            _measure(f"{size[1]}x{size[0]} {name}", encoded, share_of_bytes, scale, notes)
    notes.put(headline=_headline(notes))


def _measure(
    name: str, encoded: list[Any], share_of_bytes: float, scale: Scale, notes: Notes
) -> None:
    kinds = [kind for kind in backends(scale) if kind != "HYBRID_CPU_GPU"]
    for kind in kinds:
        with notes.attempt(f"{name}, {kind}") as row:
            row["bytes"] = share_of_bytes
            decode = NvImageCodec(kind, scale)
            row |= rate(partial(decode, encoded), len(encoded), scale)
    for load in (0.65, 1.0) if scale.on_gpu else (None,):
        with notes.attempt(f"{name}, DALI load {load}") as row:
            row["bytes"] = share_of_bytes
            options = {"hw_decoder_load": load, "jpeg_fancy_upsampling": True}
            pipeline = DaliDecoder(encoded, len(encoded), scale, options)
            row |= rate(pipeline.run, len(encoded), scale, warm_up=3)


def _same(kind: str, plain: list[bytes], tiled: list[bytes], scale: Scale) -> str:
    try:
        decode = NvImageCodec(kind, scale)
        pairs = zip(decode(plain), decode(tiled), strict=True)
        gaps = [
            int(np.abs(np.asarray(a.cpu()).astype(int) - np.asarray(b.cpu())).max())
            for a, b in pairs
        ]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"
    return f"accepted, largest difference {max(gaps)}"


def _windows(
    size: tuple[int, int], share: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Windows of a share of each side, int32 [count, 4]."""
    shape = np.maximum(np.round(np.array(size) * share), 1).astype(int)
    starts = rng.integers(0, np.array(size) - shape + 1, (count, 2))
    return np.concatenate([starts, np.tile(shape, (count, 1))], axis=1).astype(np.int32)


def _random_resized_crops(size: tuple[int, int], count: int) -> np.ndarray:
    sizes = np.tile(np.array(size, np.int64), (count, 1))
    windows = Recipe([RandomResizedCrop(224)]).draw(0, 0, np.arange(count), sizes).windows
    return np.concatenate([windows.start, windows.shape], axis=1).astype(np.int32)


def _headline(notes: Notes) -> str:
    answers = [row for name, row in notes.found.items() if name.endswith("restart markers")]
    hardware = answers[0].get("HW_GPU_ONLY", "no JPEG engine here") if answers else ""
    speeds = {name: row.get("images_per_second") for name, row in notes.found.items()}
    crops = [f"{name}: {speed}" for name, speed in speeds.items() if "RandomResizedCrop" in name]
    return f"hardware: {hardware}; " + "; ".join(crops[:2])
