"""The arrays of a Program, with the addresses of its images, as one record of 4-byte words per image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.fused.compile.program import NUM_VALUES, Border, Kind, Program, Stage

Images = Tensor | Sequence[Tensor | None]

# Offsets of the fields in a record, in words; the kernels use these names.
KIND, BORDER, MIX, IS_PROJECTIVE = 0, 1, 2, 3
SIZE, VIEW, WINDOW = 4, 6, 10
FILL, SHARE = 14, 17
SOURCE, OTHER = 20, 26
ADDRESS, IS_FLOAT, SHIFT, ROW = 0, 2, 3, 4
"""Within SOURCE and OTHER."""
OUT, OUT_STRIDES = 32, 34
BACK = 38
BEFORE = 56
FRAME = 74
AFFINE = 76
"""``back`` for WHOLE and NEAR: int64 [6], in units of 2**-32, from whole numbers of pixels to points (of WHOLE) or to points
less half a pixel (of NEAR)."""
SLOPES = 88
"""float32 [4]: its factors."""
FIXED = 92
"""Here begin the stages at which the contrast stages stand, then the arrays of ``Layout``."""
ANCHOR = 32
"""Points of NEAR are counted from every ANCHOR-th row and column, so that tiles of other sizes give the same ones."""
NEAR = 3
"""The kind of an image that is BILINEAR along an affine map, with a border that is not mirrored, and within FAR."""
FAR = 2.0**22
"""A point beyond this distance counts as one at it: pixels are counted in float32."""

# Features: what some image of a batch has, as bits. Kernels are compiled for the sets of them that occur.
HAS_NEAR, HAS_EXACT, HAS_FLOATS, HAS_MIX, HAS_COLOUR, HAS_HOLES, HAS_RARE = 1, 2, 4, 8, 16, 32, 64
"""NEAR; kinds whose points are found in float64; a float32 source; a mix; MATRIX, CONTRAST or HUE; HOLES; another stage
than these and SCALE."""
_OF_STAGES = {
    HAS_COLOUR: (Stage.MATRIX, Stage.CONTRAST, Stage.HUE),
    HAS_HOLES: (Stage.HOLES,),
    HAS_RARE: (
        *(Stage.GAMMA, Stage.SOLARIZE, Stage.TABLE, Stage.ROUND, Stage.FLOOR),
        *(Stage.GRAY_MAX, Stage.GRAY_MIDDLE),
    ),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the arrays of several entries per image begin in a record, in words.

    Attributes:
        contrasts: int32 [R], the numbers of the contrast stages; -1 for none.
        codes: int32 [S].
        values: float32 [S, NUM_VALUES].
        holes: int32 [N, 4].
        colours: float32 [N, 3].
        keys: uint32 [K, 2].
        length: Length of a record, in words; even, so that 8-byte fields are aligned.
    """

    contrasts: int
    codes: int
    values: int
    holes: int
    colours: int
    keys: int
    length: int


def pack(
    program: Program, images: Images, others: Images | None, outs: Images
) -> tuple[NDArray[np.int32], Layout, int]:
    """Make the records.

    Args:
        program: Of B images.
        images: B sources.
        others: B second sources, or None.
        outs: B results.

    Returns:
        int32 [B, Layout.length]; the layout; R, the largest number of contrast stages of one image.
    """
    contrasts = _contrasts(program.codes)
    num, num_contrasts = contrasts.shape
    num_stages, num_holes = program.codes.shape[1], program.holes.shape[1]
    ends = np.cumsum(
        [
            FIXED,
            num_contrasts,
            num_stages,
            num_stages * NUM_VALUES,
            num_holes * 4,
            num_holes * 3,
            program.keys.shape[1] * 2,
        ]
    ).tolist()
    ends[-1] += ends[-1] % 2
    layout = Layout(*ends)
    records = np.zeros((num, layout.length), np.int32)

    def put(offset: int, values: NDArray[np.generic]) -> None:
        words = np.ascontiguousarray(values).reshape(num, -1).view(np.int32)
        records[:, offset : offset + words.shape[1]] = words

    kind, border = _kinds(program)
    put(KIND, kind)
    put(BORDER, border)
    put(MIX, program.mix)
    put(IS_PROJECTIVE, _is_projective(program).astype(np.int32))
    put(SIZE, program.size)
    put(VIEW, program.view)
    put(WINDOW, program.window)
    put(FILL, program.fill)
    put(SHARE, program.share)
    put(SOURCE, _describe_sources(images, num))
    if others is not None:
        put(OTHER, _describe_sources(others, num))
    addresses, strides = _describe_outs(outs, num)
    put(OUT, addresses)
    put(OUT_STRIDES, strides)
    put(BACK, program.back)
    put(BEFORE, program.before)
    put(FRAME, program.frame)
    fixed, slopes = _affine(program, kind)
    put(AFFINE, fixed)
    put(SLOPES, slopes)
    for offset, array in (
        (layout.contrasts, contrasts),
        (layout.codes, program.codes),
        (layout.values, program.values),
        (layout.holes, program.holes),
        (layout.colours, program.colours),
        (layout.keys, program.keys),
    ):
        if array.size:
            put(offset, array)
    return records, layout, num_contrasts


