"""Functions that add operations which move pixels to the maps of programs.

The map of a pending image is in one of three states, ``Pending.moved``. What an operation does depends on it::

    state      Reorient   Crop inside    Crop that pads     Warp
    -------    --------   -----------    --------------     ----
    CLEAN      joins      joins (view)   joins -> PADDED    joins -> WARPED
    PADDED     joins      joins          if alike           joins -> WARPED, if alike
    WARPED     joins      joins          splits             joins as second warp (frame), or splits

- joins: its matrix is multiplied into ``back``; moves by whole pixels compose exactly.
- (view): the view shrinks to what the crop leaves, so that a border put on later begins there.
- if alike: both fill the border with the same constant; otherwise the image is split.
- (frame): two bilinear warps become one interpolation. ``before`` keeps the first map and ``frame`` the size of the image
  between, so that pixels outside it stay cut off. A third warp splits, and so does the second one with ``exact``, of a
  policy, of nearest pixels, or with a border that is mirrored or differs from the first one's; see ``_why_apart``.
- splits: the images that the operation changes are written first (``Pending.split``), become CLEAN, and it joins.

Whatever the state, a mixed image and one with painted rectangles split before every move. Changed values split before a
Warp and a Crop that pads, for the kernels change values after they load pixels; a contrast splits before every Crop,
which would change the mean that it takes.
"""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.pending import CLEAN, PADDED, WARPED, Pending, Rows
from gpu_aug.engines.fused.compile.program import Border, Kind, Stage
from gpu_aug.ops.geometric.spatial import Crop, Reorient, Spatial, Warp
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.space import PolicyWarp
from gpu_aug.resampling.grid import inverses

_BORDERS = {
    "constant": Border.CONSTANT,
    "edge": Border.EDGE,
    "reflect": Border.REFLECT,
    "symmetric": Border.SYMMETRIC,
}

# Reasons of several operations to split; see `Pending.split`.
_MIXED = "{name} moves pixels of mixed images"
_PAINTED = "{name} moves pixels after rectangles were painted"
_OTHER_PADDING = "{name} samples or pads in another way than {pad}"


def can_move(operation: Operation) -> bool:
    """Return whether ``move`` can add the operation."""
    is_warp = isinstance(operation, Warp) and operation.interpolation != "bicubic"
    return is_warp or isinstance(operation, Reorient | Crop)


@singledispatch
def move(operation: Operation, pending: Pending, params: Params, *, exact: bool) -> None:  # noqa: ARG001
    """Add an operation that moves pixels to the maps of the images whose gate is open.

    Args:
        operation: An operation for which ``can_move`` returns True.
        pending: The programs.
        params: Drawn parameters of all images.
        exact: Whether each Warp interpolates by itself.
    """
    raise AssertionError(operation)


@move.register
def _reorient(operation: Reorient, pending: Pending, params: Params, *, exact: bool) -> None:  # noqa: ARG001
    rows = params["apply"] & (params["transpose"] | params["top_bottom"] | params["left_right"])
    if not rows.any():
        return
    pending.split(operation, rows, {_MIXED: pending.is_mixed, _PAINTED: pending.fixed})
    size = pending.program.size
    [turned] = (rows & params["transpose"]).nonzero()
    if len(turned):
        size[turned] = size[turned, ::-1]
        pending.back[turned, :, :2] = pending.back[turned, :, 1::-1]
    for axis, name in enumerate(("left_right", "top_bottom")):  # x, then y
        flipped = rows & params[name]
        if flipped.any():
            where, along, shift = flipped[:, None], pending.back[:, :, axis], pending.back[:, :, 2]
            np.add(shift, along * size[:, 1 - axis, None], out=shift, where=where)
            np.negative(along, out=along, where=where)


@move.register
def _crop(operation: Crop, pending: Pending, params: Params, *, exact: bool) -> None:  # noqa: ARG001
    rows = params["apply"]
    if not rows.any():
        return
    start, shape = params["start"], params["shape"]
    inside = (start >= 0).all(axis=1) & (start + shape <= pending.program.size).all(axis=1)
    pads = rows & ~inside
    contrast = np.zeros(len(pending), bool)
    if (rows & pending.staged).any():
        contrast = (pending.program.codes == Stage.CONTRAST).any(axis=1)
    reasons = {
        _MIXED: pending.is_mixed,
        _PAINTED: pending.fixed,
        "{name} changes the image whose mean the contrast takes": contrast,
        "{name} pads changed values": pads & pending.staged,
        "{name} pads what {warp} made": pads & (pending.moved == WARPED),
        _OTHER_PADDING: pads & (pending.moved == PADDED) & ~_can_pad(operation, pending),
    }
    pending.split(operation, rows, reasons)
    _cut_view(pending, pads & (pending.moved == PADDED))
    pending.back[rows, :, 2] += pending.back[rows, :, 0] * start[rows, 1:]
    pending.back[rows, :, 2] += pending.back[rows, :, 1] * start[rows, :1]
    pending.program.size[rows] = shape[rows]
    if pads.any():
        pending.moved[pads] = PADDED
        _set_border(operation, pending, pads)
    _cut_view(pending, rows & inside & (pending.moved == CLEAN))


