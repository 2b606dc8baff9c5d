"""Batches for our JPEG decoder on a GPU: files with their checkpoints, crops, canvases, and the pixels that are right."""

import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cuda_jpeg.batch import Files, Launched, Wanted, files_of
from dali_pipes.jpeg.checkpoints import Checkpoints, find_checkpoints, listed
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD
from gpu_aug import Crops, RandomResizedCrop, Recipe
from gpu_aug.resampling.crop_and_resize import resample
from readers import read_header
from readers.cores import usable_cores

SAMPLINGS = {"4:4:4": 0x111111, "4:2:2": 0x211111, "4:2:0": 0x221111, "4:4:0": 0x121111, "4:1:1": 0x411111}  # fmt: skip
"""OpenCV's numbers for them."""


@dataclass(frozen=True)
class Batch:
    """A batch of one view.

    Attributes:
        encoded: JPEGs.
        files: The same with their checkpoints.
        wanted: Their crops, and where those go.
        crops: The same crops as recipes draw them.
        canvases: uint8 [height, width, 3] each, on the device.
    """

    encoded: Sequence[bytes]
    files: Files
    wanted: Wanted
    crops: Crops
    canvases: Sequence[torch.Tensor]


def checkpoints_of(encoded: Sequence[bytes], every: int) -> list[Checkpoints | None]:
    """The checkpoints of sound baseline JPEGs, None for others."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = list(pool.map(lambda data: find_checkpoints(data, every), encoded))
    return [Checkpoints(status, every, rows) if status == GOOD else None for status, rows in found]


def sizes_of(encoded: Sequence[bytes]) -> NDArray[np.int64]:
    """Heights and widths of the upright images, int64 [n, 2]."""
    headers = [read_header(data) for data in encoded]
    return np.array([(header.height, header.width) for header in headers], np.int64)


def whole(sizes: NDArray[np.int64]) -> Crops:
    """The whole images as they are."""
    none, size = np.zeros_like(sizes, dtype=np.int32), sizes.astype(np.int32)
    return Crops(start=none, shape=size, resize=size, paste=none, canvas=size)


def drawn(sizes: NDArray[np.int64], side: int, epoch: int = 0) -> Crops:
    """Crops as a training recipe draws them."""
    recipe = Recipe([RandomResizedCrop(side)])
    return recipe.draw(0, epoch, np.arange(len(sizes)), sizes).crops


def make_batch(
    encoded: Sequence[bytes],
    crops: Crops,
    device: torch.device,
    checkpoints: Sequence[Checkpoints | None],
) -> Batch:
    """A batch whose canvases are full of a colour that nobody expects."""
    from dali_pipes.decode.jpeg_batch_kernel import CROP, RECT

    canvases = [
        torch.full((*size, 3), 171, dtype=torch.uint8, device=device)
        for size in crops.canvas.tolist()
    ]
    pairs: list[NDArray[Any]] = [crops.start, crops.shape, crops.resize, crops.paste]
    rows = np.concatenate(pairs, axis=1, dtype=np.int64)
    places = [(one.data_ptr(), *one.shape[:2]) for one in canvases]
    wanted = Wanted(
        sizes_of(encoded),
        np.ascontiguousarray(rows[:, :4]).view(RECT)[:, 0],
        rows.view(CROP)[:, 0][None],
        np.array([places], np.int64),
        np.array([crops.antialias]),
    )
    held = [np.frombuffer(data, np.uint8) for data in encoded]
    known = listed(checkpoints)
    files = files_of(spans_of(held), [None] * len(encoded), known.files, (held, known.held))
    return Batch(encoded, files, wanted, crops, canvases)


def expected(batch: Batch, row: int) -> NDArray[np.uint8]:
    """The pixels of a canvas, by OpenCV and torch on the CPU."""
    import cv2

    decoded: Any = cv2.imdecode(np.frombuffer(batch.encoded[row], np.uint8), cv2.IMREAD_COLOR)
    image = torch.from_numpy(np.ascontiguousarray(decoded[..., ::-1]))
    out = torch.empty((*batch.crops.canvas[row].tolist(), 3), dtype=torch.uint8)
    resample(image, batch.crops, row, out)
    return out.numpy()


def verdicts(launched: Launched) -> NDArray[np.int32]:
    """What became of each image: int32 [n]; waits for the device."""
    planned = launched.planned
    statuses, here = planned.statuses.copy(), planned.numbers >= 0
    statuses[here] = launched.statuses.cpu().numpy()[planned.numbers[here]]
    return statuses


def encode(image: NDArray[np.uint8], sampling: str, *, restart: int, orientation: int, quality: int) -> bytes:  # fmt: skip
    """A JPEG with restart markers every so many MCUs (0 for none), turned by EXIF; "gray" is a sampling as well."""
    import cv2

    options = [cv2.IMWRITE_JPEG_QUALITY, quality, cv2.IMWRITE_JPEG_RST_INTERVAL, restart]
    if sampling == "gray":
        image = image[..., 0]
    else:
        options += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, SAMPLINGS[sampling]]
    _, encoded = cv2.imencode(".jpg", image, options)
    data: bytes = encoded.tobytes()
    entry = struct.pack(">HHIHH", 274, 3, 1, orientation, 0)
    exif = b"Exif\0\0" + b"MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