def find_features(records: NDArray[np.int32], program: Program) -> int:
    """The features of a batch, from its records."""
    kind = records[:, KIND]
    is_float = records[:, [SOURCE + IS_FLOAT, OTHER + IS_FLOAT]]
    features = HAS_NEAR * int((kind == NEAR).any()) | HAS_FLOATS * int(is_float.any())
    features |= HAS_EXACT * int(((kind != NEAR) & (kind != Kind.WHOLE)).any())
    features |= HAS_MIX * int(program.mix.any())
    there = set(np.unique(program.codes).tolist())
    return features | sum(bit for bit, codes in _OF_STAGES.items() if not there.isdisjoint(codes))


def _kinds(program: Program) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Kinds, NEAR among them, and borders, int32 [B]."""
    is_empty = (program.view[:, 2:] == 0).any(axis=1)  # nothing can be read: all of it is fill
    kind = np.where(is_empty, Kind.WHOLE, program.kind).astype(np.int32)
    border = np.where(is_empty, Border.CONSTANT, program.border).astype(np.int32)
    is_mirrored = (border == Border.REFLECT) | (border == Border.SYMMETRIC)
    kind[(kind == Kind.WHOLE) & is_mirrored] = Kind.NEAREST
    with np.errstate(invalid="ignore", over="ignore"):
        reach = np.abs(program.back[:, :6].reshape(-1, 2, 3))
        farthest = reach[:, :, 2] + (reach[:, :, :2] * (program.size[:, None, ::-1] + 1)).sum(
            axis=2
        )
    is_affine = (farthest < FAR).all(axis=1) & ~_is_projective(program) & (program.frame[:, 0] == 0)
    kind[(kind == Kind.BILINEAR) & is_affine & ~is_mirrored] = NEAR
    return kind, border


def _affine(
    program: Program, kind: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The fields AFFINE, int64 [B, 6], and SLOPES, float32 [B, 4]; 0 for other kinds."""
    is_near, is_whole = kind == NEAR, (kind == Kind.WHOLE) & (program.kind == Kind.WHOLE)
    back = np.where((is_near | is_whole)[:, None], program.back[:, :6], 0.0)
    slopes = back[:, [0, 1, 3, 4]].astype(np.float32)
    back[:, 2::3] += (back[:, 0::3] + back[:, 1::3]) * 0.5 - 0.5 * is_near[:, None]
    return np.rint(back * 2.0**32).astype(np.int64), slopes


def _is_projective(program: Program) -> NDArray[np.bool_]:
    """Whether one of its maps is projective, bool [B]."""
    projective: NDArray[np.bool_] = (program.back[:, 6:] != (0, 0, 1)).any(axis=1)
    before: NDArray[np.bool_] = (program.before[:, 6:] != (0, 0, 1)).any(axis=1)
    projective |= before & (program.frame[:, 0] > 0)
    return projective


def _contrasts(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    """The numbers of each image's contrast stages, int32 [B, R], then -1."""
    is_contrast = codes == Stage.CONTRAST
    count = is_contrast.sum(axis=1)
    numbers = np.argsort(~is_contrast, axis=1, kind="stable")[:, : count.max(initial=0)]
    kept = np.arange(numbers.shape[1]) < count[:, None]
    return np.where(kept, numbers, -1).astype(np.int32)


def _describe_sources(images: Images, num: int) -> NDArray[np.int32]:
    """The fields of SOURCE, int32 [B, 5]."""
    fields = np.zeros((num, 5), np.int32)
    if isinstance(images, Tensor):
        step = images.stride(0) * images.itemsize
        addresses = images.data_ptr() + step * np.arange(num, dtype=np.int64)
        fields[:, ROW] = images.stride(1)
        fields[:, IS_FLOAT] = images.dtype == torch.float32
    else:
        present = [image is not None for image in images]
        given = [image for image in images if image is not None]
        addresses = np.zeros(num, np.int64)
        addresses[present] = [image.data_ptr() for image in given]
        fields[present, ROW] = [image.stride(0) for image in given]
        fields[present, IS_FLOAT] = [image.dtype == torch.float32 for image in given]
    shift = np.where(fields[:, IS_FLOAT] == 1, 0, addresses & 3)
    fields[:, SHIFT] = shift
    fields[:, ADDRESS : ADDRESS + 2] = (addresses - shift).view(np.int32).reshape(num, 2)
    return fields


def _describe_outs(outs: Images, num: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Addresses, int64 [B], and strides of channel, row and column, int32 [B, 3]."""
    strides = np.empty((num, 3), np.int32)
    if isinstance(outs, Tensor):
        strides[:] = outs.stride()[1:]
        step = outs.stride(0) * outs.itemsize
        return outs.data_ptr() + step * np.arange(num, dtype=np.int64), strides
    given = [out for out in outs if out is not None]
    strides[:] = [out.stride() for out in given]
    return np.array([out.data_ptr() for out in given], np.int64), strides
