"""The DALI graph for images: encoded bytes and crops in, decoded and cut uint8 images out."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from readers.sample import Payload

_JPEG_START, _JPEG_END = b"\xff\xd8", b"\xff\xd9"


def suits_dali(data: Payload) -> bool:
    """Whether bytes are a JPEG that is not cut short: what DALI decodes well and can be trusted with.

    A JPEG without its end marker is accepted or refused by region decoding depending on the crop that was
    drawn. Other formats DALI decodes on the CPU in any case, and a damaged PNG can crash the process.
    """
    return bytes(data[:2]) == _JPEG_START and bytes(data[-2:]) == _JPEG_END


def decode(encoded: Any, start: Any, shape: Any, *, device: Literal["cpu", "mixed"]) -> Any:
    """Graph node that decodes to RGB and applies the EXIF orientation.

    Args:
        encoded: uint8 [num_bytes] on the CPU.
        start: int32 [2]: top and left of the part that is needed, in pixels of the upright image; not looked at on "mixed".
        shape: int32 [2]: height and width of that part, which lies inside the image; the same.
        device: On "cpu" only the part is decoded, bit for bit like a cut of the whole, but of a progressive JPEG
            that lacks scans (libjpeg smooths what it has of those). On "mixed" the
            whole image is decoded on the GPU: nvImageCodec 0.9 has an open report of crashes in region
            decoding on that device.

    Returns:
        uint8 [height, width, 3]: on "cpu" the part, on the CPU; on "mixed" the whole, on the GPU.
    """
    from nvidia.dali import fn, types

    if device == "cpu":
        return fn.decoders.image_slice(
            encoded, start=start, shape=shape, axes=[0, 1], output_type=types.RGB
        )
    # The chroma upsampling that CPU decoders use; without it the difference to them is larger.
    return fn.decoders.image(
        encoded, device="mixed", output_type=types.RGB, jpeg_fancy_upsampling=True
    )


def render_canvas(
    image: Any, start: Any, shape: Any, resize: Any, paste: Any, canvas: Any, *, antialias: bool
) -> Any:
    """Graph nodes that cut a crop out, resample it and lay it on a canvas of zeros.

    DALI's triangular filter equals torchvision's antialiased bilinear one inside the image. Along the
    border it repeats edge pixels where torchvision renormalises the weights, which differs by up to
    12/255 on photographs.

    Args:
        image: uint8 [height, width, 3].
        start: int32 [2]: top and left of the crop in `image`.
        shape: int32 [2]: height and width of the crop, which lies inside.
        resize: int32 [2]: height and width after resampling.
        paste: int32 [2]: where the top-left corner lands on the canvas; negative cuts, positive pads.
        canvas: int32 [2]: height and width of the result.
        antialias: Whether to low-pass filter when shrinking.

    Returns:
        uint8 [canvas height, canvas width, 3] on the same device.
    """
    from nvidia.dali import fn, types

    resized = fn.resize(
        fn.slice(image, start=start, shape=shape, axes=[0, 1]),
        size=fn.cast(resize, dtype=types.FLOAT),  # the only type that this argument takes
        interp_type=types.INTERP_LINEAR,
        antialias=antialias,
        dtype=types.UINT8,
    )
    return fn.slice(resized, start=-paste, shape=canvas, axes=[0, 1], out_of_bounds_policy="pad")


def placeholder() -> NDArray[np.uint8]:
    """A sound JPEG of one grey pixel, uint8 [num_bytes], for rows that DALI must not see."""
    return np.frombuffer(_ONE_PIXEL, np.uint8)


_ONE_PIXEL = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300100b0c0e0c0a100e0d0e1211101318281a1816"
    "16183123251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c6567"
    "63ffc0000b080001000101011100ffc40014000100000000000000000000000000000000ffc4001410010000"
    "0000000000000000000000000000ffda0008010100003f003fffd9"
)
