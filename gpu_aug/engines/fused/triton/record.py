"""Packing of a Program and the addresses of its images into one record of 4-byte words per image, which GPU kernels read."""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.compiled.jit import inlined, kernel, record_at, signed
from gpu_aug.engines.fused.addresses import Images, describe_images, describe_outs
from gpu_aug.engines.fused.compile.program import (
    NUM_VALUES,
    VIEW_FIELD,
    Border,
    Kind,
    Program,
    Stage,
)

SOURCE = np.dtype(
    [("address", "i8"), ("is_float", "i4"), ("shift", "i4"), ("row", "i4")], align=True
)
"""An image that is read: the address of its first pixel rounded down to a multiple of 4, whether it is float32, how many
bytes the pixel begins behind that address, and the values from row to row."""

RECORD = np.dtype(
    [
        *((name, "i4") for name in ("kind", "border", "mix", "is_projective")),
        *(("size", "i4", 2), ("visible", "i4", 4), ("window", "i4", 4)),
        *(("fill", "f4", 3), ("share", "f4", 2)),
        *(("source", SOURCE), ("other", SOURCE)),
        *(("out", "i8"), ("out_strides", "i4", 3)),
        *(("back", "f8", 9), ("before", "f8", 9), ("frame", "i4", 2)),
        *(("affine", "i8", (2, 3)), ("slopes", "f4", (2, 2))),
    ],
    align=True,
)
"""The fixed part of a record; behind it stand the arrays of `Layout`.

Fields of a Program have its names, but ``visible`` is its ``view``: Numba takes that name for the method of arrays.
``kind`` may also be NEAR. ``out`` is the address of the result and ``out_strides`` are
its strides in values, of channels, rows and columns. For WHOLE and NEAR ``affine`` is ``back`` in units of 2**-32, from
whole numbers of pixels to points (of WHOLE) or to points less half a pixel (of NEAR), and ``slopes`` are its factors.
"""

ANCHOR = 32
"""Points of NEAR are counted from every ANCHOR-th row and column, so that tiles of other sizes give the same ones."""
NEAR = 3
"""The kind of an image that is BILINEAR along an affine map, with a border that is not mirrored, and within FAR."""
FAR = 2.0**22
"""A point beyond this distance counts as one at it: pixels are counted in float32, which holds half a pixel up to here."""

# Features: what some image of a batch has, as bits. Kernels are compiled for the sets of them that occur.
HAS_NEAR, HAS_EXACT, HAS_FLOATS, HAS_MIX, HAS_COLOUR, HAS_HOLES, HAS_RARE = 1, 2, 4, 8, 16, 32, 64
"""NEAR; kinds whose points are found in float64; a float32 source; a mix; MATRIX, CONTRAST or HUE; HOLES; another stage
than these and SCALE."""
# The feature of each stage, and the same as a tuple, which compiled functions can index.
_OF_STAGES = dict.fromkeys(Stage, HAS_RARE) | {
    **dict.fromkeys((Stage.NOTHING, Stage.SCALE), 0),
    **dict.fromkeys((Stage.MATRIX, Stage.CONTRAST, Stage.HUE), HAS_COLOUR),
    Stage.HOLES: HAS_HOLES,
}
_FEATURES = tuple(_OF_STAGES[stage] for stage in Stage)
# Plain integers for the compiled function.
_CONTRAST = int(Stage.CONTRAST)
_WHOLE, _NEAREST, _BILINEAR = map(int, Kind)
_CONSTANT, _REFLECT, _SYMMETRIC = (
    int(border) for border in (Border.CONSTANT, Border.REFLECT, Border.SYMMETRIC)
)
_UNITS = 2.0**32  # see `RECORD`
_WORD_BYTES = 4  # records are arrays of int32

_record_at = record_at(RECORD)


