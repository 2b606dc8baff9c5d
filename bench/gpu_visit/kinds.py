"""Step: images of every kind through the loader, beside Pillow's pixels."""

import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from bench.gpu_visit.decode import DaliDecoder
from bench.gpu_visit.loop import write_files
from bench.gpu_visit.photographs import photographs
from bench.gpu_visit.scale import Notes, Scale, Size
from dali_pipes import Loader
from dali_pipes.decode.dali.graph import suits_dali
from gpu_aug import CenterCrop, Recipe
from readers import open_dataset

Pixels = NDArray[np.uint8]
"""uint8 [height, width, 3]."""

MOST, MEAN = 4, 1.0
"""What a GPU's JPEG decoder may differ by from Pillow, of 255: at most, and less than so much on average."""

_COPIES = 4  # so that DALI shares a kind between the JPEG engine and its kernels
_LOADS = (0.0, 1.0)  # shares for the JPEG engine
_SAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1")


@dataclass(frozen=True)
class Kind:
    """An image of some kind.

    Attributes:
        ending: Of its name, with the dot.
        encoded: The file.
    """

    ending: str
    encoded: bytes

    @property
    def is_for_dali(self) -> bool:
        """Whether our loader leaves it to DALI; it decodes others on the CPU."""
        return suits_dali(self.encoded)


def kinds(scale: Scale, data: Path, notes: Notes) -> None:
    """DALI's pixels against Pillow's: within 4/255, and below 1/255 on average; exact what the CPU decodes."""
    groups: dict[Size, dict[str, Kind]] = {}
    for name, make in makers(data, scale).items():
        with notes.attempt(name) as row:
            kind = make()
            size = upright(kind.encoded).shape
            groups.setdefault((size[0], size[1]), {})[name] = kind
            row["height, width"], row["bytes"] = size[:2], len(kind.encoded)
            row["decoded by"] = "DALI" if kind.is_for_dali else "the CPU"
    for size, group in groups.items():
        notes.put(**{"under way": f"{', '.join(group)}, {size[1]}x{size[0]}"})  # should it crash
        with notes.attempt(f"loader of {size[1]}x{size[0]}"):
            _judge_all(group, size, scale, notes)
    notes.put(**{"under way": None})
    found = {name: row for name, row in notes.found.items() if isinstance(row, dict)}
    rows = [row for row in found.values() if "max" in row]
    bad = [name for name, row in found.items() if "error" in row]
    mine = [row["max"] for row in rows if row["decoded by"] == "DALI"]
    notes.put(
        headline=f"{len(rows)} kinds; DALI's differ by at most {max(mine, default=-1)}/255; "
        f"wrong: {', '.join(bad) or 'none'}"
    )


def _judge_all(group: dict[str, Kind], size: Size, scale: Scale, notes: Notes) -> None:
    """Judge the images of one size, one by one where DALI refuses them together."""
    loaded = load(group, size, scale)
    if loaded.refusals and len(group) > 1:
        for name, kind in group.items():
            _judge_all({name: kind}, size, scale, notes)
        return
    for name, kind in group.items():
        row = notes.found[name]
        with notes.attempt(name) as judged:
            judged |= row
            judged |= {"refused": loaded.refusals} if loaded.refusals else {}
            judge(kind, loaded.images[name], judged, scale)
            assert not loaded.refusals, f"DALI refuses it: {loaded.refusals}"


