"""Step: parts cut out of tiled JPEGs on the GPU's decoders."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_visit.decode import DaliDecoder, NvImageCodec, backends
from bench.gpu_visit.flow import flow_rate
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, Size
from dali_pipes.jpeg.tiling.cut import cut_many
from dali_pipes.jpeg.tiling.tile import add_restarts
from gpu_aug import RandomResizedCrop, Recipe
from readers.image.restarts import restart_offsets

_SHARES = (0.5, 0.25)  # of each side
_DALIS_LOAD = 0.65  # its own default


def tiles(scale: Scale, data: Path, notes: Notes) -> None:
    """Are restart markers accepted, are the pixels the same, and does the time fall with the window?"""
    rng = np.random.default_rng(0)
    codecs: dict[str, NvImageCodec] = {}
    for size, (count, batch_sizes) in scale.pictures.items():
        plain = photographs(data, size, count)
        tiled = [add_restarts(part) for part in plain]
        grown = round(sum(map(len, tiled)) / sum(map(len, plain)), 4)
        for kind in _kinds(scale):
            with notes.attempt(f"{_name(size)} restart markers, {kind}") as row:
                row["size"] = grown
                row |= _same(_codec(codecs, kind, scale), plain[:4], tiled[:4])
        batch_size = min(batch_sizes[-1], count)
        for part, encoded in _parts(size, plain[:batch_size], tiled[:batch_size], rng).items():
            share_of_bytes = sum(map(len, encoded)) / sum(map(len, tiled[:batch_size]))
            for kind in (*_kinds(scale), "DALI"):
                with notes.attempt(f"{_name(size)} {part}, {kind}") as row:
                    row["share_of_bytes"] = round(share_of_bytes, 3)
                    row |= _measured(kind, encoded, codecs, scale)
                    whole = notes.found.get(f"{_name(size)} plain, {kind}", row)
                    if "images_per_second" in whole:
                        times = row["images_per_second"] / whole["images_per_second"]
                        row["times_plain"] = round(times, 2)
    notes.put(headline=_headline(notes, scale))


def _kinds(scale: Scale) -> list[str]:
    return [kind for kind in backends(scale) if kind not in ("HYBRID_CPU_GPU", "adaptive")]


def _codec(codecs: dict[str, NvImageCodec], kind: str, scale: Scale) -> NvImageCodec:
    """Each is made once; who can not be made fails again in every row of its own."""
    if kind not in codecs:
        codecs[kind] = NvImageCodec(kind, scale)
    return codecs[kind]


def _parts(
    size: Size, plain: list[bytes], tiled: list[bytes], rng: np.random.Generator
) -> dict[str, list[Any]]:
    """The same photographs whole, with restart markers, and cut to windows of several sizes."""
    offsets = [restart_offsets(part) for part in tiled]
    windows = {f"cut {share}": _windows(size, share, len(tiled), rng) for share in _SHARES}
    windows["cut RandomResizedCrop"] = _random_resized_crops(size, len(tiled))
    cuts = {name: list(cut_many(tiled, where, offsets).data) for name, where in windows.items()}
    return {"plain": list(plain), "tiled": list(tiled), **cuts}


def _measured(
    kind: str, encoded: list[Any], codecs: dict[str, NvImageCodec], scale: Scale
) -> dict[str, Any]:
    num, seconds = len(encoded), scale.seconds / 2
    if kind != "DALI":
        decode = _codec(codecs, kind, scale)
        streams = decode.parsed(encoded)
        return flow_rate(partial(decode, streams), num, seconds, scale.device, discard=1)
    load = _DALIS_LOAD if scale.on_gpu else None
    options = {"hw_decoder_load": load, "jpeg_fancy_upsampling": True}
    pipeline = DaliDecoder(encoded, num, scale, options)
    return flow_rate(pipeline.run, num, seconds, scale.device, discard=4)


def _same(decode: NvImageCodec, plain: list[bytes], tiled: list[bytes]) -> dict[str, Any]:
    """Whether files with restart markers are taken: a refusal is an answer, other pixels are an error.

    Raises:
        AssertionError: They are decoded to other pixels; or other photographs to the same ones.
    """
    whole = [np.asarray(image.cpu()).astype(np.int16) for image in decode(plain)]
    try:
        marked = [np.asarray(image.cpu()).astype(np.int16) for image in decode(tiled)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"restart markers": f"refused: {type(error).__name__}: {str(error)[:200]}"}
    gap = max(int(np.abs(a - b).max()) for a, b in zip(whole, marked, strict=True))
    shifted = [*marked[1:], marked[0]]
    control = max(int(np.abs(a - b).max()) for a, b in zip(whole, shifted, strict=True))
    if gap or not control:
        raise AssertionError(
            f"with restart markers pixels differ by up to {gap}/255, 0 was expected; other "
            f"photographs by {control}, more than 0 was expected"
        )
    return {"restart markers": "accepted", "largest_difference": gap, "control": control}


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


def _headline(notes: Notes, scale: Scale) -> str:
    """What each backend answers, and by how much a cut to half of each side is faster than the whole."""
    parts = []
    for kind in (*_kinds(scale), "DALI"):
        answers = {
            row.get("restart markers", row.get("error", ""))
            for name, row in notes.found.items()
            if name.endswith(f"restart markers, {kind}")
        }
        speeds = [
            f"{_name(size)} {_told(notes, size, 'cut 0.5', kind)} (as RandomResizedCrop "
            f"{_told(notes, size, 'cut RandomResizedCrop', kind)})"
            for size in scale.pictures
        ]
        taken = f"restart markers {' / '.join(sorted(answers))}, " if answers else ""
        parts.append(
            f"{kind}: {taken}half of each side is as fast as the whole times {', '.join(speeds)}"
        )
    return "; ".join(parts)


def _told(notes: Notes, size: Size, part: str, kind: str) -> str:
    row = notes.found[f"{_name(size)} {part}, {kind}"]
    return str(row.get("times_plain", "error" if "error" in row else "?"))


def _name(size: Size) -> str:
    return f"{size[1]}x{size[0]}"
