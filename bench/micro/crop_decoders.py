"""Ways to decode many small crops out of large JPEGs, each on one thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import Checkpoints
from readers.sample import Payload

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Task:
    """The crops to decode.

    Attributes:
        jpegs: For every crop the JPEG that it is cut out of; a JPEG stands as often as it has crops.
        crops: int32 [n, 4]: top, left, height and width, in pixels.
        size: Height and width of every JPEG.
    """

    jpegs: list[Payload]
    crops: NDArray[np.int32]
    size: tuple[int, int]


Way = Callable[[], Sequence[Pixels]]
"""Decodes all crops: uint8 [height, width, 3] each."""


def ours_on_ordinary(task: Task) -> Way:
    """Our decoder, on JPEGs that it has not met before."""
    return lambda: _decode_with_ours(task.jpegs, task.crops, _sizes(task))


def ours_from_checkpoints(task: Task) -> Way:
    """Our decoder, on JPEGs whose checkpoints are known, as from a second epoch on."""
    from dali_pipes.jpeg.finder import FINDER, found_again

    found = {id(data): found_again(FINDER.find(data)) for data in task.jpegs}
    known = [found[id(data)] for data in task.jpegs]
    return lambda: _decode_with_ours(task.jpegs, task.crops, _sizes(task), known)


def _sizes(task: Task) -> NDArray[np.int32]:
    return np.tile(np.array(task.size, np.int32), (len(task.crops), 1))


def _decode_with_ours(
    data: Sequence[Payload],
    crops: NDArray[np.int32],
    sizes: NDArray[np.int32],
    known: Sequence[Checkpoints] | None = None,
) -> list[Pixels]:
    from dali_pipes.jpeg import REASONS
    from dali_pipes.jpeg.decode import decode_crop, scratch_bytes

    scratch, no_offsets = np.zeros(scratch_bytes(int(sizes.max())), np.uint8), np.empty(0, np.int64)
    outs: list[Pixels] = []
    places = [(0, 0, 1)] * len(data)
    if known is not None:
        places = [(one.rows.ctypes.data, len(one.rows), one.every) for one in known]
    for encoded, crop, size, place in zip(
        data, crops.tolist(), sizes.tolist(), places, strict=True
    ):
        view, out = np.frombuffer(encoded, np.uint8), np.empty((*crop[2:], 3), np.uint8)
        status = decode_crop(
            *(
                view.ctypes.data,
                view.size,
                tuple(crop),
                tuple(size),
                1,
                no_offsets,
                place,
                False,
            ),
            *(out.ctypes.data, out.strides[0], scratch),
        )
        if status:
            raise RuntimeError(f"our decoder refuses a JPEG: {REASONS[status]}")
        outs.append(out)
    return outs


def _decode_with_opencv(
    data: Sequence[Payload],
    crops: NDArray[np.int32],
    sizes: NDArray[np.int32],  # noqa: ARG001 - our decoder needs them
) -> list[Pixels]:
    return [_whole(one)[_slices(crop)] for one, crop in zip(data, crops, strict=True)]


def whole_and_crop(task: Task) -> Way:
    """Decode the whole image with OpenCV and cut the crop out."""
    return lambda: _decode_with_opencv(task.jpegs, task.crops, task.crops)


def _whole(data: Payload) -> Pixels:
    import cv2

    encoded = np.frombuffer(data, np.uint8)
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB), np.uint8)


def _slices(crop: NDArray[np.int32]) -> tuple[slice, slice]:
    top, left, height, width = crop.tolist()
    return slice(top, top + height), slice(left, left + width)


def nvimagecodec_region(task: Task) -> Way:
    """A region of a code stream of nvImageCodec: libjpeg-turbo crops and skips."""
    from nvidia import nvimgcodec as codec

    decoder = codec.Decoder(
        device_id=codec.NVIMGCODEC_DEVICE_CPU_ONLY,
        max_num_cpu_threads=1,
        backends=[codec.Backend(codec.BackendKind.CPU_ONLY)],
    )

    def run() -> Sequence[Pixels]:
        streams = []
        for data, (top, left, height, width) in zip(task.jpegs, task.crops.tolist(), strict=True):
            region = codec.Region(top, left, top + height, left + width)
            streams.append(codec.CodeStream(data).get_sub_code_stream(region=region))
        return [np.asarray(image.cpu()) for image in decoder.decode(streams)]

    return run


def dali_region(task: Task) -> Way:
    """`fn.decoders.image_slice`, fed with our bytes and crops."""
    from nvidia.dali import Pipeline, fn, types

    pipeline: Any = Pipeline(len(task.crops), 1, None, prefetch_queue_depth=1)
    with pipeline:
        encoded, start, shape = (
            fn.external_source(name=name, no_copy=True) for name in ("encoded", "start", "shape")
        )
        pipeline.set_outputs(
            fn.decoders.image_slice(
                encoded, start=start, shape=shape, axes=[0, 1], output_type=types.RGB
            )
        )
    pipeline.build()
    views = [np.frombuffer(data, np.uint8) for data in task.jpegs]
    starts = list(np.ascontiguousarray(task.crops[:, :2]))
    shapes = list(np.ascontiguousarray(task.crops[:, 2:]))

    def run() -> Sequence[Pixels]:
        for name, values in (("encoded", views), ("start", starts), ("shape", shapes)):
            pipeline.feed_input(name, values)
        (images,) = pipeline.run()
        return [np.asarray(images.at(row)) for row in range(len(views))]

    return run