def makers(data: Path, scale: Scale) -> dict[str, Callable[[], Kind]]:
    """The kinds by name, and how to make one of a photograph."""
    picture = _picture(data, (240, 320))
    odd = _picture(data, (241, 317))
    large = (4000, 6000) if scale.on_gpu else (400, 600)
    made: dict[str, Callable[[], Kind]] = {
        "ordinary": lambda: _pillow(picture),
        "quality 30": lambda: _pillow(picture, quality=30),
        "progressive": lambda: _pillow(picture, progressive=True),
        "progressive, 4:4:4": lambda: _pillow(picture, progressive=True, subsampling="4:4:4"),
        "CMYK": lambda: _pillow(picture, mode="CMYK"),
        "grey": lambda: _pillow(picture, mode="L"),
        "restart markers": lambda: _pillow(picture, restart_marker_blocks=5),
        "optimised tables": lambda: _pillow(picture, optimize=True),
        "RGB components": lambda: _pillow(picture, keep_rgb=True),
        "odd size": lambda: _pillow(odd),
        "odd size, progressive": lambda: _pillow(odd, progressive=True),
        "one pixel": lambda: _pillow(picture[:1, :1]),
        "one row": lambda: _pillow(picture[:1]),
        "one column": lambda: _pillow(picture[:, :1]),
        "24 megapixels": lambda: _pillow(_picture(data, large)),
    }
    for sampling in _SAMPLINGS:
        made[sampling] = lambda sampling=sampling: _opencv(picture, sampling)  # type: ignore[misc]
        made[f"{sampling}, odd size"] = lambda sampling=sampling: _opencv(odd, sampling)  # type: ignore[misc]
    for turn in range(1, 9):
        made[f"EXIF {turn}"] = lambda turn=turn: _turned(odd, turn)  # type: ignore[misc]
    return made | {
        "PNG": lambda: _pillow(picture, ".png"),
        "PNG, palette": lambda: _pillow(picture, ".png", mode="P"),
        "PNG, 16 bits": lambda: _png_of_16_bits(picture),
        "PNG, alpha": lambda: _with_alpha(picture, ".png"),
        "WebP": lambda: _pillow(picture, ".webp"),
        "WebP, lossless": lambda: _pillow(picture, ".webp", lossless=True),
        "TIFF": lambda: _pillow(picture, ".tiff"),
        "BMP": lambda: _pillow(picture, ".bmp"),
    }


@dataclass
class Loaded:
    """What our loader made of images.

    Attributes:
        images: Several for each name; none where the loader called it bad.
        refusals: The loader's warnings that DALI refused a batch whose images all decode.
    """

    images: dict[str, list[Pixels]]
    refusals: list[str]


def load(group: dict[str, Kind], size: Size, scale: Scale) -> Loaded:
    """Load images of one size, several times each, by a recipe that changes no pixel."""
    copies = _COPIES if size[0] * size[1] < 10**7 else 2
    files = {
        f"{number:03d}-{copy}{kind.ending}": kind.encoded
        for number, kind in enumerate(group.values())
        for copy in range(copies)
    }
    options: dict[str, Any] = {"batch_size": len(files), "shuffle": "none", "engine": "fused"}
    options |= {"decoder": "dali", "device": scale.device, "dtype": torch.uint8}
    options |= {"on_bad_sample": "skip", "max_bad_samples": len(files)}
    loaded = Loaded({name: [] for name in group}, [])
    names = [name for name in group for _ in range(copies)]
    with TemporaryDirectory() as root, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        folder = write_files(Path(root) / "kinds", files)
        with Loader(open_dataset(folder), Recipe([CenterCrop(size)]), **options) as loader:
            [batch] = loader
            images = batch.images.permute(0, 2, 3, 1).cpu().numpy()
            for index, image in zip(batch.indices.tolist(), images, strict=True):
                loaded.images[names[index]].append(image)
    loaded.refusals += [str(one.message)[-300:] for one in said if "DALI" in str(one.message)]
    return loaded