@move.register
def _warp(operation: Warp, pending: Pending, params: Params, *, exact: bool) -> None:
    rows = params["apply"]
    if not rows.any():
        return
    kind = Kind.NEAREST if operation.interpolation == "nearest" else Kind.BILINEAR
    pending.split(operation, rows, _why_apart(operation, pending, kind, exact=exact))
    program, joins = pending.program, rows & (pending.moved == WARPED)
    _cut_view(pending, rows & (pending.moved == PADDED))
    program.frame[joins] = program.size[joins]
    pending.before[joins] = pending.back[joins]
    pending.back[joins] = np.eye(3)
    back = inverses(operation.forward(params, program.size.astype(np.int64))[rows])
    pending.back[rows] = pending.back[rows] @ back
    program.kind[rows] = kind
    pending.moved[rows] = WARPED
    _set_border(operation, pending, rows)
    _leave_out_singular(pending, rows)
    if "shape" in params:
        program.size[rows] = params["shape"][rows]


def _why_apart(operation: Warp, pending: Pending, kind: Kind, *, exact: bool) -> dict[str, Rows]:
    """Return the reasons why a warp cannot join the map, each with a mask of the images that it applies to."""
    program, warped = pending.program, pending.moved == WARPED
    reasons = {
        _MIXED: pending.is_mixed,
        _PAINTED: pending.fixed,
        "{name} interpolates values that {values} changed": pending.staged,
    }
    if (pending.moved == PADDED).any():
        reasons[_OTHER_PADDING] = (pending.moved == PADDED) & ~_can_pad(operation, pending)
    if not warped.any():
        return reasons
    own = "{name} has an interpolation of its own" + ", as exact=True asks for" * exact
    mirrors = operation.padding_mode in ("reflect", "symmetric")
    nearest = (program.kind == Kind.NEAREST) | (kind == Kind.NEAREST)
    other = ~_same_border(operation, pending)
    return reasons | {
        own: warped & (exact or isinstance(operation, PolicyWarp)),
        "{name} or {warp} takes nearest pixels": warped & nearest,
        "{name} samples or pads in another way than {warp}": warped & other,
        "{name} mirrors what lies in the frame between, which one interpolation cannot": warped
        & mirrors,
        "{name} would be a third warp, and a pass composes two": warped & (program.frame[:, 0] > 0),
    }


def _leave_out_singular(pending: Pending, rows: Rows) -> None:
    """Make images whose matrix has no inverse sample outside the view, so that only the fill shows."""
    lost = rows & ~np.isfinite(pending.back).all(axis=(1, 2))
    pending.back[lost] = ((0, 0, -9), (0, 0, -9), (0, 0, 1))
    pending.program.border[lost] = Border.CONSTANT


def _border(operation: Spatial) -> Border:
    kind = (operation.padding_mode, operation.interpolation, operation.blend)
    if isinstance(operation, Warp) and kind == ("constant", "bilinear", "twice"):
        return Border.CONSTANT_TWICE
    return _BORDERS[operation.padding_mode]


def _fill(operation: Spatial) -> NDArray[np.float32]:
    return np.broadcast_to(np.asarray(operation.fill, np.float64), 3).astype(np.float32)


def _set_border(operation: Spatial, pending: Pending, rows: Rows) -> None:
    pending.program.border[rows] = _border(operation)
    pending.program.fill[rows] = _fill(operation)


def _same_border(operation: Spatial, pending: Pending) -> Rows:
    """Return a mask of the images whose border is the one that the operation asks for."""
    border = _border(operation)
    same: Rows = pending.program.border == border
    if border in (Border.CONSTANT, Border.CONSTANT_TWICE):
        same &= (pending.program.fill == _fill(operation)).all(axis=1)
    return same


def _can_pad(operation: Spatial, pending: Pending) -> Rows:
    """Return a mask of the padded images that can be padded or warped again: both borders fill with the same constant."""
    if _border(operation) != Border.CONSTANT:
        return np.zeros(len(pending), bool)
    same: Rows = (pending.moved == PADDED) & _same_border(operation, pending)
    return same


def _cut_view(pending: Pending, rows: Rows) -> None:
    """Shrink the view of ``rows`` to the part that the result shows; their maps must be moves by whole pixels."""
    if not rows.any():
        return
    back, size = pending.back[rows], pending.program.size[rows]
    corners = np.zeros((len(size), 3, 2))  # of the frame, in continuous coordinates
    corners[:, :2, 1], corners[:, 2] = size[:, ::-1], 1
    seen = (back @ corners)[:, :2]
    view = pending.program.view[rows]
    low = np.clip(seen.min(axis=2)[:, ::-1], 0, view[:, 2:]).astype(np.int32)
    high = np.clip(seen.max(axis=2)[:, ::-1], 0, view[:, 2:]).astype(np.int32)
    pending.program.view[rows] = np.concatenate([view[:, :2] + low, high - low], axis=1)
    back[:, :2, 2] -= low[:, ::-1]
    pending.back[rows] = back
