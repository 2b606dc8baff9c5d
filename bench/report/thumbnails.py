"""Draw the small pictures of a page: of videos, and of images, even damaged ones as far as they can be decoded."""

import base64
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageFile, ImageOps

from bench.compare.photographs import encode
from dali_pipes.errors import DecodeError, error_text
from dali_pipes.preview.pictures import Picture
from readers import BadSample, HeaderError, ReadersError, Sample, read_header
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.lerobot.frame_batch import value_or_raise
from readers.formats.stream import TarStream
from readers.sample import Dataset, Payload
from readers.video import VideoError
from readers.video.frame_folder import FrameFolderDataset

SIDE = 168
"""Largest height and width of a thumbnail, in pixels."""

_MAX_PIXELS = 100_000_000  # the loader's default
_QUALITY = 62  # WebP quality: about 5 kB per picture
_SMALL = 96  # pixels; pictures smaller than half of this are enlarged
_LOCK = threading.Lock()  # Pillow's settings are global to the process


@dataclass(frozen=True)
class Thumbnail:
    """A small picture, or the reason why it could not be drawn.

    Attributes:
        source: A data URI of a WebP file; "" without a picture.
        height: Height of the picture in pixels.
        width: Width of the picture in pixels.
        fault: The reason why the picture is missing; "" with a picture.
    """

    source: str = ""
    height: int = 0
    width: int = 0
    fault: str = ""

    @property
    def scale(self) -> int:
        """Factor by which the page enlarges the picture, so that each pixel of a tiny picture is visible."""
        return max(1, _SMALL // max(self.height, self.width, 1))


def thumbnail_of_file(data: Payload, draw: Callable[[Picture], Picture] | None = None) -> Thumbnail:
    """Return a thumbnail of an encoded image; missing parts of a damaged image are gray or black.

    Args:
        data: The encoded bytes.
        draw: A function that draws on the full picture, uint8 [height, width, 3], before it is shrunk.
    """
    try:
        header = read_header(data)
    except HeaderError as error:
        return Thumbnail(fault=str(error))
    if header.height * header.width > _MAX_PIXELS:
        return Thumbnail(fault=f"{header.height}x{header.width} pixels are too many to look at")
    if header.format == "npy":
        return Thumbnail(fault="an array of NumPy's is not drawn here")
    try:
        with _tolerant(), Image.open(io.BytesIO(data)) as image:
            if draw is None:
                image.draft("RGB", (2 * SIDE, 2 * SIDE))
            upright = _rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # noqa: BLE001 - Pillow's readers let through what damaged bytes make of them
        return Thumbnail(fault=error_text(error))
    return _shrunk(upright if draw is None else Image.fromarray(draw(np.asarray(upright))))


def first_frame(dataset: Dataset | TarStream, sample: Sample) -> Thumbnail:
    """Return a thumbnail of a video's first frame or, for a robot's sample, of its own frame from the first camera.

    Args:
        dataset: The dataset of the sample.
        sample: A sample with a video, or a folder of frames.
    """
    from dali_pipes.video.decode import decode_frames
    from readers.video.scan import scan_video

    try:
        if isinstance(dataset, FrameFolderDataset):
            [picture] = dataset.fetch_frames(sample.index, [0])
            if isinstance(picture, BadSample):
                return Thumbnail(fault=picture.reason)
            return thumbnail_of_file(picture)
        if sample.video is None:
            return Thumbnail(fault="it has no video")
        frame = 0
        if isinstance(dataset, LeRobotDataset):
            [shown] = dataset.camera(0).shown(dataset.batch([sample.index]))
            info, frames = value_or_raise(shown)
            frame = int(frames[-1])
        else:
            info = scan_video(sample.video)
        decoded = decode_frames(bytes(sample.video), info, np.array([frame]))
        return _shrunk(Image.fromarray(decoded[frame]))
    except (VideoError, DecodeError, ReadersError, OSError) as error:
        return Thumbnail(fault=error_text(error))


def _shrunk(image: Image.Image) -> Thumbnail:
    """Return a thumbnail of an RGB picture."""
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    encoded = encode(image, format="webp", quality=_QUALITY, method=4)
    text = base64.b64encode(encoded).decode("ascii")
    return Thumbnail(f"data:image/webp;base64,{text}", image.height, image.width)


@contextmanager
def _tolerant() -> Iterator[None]:
    """Let Pillow return partial images of truncated files, and allow as many pixels as the loader does."""
    module: Any = ImageFile
    with _LOCK:
        before = module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
        module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = True, _MAX_PIXELS
        try:
            yield
        finally:
            module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = before


def _rgb(image: Image.Image) -> Image.Image:
    """Convert to RGB of 8 bits; deeper images are stretched to their range, so that dark ones are visible."""
    if image.mode.startswith("I") or image.mode == "F":
        pixels = np.asarray(image, np.float32)
        low, high = float(pixels.min()), float(pixels.max())
        pixels = (pixels - low) * (255 / max(high - low, 1e-9))
        image = Image.fromarray(pixels.astype(np.uint8))
    return image.convert("RGB")