def judge(kind: Kind, decoded: list[Pixels], row: dict[str, Any], scale: Scale) -> None:
    """Fill in a row.

    Raises:
        AssertionError: Too far from Pillow, or the negative control is not noticed.
    """
    assert decoded, "the loader calls it bad"
    expected = upright(kind.encoded)
    found = [distance(image, expected) for image in decoded]
    row["max"], row["mean"] = max(most for most, _ in found), max(mean for _, mean in found)
    row["copies differ"] = len({image.tobytes() for image in decoded}) > 1
    allowed = (MOST, MEAN) if kind.is_for_dali else (0, 0.0)
    row["allowed"] = list(allowed)
    if not is_near((row["max"], row["mean"]), allowed):
        row |= dict(_by_load(kind, expected, scale))
        where = "DALI" if kind.is_for_dali else "the CPU"
        raise AssertionError(
            f"{where} differs from Pillow by {row['max']}, {row['mean']:.3f} on average, allowed "
            f"{allowed}; DALI alone: { ({name: row[name] for name in row if name.startswith('load')}) }"
        )
    shifted = np.roll(expected, 1, axis=0 if expected.shape[0] > 1 else 1)
    row["control"] = distance(decoded[0], shifted)
    if expected.shape[:2] != (1, 1) and is_near(row["control"], allowed):
        raise AssertionError(f"control: a shift by one pixel is not noticed: {row['control']}")


def is_near(found: tuple[float, float], allowed: tuple[float, float]) -> bool:
    """Whether a largest and a mean difference are within what is allowed."""
    return found[0] <= allowed[0] and (found[1] < allowed[1] or found == (0, 0.0))


def distance(image: Pixels, expected: Pixels) -> tuple[int, float]:
    """Largest and mean difference, of 255."""
    gap = np.abs(image.astype(np.int16) - expected)
    return int(gap.max()), float(gap.mean())


def upright(encoded: bytes) -> Pixels:
    """What Pillow makes of a file, EXIF's orientation applied."""
    with Image.open(io.BytesIO(encoded)) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I"):  # 16 bits: convert() would cut them off at 255
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return np.asarray(image.convert("RGB"))


def _by_load(kind: Kind, expected: Pixels, scale: Scale) -> Iterator[tuple[str, Any]]:
    """What DALI alone gives, by the share of the JPEG engine."""
    for load_ in _LOADS if scale.on_gpu else (None,):
        options = {"hw_decoder_load": load_, "jpeg_fancy_upsampling": True}
        try:
            decoder = DaliDecoder([kind.encoded] * 2, 2, scale, options)
            image = np.asarray(decoder.run()[0].as_cpu()[0])
            yield f"load {load_}", distance(image, expected)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            yield f"load {load_}", f"{type(error).__name__}: {str(error)[-200:]}"


def _picture(data: Path, size: Size) -> Pixels:
    [encoded] = photographs(data, size, 1)
    return upright(encoded)


def _pillow(picture: Pixels, ending: str = ".jpg", mode: str = "RGB", **options: Any) -> Kind:
    image = Image.fromarray(picture)
    image = image.quantize(64) if mode == "P" else image.convert(mode)
    stream = io.BytesIO()
    usual = {"quality": 90} if ending in (".jpg", ".webp") else {}
    image.save(stream, Image.registered_extensions()[ending], **{**usual, **options})
    return Kind(ending, stream.getvalue())


def _opencv(picture: Pixels, sampling: str) -> Kind:
    """A JPEG of a sampling that Pillow does not write."""
    import cv2

    factor = getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{sampling.replace(':', '')}")
    options = [cv2.IMWRITE_JPEG_QUALITY, 90, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, factor]
    _, encoded = cv2.imencode(".jpg", np.ascontiguousarray(picture[..., ::-1]), options)
    return Kind(".jpg", encoded.tobytes())


def _turned(picture: Pixels, orientation: int) -> Kind:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return _pillow(picture, exif=exif)


def _png_of_16_bits(picture: Pixels) -> Kind:
    """Every value is one that all ways to 8 bits make the same of."""
    import cv2

    wide = np.ascontiguousarray(picture[..., ::-1]).astype(np.uint16) * 257
    _, encoded = cv2.imencode(".png", wide)
    return Kind(".png", encoded.tobytes())


def _with_alpha(picture: Pixels, ending: str) -> Kind:
    alpha = np.arange(picture.shape[1], dtype=np.uint8)[None, :, None]
    full = np.concatenate([picture, np.broadcast_to(alpha, (*picture.shape[:2], 1))], axis=2)
    stream = io.BytesIO()
    Image.fromarray(full).save(stream, Image.registered_extensions()[ending])
    return Kind(ending, stream.getvalue())
