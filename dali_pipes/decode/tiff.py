"""Decode TIFF files of any number of channels with tifffile: channels are samples of one page, or separate pages."""

import io
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import DecodeError, error_text
from readers.sample import Payload
from readers.storage.limits import TooLargeError, check_bytes

_INSTALL = "tiff needs the package tifffile: pip install 'gpu-aug[tiff]'"
_PHOTOMETRIC = ("MINISBLACK", "RGB")
"""Other interpretations, such as a palette or inverted gray, would need a conversion of the values."""


def read_tiff(data: Payload, channels: int) -> NDArray[Any]:
    """Decode a TIFF as stored, without applying its orientation.

    In a file with one page, the channels are the page's samples (values per pixel), interleaved or planar. A file with
    several pages must have one sample per page and as many pages as channels. Overviews (pages with a smaller copy of
    the image) are skipped.

    Args:
        data: The encoded bytes.
        channels: Requested number of channels; further pages are not read.

    Returns:
        [height, width] or [height, width, channels], with the stored type.

    Raises:
        DecodeError: The file does not decode, or has another layout.
    """
    try:
        import tifffile
    except ModuleNotFoundError as error:
        raise DecodeError(_INSTALL) from error
    try:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            return _read_pages(file, channels)
    except DecodeError:
        raise
    except TooLargeError as error:
        raise DecodeError(str(error)) from error
    except Exception as error:  # tifffile raises errors of any type for damaged bytes
        if "imagecodecs" in str(error):
            raise DecodeError(
                "tiff of this compression needs the package imagecodecs: pip install 'gpu-aug[tiff]'"
            ) from error
        raise DecodeError(f"tifffile: {error_text(error)}") from error


def _read_pages(file: Any, channels: int) -> NDArray[Any]:
    stack = (file.imagej_metadata or {}).get("images", 1) if file.is_imagej else 1
    full = (page for page in file.pages if not page.is_reduced)
    # Limited because a hostile file may have thousands of pages.
    pages: list[Any] = list(islice(full, channels + 1))
    if stack > max(len(pages), 1):
        raise DecodeError(
            f"tiff of ImageJ with {stack} images in one page; write a page for each, or one page of {stack} samples"
        )
    if len(pages) == 1:
        return _read_page(file, pages[0])
    samples = pages[0].samplesperpixel if pages else 0
    if len(pages) != channels or samples != 1:
        count = f"more than {channels}" if len(pages) > channels else len(pages)
        raise DecodeError(
            f"tiff with {count} pages of samplesperpixel={samples}, but {channels=} takes one page, or as "
            "many pages of one sample"
        )
    arrays = [_read_page(file, page) for page in pages]
    first = arrays[0]
    if any(one.shape != first.shape or one.dtype != first.dtype for one in arrays[1:]):
        raise DecodeError("tiff whose pages have different sizes or types")
    return np.stack(arrays, axis=-1)


def _read_page(file: Any, page: Any) -> NDArray[Any]:
    """Return the values of a page: [height, width] or [height, width, samples]."""
    photometric = getattr(page.photometric, "name", str(page.photometric))
    if photometric not in _PHOTOMETRIC:
        raise DecodeError(
            f"tiff whose photometric interpretation is {photometric}, but {' and '.join(_PHOTOMETRIC)} are supported: "
            "convert it"
        )
    if page.axes not in ("YX", "YXS", "SYX") or page.dtype is None:
        raise DecodeError(
            f"tiff whose page has the axes {page.axes}, and is not an image of 8, 16 or 32 bits"
        )
    if page.bitspersample != page.dtype.itemsize * 8:
        raise DecodeError(
            f"tiff of {page.bitspersample} bits, but 8, 16 and 32 are supported: convert it"
        )
    check_bytes(page.nbytes, "an image")
    size = file.filehandle.size
    if not page.dataoffsets or any(
        count < 1 or offset < 1 or offset + count > size
        for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True)
    ):
        raise DecodeError("tiff that ends before its pixels: truncated or damaged")
    array: NDArray[Any] = page.asarray()
    return np.moveaxis(array, 0, -1) if page.axes == "SYX" else array
