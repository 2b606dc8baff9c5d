"""Small pictures within a page: of images, also damaged ones as far as they can be decoded, and of videos."""

import base64
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from dali_pipes.errors import DecodeError, told
from dali_pipes.preview.pictures import Picture
from readers import BadSample, HeaderError, ReadersError, Sample, read_header
from readers.formats.lerobot.dataset import LeRobotDataset
from readers.formats.stream import TarStream
from readers.sample import Dataset, Payload
from readers.video import VideoError, VideoInfo
from readers.video.frame_folder import FrameFolderDataset

SIDE = 168
"""The largest height and width of a small picture, in pixels."""

_MAX_PIXELS = 100_000_000  # as for the loader
_QUALITY = 62
_SMALL = 96  # pixels; pictures of less than half of it are shown larger
_LOCK = threading.Lock()  # Pillow's setting is one of the process


@dataclass(frozen=True)
class Thumbnail:
    """A small picture, or why there is none.

    Attributes:
        source: A data URI of a WebP file; "" where there is none.
        height: In pixels.
        width: In pixels.
        fault: Why there is none; "" where there is one.
    """

    source: str = ""
    height: int = 0
    width: int = 0
    fault: str = ""

    @property
    def _times(self) -> int:
        return max(1, _SMALL // max(self.height, self.width, 1))

    @property
    def shown_height(self) -> int:
        """Height on the page; pictures of a few pixels are enlarged so that each pixel is seen."""
        return self._times * self.height

    @property
    def shown_width(self) -> int:
        """Width on the page."""
        return self._times * self.width


def thumbnail_of_file(data: Payload, draw: Callable[[Picture], Picture] | None = None) -> Thumbnail:
    """Shrink an encoded image. What is missing of a damaged one is gray or black, as Pillow leaves it.

    Args:
        data: The encoded bytes.
        draw: Draws on the whole picture, uint8 [height, width, 3], before it is shrunk.
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
        return Thumbnail(fault=told(error))
    if draw is not None:
        upright = Image.fromarray(draw(np.asarray(upright)))
    return thumbnail_of(upright)


def thumbnail_of(image: Image.Image) -> Thumbnail:
    """Shrink a picture, RGB."""
    image = image.copy()
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "webp", quality=_QUALITY, method=4)
    text = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Thumbnail(f"data:image/webp;base64,{text}", image.height, image.width)


@contextmanager
def _tolerant() -> Iterator[None]:
    """Let Pillow give what it has of files that end too early, and take as many pixels as the loader does."""
    module: Any = ImageFile
    with _LOCK:
        kept = module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS
        module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = True, _MAX_PIXELS
        try:
            yield
        finally:
            module.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = kept


def _rgb(image: Image.Image) -> Image.Image:
    """Eight bits of three channels; of more bits those that differ, so that dark ones are seen."""
    if image.mode.startswith("I") or image.mode == "F":
        pixels = np.asarray(image, np.float32)
        low, high = float(pixels.min()), float(pixels.max())
        pixels = (pixels - low) * (255 / max(high - low, 1e-9))
        image = Image.fromarray(pixels.astype(np.uint8))
    return image.convert("RGB")


def first_frame(dataset: Dataset | TarStream, sample: Sample) -> Thumbnail:
    """Draw the first frame of a video; of a robot's sample the frame that it is, by the first camera.

    Args:
        dataset: Where the sample is from.
        sample: With a video, or a folder of frames.
    """
    try:
        if isinstance(dataset, FrameFolderDataset):
            [picture] = dataset.fetch_frames(sample.index, [0])
            if isinstance(picture, BadSample):
                return Thumbnail(fault=picture.reason)
            return thumbnail_of_file(picture)
        data = sample.video
        if data is None:
            return Thumbnail(fault="it has no video")
        info, frame = _frame_of(dataset, sample)
        return thumbnail_of(Image.fromarray(_decoded(bytes(data), info, frame)))
    except (VideoError, DecodeError, ReadersError, OSError) as error:
        return Thumbnail(fault=told(error))


def _frame_of(dataset: Dataset | TarStream, sample: Sample) -> tuple[VideoInfo, int]:
    from readers.video.scan import scan_video

    if isinstance(dataset, LeRobotDataset):
        info, frames = dataset.camera(0).shown(dataset.place(sample.index))
        return info, int(frames[-1])
    assert sample.video is not None
    return scan_video(sample.video), 0


def _decoded(data: bytes, info: VideoInfo, frame: int) -> NDArray[np.uint8]:
    from dali_pipes.video.decode import decode_frames

    return decode_frames(data, info, np.array([frame]))[frame]
