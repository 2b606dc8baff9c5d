"""JPEG decoders that users have beside our loader: DALI's, nvImageCodec's and torchvision's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.gpu.scale import Scale
from readers import read_header
from readers.cores import usable_cores

Decode = Callable[[], Any]
"""Decodes a batch; what it returns has as many items as the batch has images."""


def middle(height: int, width: int) -> tuple[slice, slice]:
    """The rows and columns of the region that is decoded: half of each side."""
    top, left = height // 4, width // 4
    return slice(top, top + height // 2), slice(left, left + width // 2)


def dali(
    encoded: Sequence[Any],
    batch_size: int,
    scale: Scale,
    *,
    is_region: bool = False,
    **options: Any,
) -> Decode:
    """A DALI pipeline that decodes the same images over and over.

    Args:
        encoded: JPEGs.
        batch_size: Images in a batch.
        scale: The device.
        is_region: Whether only the middle is decoded; all images then have the size of the first.
        options: Of DALI's decoder; None leaves an option to DALI.
    """
    from nvidia.dali import Pipeline, fn, types

    arrays = [np.frombuffer(part, np.uint8) for part in encoded]
    num_batches = max(1, len(arrays) // batch_size)

    def source(number: Any) -> list[Any]:
        first = int(number) % num_batches * batch_size
        return [arrays[(first + row) % len(arrays)] for row in range(batch_size)]

    given = {name: value for name, value in options.items() if value is not None}
    given["device"] = "mixed" if scale.on_gpu else "cpu"
    pipeline = Pipeline(batch_size, usable_cores(), scale.device.index)
    with pipeline:
        files = fn.external_source(source, dtype=types.UINT8, ndim=1, batch=True, no_copy=True)
        if is_region:
            header = read_header(encoded[0])
            sides = middle(header.height, header.width)
            given |= {"start": [side.start for side in sides]}
            given |= {"shape": [side.stop - side.start for side in sides], "axes": [0, 1]}
            pipeline.set_outputs(fn.decoders.image_slice(files, **given))
        else:
            pipeline.set_outputs(fn.decoders.image(files, output_type=types.RGB, **given))
    pipeline.build()
    return lambda: pipeline.run()[0]


def backends(scale: Scale) -> list[str]:
    """The backends that nvImageCodec may use."""
    return ["HW_GPU_ONLY", "GPU_ONLY", "HYBRID_CPU_GPU"] if scale.on_gpu else ["CPU_ONLY"]


def nvimgcodec(
    encoded: Sequence[Any], backend: str, scale: Scale, *, is_region: bool = False
) -> Decode:
    """NvImageCodec with one backend, headers already read, which Python does one after the other.

    The call raises RuntimeError where an image is refused.
    """
    from nvidia import nvimgcodec as codec

    decoder = codec.Decoder(
        device_id=0 if scale.on_gpu else codec.NVIMGCODEC_DEVICE_CPU_ONLY,
        max_num_cpu_threads=usable_cores(),
        backends=[codec.Backend(getattr(codec.BackendKind, backend))],
        options=":fancy_upsampling=1",
    )
    streams = [codec.CodeStream(bytes(part)) for part in encoded]
    if is_region:
        for number, stream in enumerate(streams):
            rows, columns = middle(stream.height, stream.width)
            region = codec.Region(rows.start, columns.start, rows.stop, columns.stop)
            streams[number] = stream.get_sub_code_stream(region=region)

    def decode() -> list[Any]:
        images: list[Any] = decoder.decode(streams)
        if refused := sum(image is None for image in images):
            raise RuntimeError(f"{refused} of {len(images)} images were refused")
        return images

    return decode


def torchvision(encoded: Sequence[bytes], scale: Scale) -> Decode:
    """Torchvision's nvJPEG."""
    from torchvision.io import ImageReadMode, decode_jpeg

    tensors = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in encoded]
    return lambda: decode_jpeg(tensors, mode=ImageReadMode.RGB, device=scale.device)


def on_host(decoded: Any) -> list[NDArray[np.int16]]:
    """Images of any of these decoders, int16 [height, width, 3] each."""
    if hasattr(decoded, "as_cpu"):  # DALI
        return [np.asarray(image).astype(np.int16) for image in decoded.as_cpu()]
    images = [image.cpu() for image in decoded]
    is_planar = isinstance(images[0], torch.Tensor)
    arrays = [np.asarray(image).astype(np.int16) for image in images]
    return [array.transpose(1, 2, 0) for array in arrays] if is_planar else arrays
