"""The DALI graph for images: from encoded bytes and crops to decoded and cropped uint8 images."""

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
    """Return a graph node that decodes to RGB and applies the EXIF orientation.

    Args:
        encoded: uint8 [num_bytes] on the CPU.
        start: int32 [2], top and left of the needed part, in pixels of the upright image; unused with "mixed".
        shape: int32 [2], height and width of that part, which lies inside the image; unused with "mixed".
        device: With "cpu" only the part is decoded. Its pixels equal those of the fully decoded image, except for a
            progressive JPEG that lacks scans (libjpeg smooths it). With "mixed" the full image is decoded on the GPU:
            nvImageCodec 0.9 has an open report of crashes in region decoding there.
        hw_decoder_load: The share of each batch, 0 to 1, that the GPU's JPEG engine decodes; see Loader.

    Returns:
        uint8 [height, width, 3]: with "cpu" the part, on the CPU; with "mixed" the full image, on the GPU.
    """
    from nvidia.dali import fn, types

    if device == "cpu":
        return fn.decoders.image_slice(
            encoded, start=start, shape=shape, axes=[0, 1], output_type=types.RGB
        )
    # Fancy upsampling of chroma, as CPU decoders do it; without it the pixels differ more from theirs.
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
    """Return a graph node that crops an image, resizes the crop and places it on a black canvas.

    Inside the image, DALI's triangular filter equals torchvision's antialiased bilinear filter. Along the border DALI
    repeats edge pixels where torchvision renormalises the weights; on photographs the pixels differ there by up to
    12/255.

    Args:
        image: uint8 [height, width, 3].
        start: int32 [2], top and left of the crop in `image`.
        shape: int32 [2], height and width of the crop, which lies inside the image.
        resize: int32 [2], height and width after resizing.
        paste: int32 [2], position of the crop's top-left corner on the canvas; with negative values a part of the crop
            lies outside and is dropped; positive values leave a black margin.
        canvas: int32 [2], height and width of the canvas.
        antialias: Whether to low-pass filter when shrinking.

    Returns:
        uint8 [canvas height, canvas width, 3] on the device of `image`.
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
    """Return a sound JPEG of 64x64 gray pixels, uint8 [num_bytes], for rows that DALI must not decode.

    It is a most common kind of JPEG (baseline, 4:2:0, the standard's Huffman tables) and not smaller, because a GPU's
    JPEG engine refuses tiny images.
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
