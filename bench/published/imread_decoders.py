"""The contestants of `bench published imread`: each decodes JPEGs in a process of its own.

Environments of other libraries import this module, so it imports only NumPy and Pillow before a contestant starts.
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.compare.contract import Pipeline, Unable

Pixels = NDArray[np.uint8]
Protocol = Literal["decode-memory", "loader-supply"]

TOLERANCE = 2.0
"""Largest mean difference from Pillow in levels of 0 to 255: other rounding, inverse transforms and interpolation of
colours stay below 1, swapped channels of photographs are far above."""

BATCH_SIZE = 32
"""Images in a batch of loader-supply, as in the original."""

_NUM_AHEAD = 2  # batches that each worker of a DataLoader prepares: torch's default
_EPOCH = 200_000  # more images than a run needs, so that no epoch ends during it


@dataclass(frozen=True)
class DecodeTask:
    """JPEGs in memory, and how they are decoded.

    Attributes:
        files: The bytes of each file.
        crops: For each file top, left, height and width of a random crop.
        protocol: "decode-memory" decodes one file after another; "loader-supply" in a DataLoader's workers.
        num_workers: Count of workers of the DataLoader.
        folder: A folder with the same files, for our Loader.
    """

    files: tuple[bytes, ...]
    crops: tuple[tuple[int, int, int, int], ...]
    protocol: Protocol
    num_workers: int
    folder: str

    # What a contestant's process asks of every task; torch's device would have to import torch.
    plan = None
    device = SimpleNamespace(type="cpu")
    batch_size = BATCH_SIZE

    def check_batch(self, batch: Any) -> None:
        """Raise unless the images of a batch are those of Pillow, or the crops of them, in the order of the files.

        Raises:
            Unable: An image is wrong; the message says how.
        """
        for number, image in enumerate(batch):
            file = number % len(self.files)
            expected = decode_with_pillow(self.files[file])
            top, left, height, width = self.crops[file]
            if image.shape[:2] == (height, width):
                expected = expected[top : top + height, left : left + width]
            if image.shape != expected.shape or image.dtype != np.uint8:
                raise Unable(f"made {image.dtype} {image.shape}, not uint8 {expected.shape}")
            if not image.flags.c_contiguous:
                raise Unable("its array is not C-contiguous")
            difference = float(np.abs(image.astype(np.int16) - expected).mean())
            if not difference <= TOLERANCE:
                raise Unable(
                    f"differs from Pillow by {difference:.1f} of 255 on average, more than {TOLERANCE:.0f}"
                )


def decode_with_pillow(data: bytes) -> Pixels:
    """Return the pixels of a file as Pillow decodes them, uint8 [height, width, 3]."""
    from PIL import Image

    with Image.open(BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _with_opencv() -> Callable[[bytes], Any]:
    import cv2

    cv2.setNumThreads(1)
    return lambda data: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)


def _with_jpeg4py() -> Callable[[bytes], Any]:
    try:
        import jpeg4py

        jpeg4py.JPEG(np.zeros(1, np.uint8))
    except OSError:
        raise Unable("needs the system library libturbojpeg: apt install libturbojpeg0") from None
    return lambda data: jpeg4py.JPEG(np.frombuffer(data, np.uint8)).decode()


def _with_turbojpeg() -> Callable[[bytes], Any]:
    import turbojpeg

    try:
        decoder = turbojpeg.TurboJPEG()
    except RuntimeError:
        raise Unable("needs the system library libturbojpeg: apt install libturbojpeg0") from None
    return partial(decoder.decode, pixel_format=turbojpeg.TJPF_RGB)


def _with_pyvips() -> Callable[[bytes], Any]:
    os.environ["VIPS_CONCURRENCY"] = "1"  # read when the library is loaded
    import pyvips

    return lambda data: pyvips.Image.new_from_buffer(data, "", access="sequential").numpy()


def _with_skimage() -> Callable[[bytes], Any]:
    import skimage.io

    return lambda data: skimage.io.imread(BytesIO(data))


def _with_tensorflow() -> Callable[[bytes], Any]:
    import tensorflow

    tensorflow.config.threading.set_intra_op_parallelism_threads(1)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    return lambda data: tensorflow.io.decode_jpeg(data, channels=3).numpy()


def _with_torchvision() -> Callable[[bytes], Any]:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    torch.set_num_threads(1)

    def decode(data: bytes) -> Any:
        image = decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
        return np.ascontiguousarray(image.permute(1, 2, 0).numpy())

    return decode


def _function(name: str, **options: object) -> Callable[[], Callable[[bytes], Any]]:
    return lambda: partial(resolve_name(name), **options)


LIBRARIES: Mapping[str, Callable[[], Callable[[bytes], Any]]] = {
    "Pillow": lambda: decode_with_pillow,
    "ajpegli": _function("ajpegli:imdecode", mode="RGB"),
    "imagecodecs": _function("imagecodecs:jpeg8_decode"),
    "imageio": _function("imageio.v3:imread"),
    "jpeg4py": _with_jpeg4py,
    "kornia-rs": _function("kornia_rs.io:decode_image_jpeg"),
    "OpenCV": _with_opencv,
    "PyTurboJPEG": _with_turbojpeg,
    "pyvips": _with_pyvips,
    "scikit-image": _with_skimage,
    "simplejpeg": _function("simplejpeg:decode_jpeg", colorspace="RGB"),
    "TensorFlow": _with_tensorflow,
    "torchvision": _with_torchvision,
}
"""By name: a function that imports the library and returns its decoder."""


def start(task: DecodeTask, *, library: str) -> Pipeline:
    """Start a library's decoder."""
    if library == "TensorFlow" and task.protocol == "loader-supply":
        raise Unable("takes no part in the original's DataLoader: its users have tf.data")

    def make() -> Callable[[int], Any]:
        decode = LIBRARIES[library]()
        return lambda number: decode(task.files[number])

    # libvips starts threads when it is loaded, which a forked worker would lack.
    return _pipeline(task, make, is_loaded_in_workers=library == "pyvips")