def offsets(dtype: "np.dtype[np.void]", *names: str) -> list[int]:
    """Return the offsets of fields in a record, in words."""
    assert dtype.fields is not None
    return [dtype.fields[name][1] // _WORD_BYTES for name in names]


class Layout(NamedTuple):
    """Offsets, in words, of the arrays with several entries per image in a record.

    Attributes:
        contrasts: Offset of the indices of the contrast stages, int32 [R]; unused ones are -1.
        codes: Offset of the codes of stages, int32 [S].
        values: Offset of the arguments of stages, float32 [S, NUM_VALUES].
        holes: Offset of the rectangles, int32 [N, 4].
        colours: Offset of the colours of rectangles, float32 [N, 3].
        keys: Offset of the keys of noise, uint32 [K, 2].
        length: Length of a record, in words; even, so that 8-byte fields are aligned.
    """

    contrasts: int
    codes: int
    values: int
    holes: int
    colours: int
    keys: int
    length: int


class Packed(NamedTuple):
    """A program and its images in the form that the kernels read.

    Attributes:
        words: The records, then the program's tables, int32 on the host, pinned for a GPU.
        records: View of the records in ``words``, int32 [B, Layout.length].
        tables_start: Index in ``words`` at which the tables begin.
        layout: Offsets in a record.
        num_contrasts: Largest number of contrast stages that an image has.
        features: Features that some image has, as bits.
        is_aligned: Whether all rows of all results begin at multiples of 16 bytes and are multiples of 16 bytes long.
        is_interleaved: Whether the results are stored with the channels of a pixel next to each other.
        is_planar: Whether the results are stored by channel, with channels multiples of 16 bytes apart.
    """

    words: Tensor
    records: NDArray[np.int32]
    tables_start: int
    layout: Layout
    num_contrasts: int
    features: int
    is_aligned: bool
    is_interleaved: bool
    is_planar: bool


def pack(program: Program, images: Images, others: Images | None, outs: Images) -> Packed:
    """Return a program with its images as the records that the kernels read.

    Args:
        program: A program of B images.
        images: The B source images.
        others: The B second source images, or None if no image has one.
        outs: The B results.
    """
    first = outs if isinstance(outs, Tensor) else outs[0]
    assert first is not None
    num, num_stages = program.codes.shape
    num_contrasts = int((program.codes == Stage.CONTRAST).sum(axis=1).max(initial=0))
    num_holes, num_keys = program.holes.shape[1], program.keys.shape[1]
    lengths = num_contrasts, num_stages, num_stages * NUM_VALUES, 4 * num_holes, 3 * num_holes
    ends = [*accumulate((*lengths, 2 * num_keys), initial=RECORD.itemsize // _WORD_BYTES)]
    ends[-1] += ends[-1] % 2
    layout = Layout(*ends)
    # Triton compiles kernels anew for tables that do not begin at a multiple of 16 bytes.
    tables_start = num * layout.length + -num * layout.length % 4
    # Torch gives pinned memory out again only after the copy that reads it.
    words = torch.empty(
        tables_start + program.tables.size,
        dtype=torch.int32,
        pin_memory=first.device.type == "cuda",
    )
    array = words.numpy()
    array[tables_start:] = program.tables.reshape(-1).view(np.int32)
    records = array[: num * layout.length].reshape(num, layout.length)
    sources = describe_images(images)
    seconds = np.zeros_like(sources) if others is None else describe_images(others)
    told = _write_records(
        program, sources, seconds, describe_outs(outs), first.itemsize, layout, records
    )
    return Packed(words, records, tables_start, layout, num_contrasts, *told)


@kernel
def _write_records(
    program: Any, sources: Any, others: Any, outs: Any, itemsize: int, layout: Any, records: Any
) -> Any:
    """Write the records of all images.

    Args:
        program: The Program.
        sources: Source images; see ``describe_images``.
        others: Second source images; see ``describe_images``.
        outs: Results; see ``describe_outs``.
        itemsize: Bytes of a value of the results.
        layout: The offsets of a Layout.
        records: The records, int32 [B, Layout.length]; every word is written.

    Returns:
        features, is_aligned, is_interleaved and is_planar of Packed.
    """
    contrasts, codes, values = layout.contrasts, layout.codes, layout.values
    holes, colours, keys = layout.holes, layout.colours, layout.keys
    records[:] = 0
    records[:, contrasts:codes] = -1
    floats, unsigned = records.view(np.float32), records.view(np.uint32)
    features = 0
    is_aligned = is_interleaved = is_planar = True
    for row in range(len(records)):
        words = records[row]
        record = _record_at(signed(words.ctypes.data))
        _write_map(program, row, record)
        kind = record.kind
        record.mix = program.mix[row]
        record.size[:] = program.size[row]
        record.visible[:] = program[VIEW_FIELD][row]
        record.window[:] = program.window[row]
        record.fill[:] = program.fill[row]
        record.share[:] = program.share[row]
        _write_source(sources[row], record.source)
        _write_source(others[row], record.other)
        record.out = outs[row, 0]
        record.out_strides[:] = outs[row, 1:]
        by_channel, by_row, by_column = outs[row, 1], outs[row, 2], outs[row, 3]
        lines = outs[row, 0] | by_row * itemsize | np.int64(program.size[row, 1]) * itemsize
        is_aligned &= lines % 16 == 0
        is_interleaved &= by_channel == 1 and by_column == 3
        is_planar &= by_column == 1 and by_channel * itemsize % 16 == 0
        for number in range(program.holes.shape[1]):
            words[holes + 4 * number : holes + 4 * number + 4] = program.holes[row, number]
            start = colours + 3 * number
            floats[row, start : start + 3] = program.colours[row, number]
        for number in range(program.keys.shape[1]):
            unsigned[row, keys + 2 * number : keys + 2 * number + 2] = program.keys[row, number]
        features |= HAS_FLOATS if sources[row, 1] or others[row, 1] else 0
        features |= HAS_NEAR if kind == NEAR else 0
        features |= HAS_EXACT if kind not in (NEAR, _WHOLE) else 0
        features |= HAS_MIX if program.mix[row] else 0
        num_contrasts = 0
        for stage in range(program.codes.shape[1]):
            code = program.codes[row, stage]
            words[codes + stage] = code
            for index in range(NUM_VALUES):  # a copy of a slice takes twice as long
                floats[row, values + NUM_VALUES * stage + index] = program.values[row, stage, index]
            features |= _FEATURES[code]
            if code == _CONTRAST:
                words[contrasts + num_contrasts] = stage
                num_contrasts += 1
    return features, is_aligned, is_interleaved, is_planar


@inlined
def _write_map(program: Any, row: int, record: Any) -> None:
    """Write the fields of a record that describe the map from the result to the source."""
    back, before, size = program.back[row], program.before[row], program.size[row]
    view = program[VIEW_FIELD][row]
    has_frame = program.frame[row, 0] > 0
    is_projective = back[6] != 0 or back[7] != 0 or back[8] != 1
    if has_frame:
        is_projective |= before[6] != 0 or before[7] != 0 or before[8] != 1
    is_empty = view[2] == 0 or view[3] == 0  # no pixel can be read: all of the result is fill
    own_kind = program.kind[row]
    kind = _WHOLE if is_empty else own_kind
    border = _CONSTANT if is_empty else program.border[row]
    is_mirrored = border in (_REFLECT, _SYMMETRIC)
    if kind == _WHOLE and is_mirrored:
        kind = _NEAREST
    is_affine = not is_projective and not has_frame
    for start in (0, 3):
        reach = abs(back[start]) * (size[1] + 1) + abs(back[start + 1]) * (size[0] + 1)
        is_affine &= abs(back[start + 2]) + reach < FAR
    if kind == _BILINEAR and is_affine and not is_mirrored:
        kind = NEAR
    record.kind, record.border, record.is_projective = kind, border, is_projective
    record.frame[:] = program.frame[row]
    record.back[:] = back
    record.before[:] = before
    if kind == NEAR or (kind == _WHOLE and own_kind == _WHOLE):
        half = 0.5 if kind == NEAR else 0.0
        for axis in range(2):
            along, down, shift = back[3 * axis], back[3 * axis + 1], back[3 * axis + 2]
            shift += (along + down) * 0.5 - half
            record.affine[axis, 0] = np.int64(np.rint(along * _UNITS))
            record.affine[axis, 1] = np.int64(np.rint(down * _UNITS))
            record.affine[axis, 2] = np.int64(np.rint(shift * _UNITS))
            record.slopes[axis, 0], record.slopes[axis, 1] = along, down


@inlined
def _write_source(source: Any, field: Any) -> None:
    """Write a SOURCE of a record, given a row of ``describe_images``."""
    address, is_float = source[0], source[1]
    field.shift = 0 if is_float else address & 3
    field.address = address - field.shift
    field.is_float = is_float
    field.row = source[2] // (4 if is_float else 1)
