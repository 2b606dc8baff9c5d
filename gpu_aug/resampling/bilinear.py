"""torch's bilinear resize of 8-bit images, bit for bit, by kernels without Python.

torch's algorithm (``aten/src/ATen/native/cpu/UpSampleKernelAVXAntialias.h``) is a horizontal pass and then a vertical one, each
skipped if the side keeps its length. Weights are computed in float64, then rounded to 16 bits with as many binary digits as the
largest weight of the pass allows. Sums are 32-bit integers, rounded half up to uint8 after each pass.

Here 16 rows at a time are transposed for the horizontal pass, so that the bytes that share a weight are contiguous; both passes
are then sums of contiguous bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.jit import inlined, inner, kernel, load_u8, store_u8
from gpu_aug.resampling.simd import TILE, transpose_tile, weigh_48, weigh_64
from gpu_aug.resampling.weights import Table, table_bytes, weight_table

Bytes = NDArray[np.uint8]

_CHANNELS = 3  # torch resizes other images, see `crop_and_resize`
_PIXEL = _CHANNELS * TILE  # bytes of one pixel of 16 rows
_LANES = 64  # bytes of a step of the vertical pass


@kernel
def scratch_bytes(height: int, width: int, resize_h: int, resize_w: int) -> int:
    """Return the largest number of bytes of scratch memory that `resize_into` can need.

    Args:
        height: Height of the source, in pixels.
        width: Width of the source, in pixels.
        resize_h: Height after resizing, in pixels.
        resize_w: Width after resizing, in pixels.
    """
    lines = (height + TILE) * _rounded(resize_w * _CHANNELS)
    blocks = (width + resize_w + 2 * TILE) * _PIXEL
    return table_bytes(height, resize_h) + table_bytes(width, resize_w) + lines + blocks + _LANES


@inner
def resize_in_kernel(
    source: Bytes,
    span: tuple[float, float, float, float],
    canvas: Bytes,
    resize_h: int,
    resize_w: int,
    paste_top: int,
    paste_left: int,
    antialias: bool,
    scratch: Bytes,
) -> None:
    """Resize an image and paste it on a canvas, whose other pixels become 0.

    The result is that of ``torch.nn.functional.interpolate(mode="bilinear", antialias=antialias)`` on uint8 in the
    channels-last format. Only pixels that are visible on the canvas are computed. Arguments are not checked.

    Args:
        source: The image, uint8 [height, width, 3], with any strides; fastest if each row is contiguous.
        span: Top, left, height and width of the part that is resized, in pixels of the source; the filter may also read pixels
            around it. torch resizes (0.0, 0.0, height, width).
        canvas: The canvas, uint8 [canvas height, canvas width, 3], each row contiguous; every pixel of it is written.
        resize_h: Height after resizing, at least 1.
        resize_w: Width after resizing, at least 1.
        paste_top: Row of the canvas at which the resized image starts; may be negative.
        paste_left: Column of the canvas at which the resized image starts; may be negative.
        antialias: Whether pixels are averaged along a side that shrinks, as in Pillow, and not only sampled.
        scratch: Scratch memory of at least `scratch_bytes` bytes, aligned to 8 bytes, as ``numpy.empty`` returns it.
    """
    top, bottom = max(paste_top, 0), min(paste_top + resize_h, canvas.shape[0])
    left, right = max(paste_left, 0), min(paste_left + resize_w, canvas.shape[1])
    if top >= bottom or left >= right:
        canvas[:] = 0
        return
    canvas[:top] = 0
    canvas[bottom:] = 0
    if left > 0:
        canvas[top:bottom, :left] = 0
    if right < canvas.shape[1]:
        canvas[top:bottom, right:] = 0
    address = _address(canvas) + top * canvas.strides[0] + left * _CHANNELS
    _resize(
        (_address(source), source.strides[0], source.strides[1], source.strides[2]),
        (source.shape[0], source.shape[1]),
        span,
        (resize_h, resize_w),
        (top - paste_top, bottom - paste_top, left - paste_left, right - paste_left),
        (address, canvas.strides[0]),
        antialias,
        scratch,
    )


@kernel
def resize_into(
    source: Bytes,
    span: tuple[float, float, float, float],
    canvas: Bytes,
    resize_h: int,
    resize_w: int,
    paste_top: int,
    paste_left: int,
    antialias: bool,
    scratch: Bytes,
) -> None:
    """Do what `resize_in_kernel` does, with the same arguments; Python cannot call that function."""
    resize_in_kernel(
        source, span, canvas, resize_h, resize_w, paste_top, paste_left, antialias, scratch
    )


@inner
def _resize(
    source: tuple[int, int, int, int],
    shape: tuple[int, int],
    span: tuple[float, float, float, float],
    size: tuple[int, int],
    seen: tuple[int, int, int, int],
    target: tuple[int, int],
    antialias: bool,
    scratch: Bytes,
) -> None:
    """Compute a part of the resized image and write it to the canvas.

    Args:
        source: Address of the source and its strides of rows, pixels and channels.
        shape: Height and width of the source.
        span: Part of the source that is resized; see `resize_into`.
        size: Height and width after resizing.
        seen: The part to compute: first row, row after the last, first column, column after the last.
        target: Address of the part on the canvas, and row stride of the canvas.
        antialias: Whether pixels are averaged along a side that shrinks; see `resize_into`.
        scratch: Scratch memory; see `resize_into`.
    """
    rows, num_bytes = seen[1] - seen[0], (seen[3] - seen[2]) * _CHANNELS
    down = weight_table(shape[0], (span[0], span[2]), size[0], seen[0], seen[1], antialias, scratch)
    scratch = scratch[table_bytes(shape[0], size[0]) :]
    first = down[0][0]
    num_lines = down[0][-1] + down[2] - first
    top, pitch = source[0] + first * source[1], source[1]
    lines = top + seen[2] * _CHANNELS
    plain = source[2] == _CHANNELS and source[3] == 1
    # A side that keeps its length has weights of exactly 1, so that a pass more changes nothing.
    whole = span[1] == 0.0 and span[3] == shape[1] == size[1]
    if not whole or not plain or num_bytes < _LANES:
        across = weight_table(
            shape[1], (span[1], span[3]), size[1], seen[2], seen[3], antialias, scratch
        )
        scratch = scratch[table_bytes(shape[1], size[1]) :]
        lines, pitch = _address(scratch), _rounded(num_bytes)
        block = lines + (num_lines + TILE) * pitch
        _resize_rows(
            (top, source[1], source[2], source[3]), num_lines, across, (lines, pitch), block
        )
    spare = _address(scratch) + scratch.size - _LANES
    _resize_columns((lines, pitch), rows, num_bytes, down, target, spare)


@inner
def _resize_rows(
    source: tuple[int, int, int, int],
    num_rows: int,
    table: Table,
    target: tuple[int, int],
    block: int,
) -> None:
    """Resize every row horizontally, 16 rows at a time, into rows whose length is rounded up to 64 bytes.

    Args:
        source: Address of the source and its strides of rows, pixels and channels.
        num_rows: Number of rows of the source; the target has room for at least 16.
        table: Weight table of the pixels to compute.
        target: Address and row stride of the target.
        block: Address of scratch memory for 16 rows and their results.
    """
    starts, weights, count, bits = table
    first = starts[0]
    num_bytes = (starts[-1] + count - first) * _CHANNELS
    turned = source[2] == _CHANNELS and source[3] == 1 and min(num_rows, num_bytes) >= TILE
    results = block + num_bytes * TILE
    address = _address(weights)
    num_tiles = (starts.size * _CHANNELS + TILE - 1) // TILE
    for begin in range(0, num_rows, TILE):
        row = max(min(begin, num_rows - TILE), 0)
        here = source[0] + row * source[1] + first * source[2]
        if turned:
            for byte in range(0, num_bytes, TILE):
                at = min(byte, num_bytes - TILE)
                transpose_tile(here + at, source[1], block + at * TILE, TILE)
        else:
            _gather((here, source[1], source[2], source[3]), num_rows, num_bytes, block)
        for pixel in range(starts.size):
            pixels = block + (starts[pixel] - first) * _PIXEL
            weights_here = address + pixel * count * 2
            weigh_48(pixels, _PIXEL, weights_here, count, bits, results + pixel * _PIXEL)
        for tile in range(num_tiles):
            there = target[0] + row * target[1] + tile * TILE
            transpose_tile(results + tile * TILE * TILE, TILE, there, target[1])


@inner
def _gather(source: tuple[int, int, int, int], num_rows: int, num_bytes: int, block: int) -> None:
    """Transpose 16 rows of any strides to scratch memory; the last row is repeated if there are fewer."""
    for byte in range(num_bytes):
        here = source[0] + byte // _CHANNELS * source[2] + byte % _CHANNELS * source[3]
        for row in range(TILE):
            store_u8(block + byte * TILE + row, load_u8(here + min(row, num_rows - 1) * source[1]))


@inner
def _resize_columns(
    source: tuple[int, int],
    num_rows: int,
    num_bytes: int,
    table: Table,
    target: tuple[int, int],
    spare: int,
) -> None:
    """Resize every column vertically, 64 bytes of a row at a time.

    Args:
        source: Address and row stride of the source; its first row is the first that the table refers to.
        num_rows: Number of rows of the target.
        num_bytes: Number of bytes of a row; if it is below 64, a row of the source has room for 64.
        table: Weight table of the rows to compute.
        target: Address and row stride of the target.
        spare: Address of 64 bytes of scratch memory.
    """
    starts, weights, count, bits = table
    address = _address(weights)
    for row in range(num_rows):
        lines = source[0] + (starts[row] - starts[0]) * source[1]
        weights_here = address + row * count * 2
        there = target[0] + row * target[1]
        if num_bytes < _LANES:
            weigh_64(lines, source[1], weights_here, count, bits, spare)
            for byte in range(num_bytes):
                store_u8(there + byte, load_u8(spare + byte))
            continue
        for byte in range(0, num_bytes, _LANES):
            at = min(byte, num_bytes - _LANES)
            weigh_64(lines + at, source[1], weights_here, count, bits, there + at)


@inlined
def _address(array: NDArray[Any]) -> Any:
    """Return the address of an array as int64, because Numba computes sums of signed and unsigned numbers as floats."""
    return np.int64(array.ctypes.data)


@inlined
def _rounded(num_bytes: int) -> int:
    return (num_bytes + _LANES - 1) // _LANES * _LANES