def start_ours(task: DecodeTask, *, is_crop: bool, is_known: bool) -> Pipeline:
    """Start our decoder.

    Args:
        task: The files.
        is_crop: Whether to decode the crops instead of full images.
        is_known: Whether seek points are known, as from the second epoch on.
    """

    def make() -> Callable[[int], Any]:
        from bench.micro.jpeg_decoder import JpegDecoder
        from dali_pipes.jpeg.seek_points import EVERY, find_seek_points
        from readers import read_header

        headers = [read_header(data) for data in task.files]
        decoder = JpegDecoder(max(max(header.height, header.width) for header in headers))
        points = [find_seek_points(data, EVERY)[1] if is_known else None for data in task.files]

        def decode(number: int) -> Pixels:
            data = task.files[number]
            header = read_header(data)
            size = header.height, header.width
            area = task.crops[number] if is_crop else (0, 0, *size)
            view = np.frombuffer(data, np.uint8)
            return decoder.decode(view, size, area, seek_points=points[number])

        return decode

    return _pipeline(task, make)


def start_our_loader(task: DecodeTask) -> Pipeline:
    """Start our Loader, which delivers full images in uint8 batches without augmentation."""
    import torch

    from bench.compare.images import Repeated
    from dali_pipes import Loader
    from gpu_aug import CenterCrop, Recipe
    from readers import open_dataset, read_header

    headers = [read_header(data) for data in task.files]
    sizes = {(header.height, header.width) for header in headers}
    if len(sizes) > 1:
        raise Unable(
            "its batches are arrays of images of one size, and these files have several sizes"
        )
    dataset = open_dataset(task.folder)
    loader = Loader(
        Repeated(dataset, np.arange(len(dataset))),
        Recipe([CenterCrop(*sizes)]),
        batch_size=BATCH_SIZE,
        device="cpu",
        dtype=torch.uint8,
        shuffle="none",
        num_threads=task.num_workers,
    )
    batches = (batch.images.permute(0, 2, 3, 1).numpy() for batch in loader)
    return Pipeline(batches, "", 2 * _NUM_AHEAD, 3 * _NUM_AHEAD)


def _pipeline(
    task: DecodeTask,
    make: Callable[[], Callable[[int], Any]],
    *,
    is_loaded_in_workers: bool = False,
) -> Pipeline:
    gc.disable()  # as in the original: a collection would count for the contestant that triggers it
    if task.protocol == "decode-memory":
        return Pipeline(_passes(task, make()), "", 0, 0)
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _Images(len(task.files), make, None if is_loaded_in_workers else make()),
        batch_size=BATCH_SIZE,
        num_workers=task.num_workers,
        collate_fn=list,  # images of several sizes are not stacked, in the original neither
        prefetch_factor=_NUM_AHEAD,
        persistent_workers=True,
    )
    num_ahead = _NUM_AHEAD * task.num_workers
    return Pipeline(iter(loader), "", num_ahead, num_ahead + task.num_workers)


def _passes(task: DecodeTask, decode: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the images of the first pass over the files, and for each later pass a sequence of that length."""
    yield [decode(number) for number in range(len(task.files))]
    while True:
        for number in range(len(task.files)):
            decode(number)
        yield task.files


class _Images:
    """A torch Dataset of the files, repeated."""

    def __init__(
        self,
        num_files: int,
        make: Callable[[], Callable[[int], Any]],
        decode: Callable[[int], Any] | None,
    ) -> None:
        self._num_files, self._make, self._decode = num_files, make, decode

    def __len__(self) -> int:
        return _EPOCH

    def __getitem__(self, position: int) -> Any:
        self._decode = self._decode or self._make()
        return self._decode(position % self._num_files)
