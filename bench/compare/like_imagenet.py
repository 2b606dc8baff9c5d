"""``python -m bench.compare.like_imagenet SOURCE OUT``: make photographs like those of ImageNet from larger ones.

ImageNet's photographs have 0.2 megapixels and 110 kB on average. A third of the output has full colour resolution, and
progressive JPEGs stay progressive.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from PIL import Image, ImageOps

from bench.compare.photographs import encode
from bench.output import errors

_PIXELS = 200_000
_MOST_BYTES = 130_000
_QUALITIES = range(50, 99)


def make_like_imagenet(source: Path, out: Path) -> int:
    """Write a smaller JPEG for each JPEG of a folder that is large enough; a source always gives equal files.

    Args:
        source: A folder of JPEGs, at any depth.
        out: Receives one file for each RGB photograph of at least 0.2 megapixels, scaled to that size, with the highest
            quality from 50 to 98 at which it takes at most 130 kB.

    Returns:
        The count of files.

    Raises:
        BenchError: No photograph of the folder is large enough.
    """
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    for number, path in enumerate(sorted(source.rglob("*.jpg"))):
        with Image.open(path) as opened:
            if opened.mode != "RGB" or opened.width * opened.height < _PIXELS:
                continue
            options = {
                "format": "JPEG",
                "subsampling": "4:4:4" if number % 3 == 2 else "4:2:0",
                "progressive": bool(opened.info.get("progressive")),
            }
            scale = (_PIXELS / (opened.width * opened.height)) ** 0.5
            small = ImageOps.scale(opened, scale, Image.Resampling.LANCZOS)
        name = "_".join(path.relative_to(source).parts)
        (out / name).write_bytes(_largest(small, options))
        count += 1
    if not count:
        raise errors.BenchError(
            f"{source} has no RGB JPEG of {_PIXELS} pixels or more: give a folder of photographs"
        )
    return count


def _largest(image: Image.Image, options: Mapping[str, Any]) -> bytes:
    """Return a JPEG of the highest quality that fits the size limit, or of the lowest quality if none fits."""
    # The search starts after the lowest quality, which is used whatever its size.
    num_fitting = bisect_right(
        _QUALITIES,
        _MOST_BYTES,
        lo=1,
        key=lambda quality: len(encode(image, quality=quality, **options)),
    )
    return encode(image, quality=_QUALITIES[num_fitting - 1], **options)


def digest(folder: Path) -> str:
    """Return a digest of the names and bytes of a folder's files, to distinguish sets of photographs.

    Returns:
        The first 32 hexadecimal digits of a SHA-256.
    """
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:32]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Annotated[Path, typer.Argument(help="A folder of JPEGs.")],
    out: Annotated[Path, typer.Argument(help="The folder that gets the photographs.")],
) -> None:
    """Make photographs of ImageNet's size and weight of larger ones."""
    typer.echo(f"{make_like_imagenet(source, out)} photographs in {out}, digest {digest(out)}")


if __name__ == "__main__":
    errors.call(app)
