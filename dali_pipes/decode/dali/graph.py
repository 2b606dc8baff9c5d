"""The DALI graph for images: encoded bytes and crops in, decoded and cut uint8 images out."""

import base64
import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


def decode(
    encoded: Any,
    start: Any,
    shape: Any,
    *,
    device: Literal["cpu", "mixed"],
    hw_decoder_load: float,
) -> Any:
    """Graph node that decodes to RGB and applies the EXIF orientation.

    Args:
        encoded: uint8 [num_bytes] on the CPU.
        start: int32 [2]: top and left of the part that is needed, in pixels of the upright image; unused on "mixed".
        shape: int32 [2]: height and width of that part, which lies inside the image; unused on "mixed".
        device: On "cpu" only the part is decoded, bit for bit like a cut of the whole, but of a progressive JPEG
            that lacks scans (libjpeg smooths what it has of those). On "mixed" the
            whole image is decoded on the GPU: nvImageCodec 0.9 has an open report of crashes in region
            decoding on that device.
        hw_decoder_load: The share of each batch, 0 to 1, that the JPEG engine of the GPU is given; see Loader.

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
        encoded,
        device="mixed",
        output_type=types.RGB,
        jpeg_fancy_upsampling=True,
        hw_decoder_load=hw_decoder_load,
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
    """A sound JPEG of 64x64 gray pixels, uint8 [num_bytes], for rows that DALI must not see.

    It is as common as can be, baseline and 4:2:0 with the Huffman tables of the standard: the JPEG engine of a GPU takes
    no tiny pictures.
    """
    return np.frombuffer(_GRAY, np.uint8)


_GRAY = zlib.decompress(
    base64.b64decode(
        "eNr7f+P/AwYBLzdPNwZGRgYGRiBk+H+bwZmBg42NnY2Vg52dnZOTg4tHhJeHm5tHUkiYX0RWSl5OVkpGRkFFT11BSUdZ"
        "RkbDXFPHwNDExERe3dLWwshGz9jECGQIIycnJw83jwQvr4SRooyiEcng/wEGQQ4GBwYHZkYlBiZBRmZBxv9HGOSB7mRl"
        "BAMGKGBkYmZhZWPn4OTiBirYKsDAxMjMzMTCzMrKwgKUrQXKM7AIsgopGjqyCQcmsisVihg1TlzIoey08aBo0MUPKsZJ"
        "RU2cXGLiEpJSqmrqGppaJqZm5haWVs4urm7uHp5ewSGhYeERkVHJKalp6RmZWcUlpWXlFZVVzS2tbe0dnV2TJk+ZOm36"
        "jJmzFi1esnTZ8hUrV23avGXrtu07du46dPjI0WPHT5w8denylavXrt+4eevho8dPnj57/uLlq4+fPn/5+u37j5+/QP5i"
        "ZGBmhAGs/hIE+ouJhYWZhR3kL0amcpACQRZWRUM2IcdA9sRCYSWjRg4Rp4kLNx7kVDYO+iCaVHSRS0zF5KHqR5DXwD4j"
        "zmNNZPkM7jGEv24x8DAzAiOPWZDBnkFjURdF+P9NAE7/4Mc="
    )
)
