"""The contestants of `bench published imread`: each decodes JPEGs in a process of its own.

Environments of other libraries import this module, so it imports only NumPy before a contestant starts.
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.compare.contract import Pipeline, Unable

TOLERANCE = 2.0
"""Largest mean difference from Pillow in levels of 0 to 255: other rounding, inverse transforms and interpolation of
colours stay below 1, swapped channels of photographs are far above."""

BATCH_SIZE = 32
"""Images in a batch of loader-supply, as in the original."""

_NUM_AHEAD = 2  # batches that each worker of a DataLoader prepares: torch's default
_EPOCH = range(200_000)  # more images than a run needs, so that no epoch ends during it

# Libraries that use several threads by default; read when they are loaded.
_ONE_THREAD = dict.fromkeys(
    ("VIPS_CONCURRENCY", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"
)

# What a library needs that its package does not bring.
_NEEDS = {
    "jpeg4py": "the system library libturbojpeg (apt install libturbojpeg0)",
    "PyTurboJPEG": "the system library libturbojpeg of libjpeg-turbo 3.0 or later",
}

LIBRARIES: Mapping[str, tuple[str, Callable[[Any, bytes], Any]]] = {
    "Pillow": ("PIL.Image", lambda own, data: np.asarray(own.open(BytesIO(data)).convert("RGB"))),
    "ajpegli": ("ajpegli", lambda own, data: own.imdecode(data, mode="RGB")),
    "imagecodecs": ("imagecodecs", lambda own, data: own.jpeg8_decode(data)),
    "imageio": ("imageio.v3", lambda own, data: own.imread(data)),
    "jpeg4py": ("jpeg4py", lambda own, data: own.JPEG(np.frombuffer(data, np.uint8)).decode()),
    "kornia-rs": ("kornia_rs.io", lambda own, data: own.decode_image_jpeg(data)),
    "OpenCV": (
        "cv2",
        lambda own, data: own.imdecode(np.frombuffer(data, np.uint8), own.IMREAD_COLOR_RGB),
    ),
    "PyTurboJPEG": (
        "turbojpeg",
        lambda own, data: _object(own.TurboJPEG).decode(data, pixel_format=own.TJPF_RGB),
    ),
    "pyvips": (
        "pyvips",
        lambda own, data: own.Image.new_from_buffer(data, "", access="sequential").numpy(),
    ),
    "scikit-image": ("skimage.io", lambda own, data: own.imread(BytesIO(data))),
    "simplejpeg": ("simplejpeg", lambda own, data: own.decode_jpeg(data, "RGB")),
    "TensorFlow": ("tensorflow", lambda own, data: own.io.decode_jpeg(data, channels=3).numpy()),
    "torchvision": (
        "torchvision.io.image",
        lambda own, data: np.ascontiguousarray(
            own.decode_jpeg(
                own.torch.frombuffer(bytearray(data), dtype=own.torch.uint8), own.ImageReadMode.RGB
            ).permute(1, 2, 0)
        ),
    ),
}
"""By name: the module of the library, and a function of it and the bytes of a file that returns the pixels."""

_object: Callable[[Callable[[], Any]], Any] = cache(lambda make: make())
_module = cache(import_module)


def decode(library: str, data: bytes) -> Any:
    """Return the pixels of a file, uint8 [height, width, 3], decoded by one of `LIBRARIES`."""
    name, call = LIBRARIES[library]
    return call(_module(name), data)


@dataclass(frozen=True)
class DecodeTask:
    """JPEGs in memory, and how they are decoded.

    Attributes:
        files: The bytes of each file.
        crops: int64 [files, 4]: top, left, height and width of a random crop of each.
        num_workers: Count of workers of a DataLoader that decodes them (loader-supply); 0 decodes one after another on
            one thread (decode-memory).
    """

    files: list[bytes]
    crops: NDArray[np.int64]
    num_workers: int

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
            expected = decode("Pillow", self.files[number % len(self.files)])
            top, left, height, width = self.crops[number % len(self.files)].tolist()
            if image.shape[:2] == (height, width):
                expected = expected[top : top + height, left : left + width]
            form = image.dtype, image.shape, image.flags.c_contiguous
            if form != (np.uint8, expected.shape, True):
                raise Unable(
                    "made {} {} (C-contiguous: {}), not uint8 {} (C-contiguous: True)".format(
                        *form, expected.shape
                    )
                )
            difference = np.abs(image.astype(np.int16) - expected).mean()
            if not difference <= TOLERANCE:
                raise Unable(
                    f"differs from Pillow by {difference:.1f} of 255 on average, more than {TOLERANCE:.0f}"
                )


def start(task: DecodeTask, *, library: str) -> Pipeline:
    """Start the decoder of a library."""
    if library == "TensorFlow" and task.num_workers:
        raise Unable("takes no part in the original's DataLoader: its users have tf.data")
    os.environ.update(_ONE_THREAD)
    # libvips starts threads when it is loaded, which a forked worker would lack.
    if library != "pyvips" or not task.num_workers:
        try:
            decode(library, task.files[0])
        except (OSError, RuntimeError) as error:
            raise Unable(f"needs {_NEEDS.get(library, error)}") from error
    return _pipeline(task, lambda number: decode(library, task.files[number]))


def start_ours(task: DecodeTask, *, is_crop: bool, is_known: bool) -> Pipeline:
    """Start our decoder.

    Args:
        task: The files.
        is_crop: Whether to decode the crops instead of full images.
        is_known: Whether seek points are known, as from the second epoch on.
    """
    from bench.micro.decode import make_decoder
    from dali_pipes.jpeg.seek_points import EVERY, find_seek_points
    from readers import read_header

    headers = [read_header(data) for data in task.files]
    decode_area = make_decoder(max(max(header.height, header.width) for header in headers))
    points = [find_seek_points(data, EVERY)[1] if is_known else None for data in task.files]

    def decode_ours(number: int) -> Any:
        header = read_header(task.files[number])
        size = header.height, header.width
        area = task.crops[number].tolist() if is_crop else (0, 0, *size)
        view = np.frombuffer(task.files[number], np.uint8)
        return decode_area(view, size, area, known=points[number])

    return _pipeline(task, decode_ours)


def start_our_loader(task: DecodeTask) -> Pipeline:
    """Start our Loader, which delivers full images in uint8 batches without augmentation."""
    import torch

    from dali_pipes import Loader
    from gpu_aug import CenterCrop, Recipe
    from readers import CustomDataset, Sample, read_header

    class Files(CustomDataset):
        def __len__(self) -> int:
            return len(_EPOCH)

        def __getitem__(self, index: Any) -> Any:
            return Sample(index, str(index), {"jpg": task.files[index % len(task.files)]})

    sizes = {(header.height, header.width) for header in map(read_header, task.files)}
    if len(sizes) > 1:
        raise Unable("makes batches of one size, and these files have several")
    loader = Loader(
        Files(),
        Recipe([CenterCrop(*sizes)]),
        batch_size=BATCH_SIZE,
        device="cpu",
        dtype=torch.uint8,
        shuffle="none",
        num_threads=task.num_workers,
    )
    batches = (batch.images.permute(0, 2, 3, 1).numpy() for batch in loader)
    return Pipeline(batches, "", 2 * _NUM_AHEAD, 3 * _NUM_AHEAD)


def _pipeline(task: DecodeTask, decode_file: Callable[[int], Any]) -> Pipeline:
    gc.disable()  # as in the original: a collection would count for the contestant that triggers it
    if not task.num_workers:
        return Pipeline(_passes(task.files, decode_file), "", 0, 0)
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        _EPOCH,  # type: ignore[arg-type]
        batch_size=BATCH_SIZE,
        num_workers=task.num_workers,
        # Workers decode here; images of several sizes are not stacked, in the original neither.
        collate_fn=lambda numbers: [decode_file(number % len(task.files)) for number in numbers],
        prefetch_factor=_NUM_AHEAD,
        persistent_workers=True,
    )
    num_ahead = _NUM_AHEAD * task.num_workers
    return Pipeline(iter(loader), "", num_ahead, num_ahead + task.num_workers)


def _passes(files: list[bytes], decode_file: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the images of the first pass over the files, and for each later pass a list of that length."""
    yield [decode_file(number) for number in range(len(files))]
    while True:
        for number in range(len(files)):
            decode_file(number)
        yield files
