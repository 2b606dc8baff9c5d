"""Operations that change values, as stages of programs."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import Params
from gpu_aug.engines.fused.compile.pending import Pending
from gpu_aug.engines.fused.compile.program import Stage
from gpu_aug.ops import (
    ColorJitter,
    Gamma,
    Grayscale,
    Invert,
    Normalize,
    Operation,
    Solarize,
    ToDtype,
)
from gpu_aug.ops.boxes import OnTargets
from gpu_aug.ops.color.jitter import FACTORS, JitterStep
from gpu_aug.ops.color.lookup_tables import HistogramTable, Table
from gpu_aug.ops.color.matrices import ColorMatrix
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.ops.policy.space import ROUND_UP, PolicyWarp

GRAY = (0.299, 0.587, 0.114)  # ITU-R BT.601, as torchvision and OpenCV weigh
# Plain integers for the compiled function.
SCALE, CONTRAST, HUE = int(Stage.SCALE), int(Stage.CONTRAST), int(Stage.HUE)


class Columns(NamedTuple):
    """The slices of a program that the stages of one operation are written to.

    Attributes:
        codes: Codes of the stages, int32 [B, n]; those of closed gates are reset afterwards.
        values: Arguments of the stages, float32 [B, n, NUM_VALUES], zero until written.
        pending: The programs, which collect tables, rectangles and keys.
        first: Index of the first of these stages in the program.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.float32]
    pending: Pending
    first: int


class Stages(NamedTuple):
    """How an operation becomes stages of a program.

    Attributes:
        num: Largest number of stages.
        write: Function that writes the stages of all images, whether their gate is open or not.
        fixed: Whether a stage depends on the position of pixels.
    """

    num: int
    write: Callable[[Params, Columns], None]
    fixed: bool = False


# Of operations that change no values.
NO_STAGES = Stages(0, lambda _params, _columns: None)


@singledispatch
def stages(operation: Operation) -> Stages | None:  # noqa: ARG001 - for registered
    """Return how ``operation`` becomes stages of a program, or None if it cannot."""
    return None


@stages.register
def _keep(_: OnTargets) -> Stages:
    return NO_STAGES


@stages.register
def _normalize(operation: Normalize) -> Stages:
    std = np.array(operation.std)
    return _fixed_matrix(
        np.diag(1 / std), -np.array(operation.mean) / std, limits=(-np.inf, np.inf)
    )


@stages.register
def _invert(_: Invert) -> Stages:
    return _fixed_matrix(-np.eye(3), np.ones(3), limits=(-np.inf, np.inf))


@stages.register
def _grayscale(operation: Grayscale) -> Stages | None:
    if operation.method == "from_lab":
        return None
    if operation.method in ("max", "desaturation"):
        return _plain(Stage.GRAY_MAX if operation.method == "max" else Stage.GRAY_MIDDLE)
    weights = np.array(GRAY) if operation.method == "weighted_average" else np.full(3, 1 / 3)
    return _fixed_matrix(np.tile(weights, (3, 1)), np.zeros(3), limits=(-np.inf, np.inf))


@stages.register
def _color_matrix(operation: ColorMatrix) -> Stages | None:
    if operation.reads_image:
        return None

    def write(params: Params, columns: Columns) -> None:
        matrix = params["matrix"]
        is_diagonal = (matrix[:, :, :3][:, ~np.eye(3, dtype=bool)] == 0).all(axis=1)
        columns.codes[:, 0] = np.where(is_diagonal, Stage.SCALE, Stage.MATRIX)
        columns.values[:, 0, :12] = matrix.reshape(-1, 12)
        columns.values[:, 0, 12:15], columns.values[:, 0, 15:] = operation.limits

    return Stages(1, write)


@stages.register
def _jitter(operation: ColorJitter) -> Stages:
    neutral = {"hue": (0, 0)}  # of the others a factor of 1
    used = np.array([getattr(operation, name) != neutral.get(name, (1, 1)) for name in FACTORS])

    def write(params: Params, columns: Columns) -> None:
        factors = np.array([params[name] for name in FACTORS])
        _write_steps(columns, params["order"], factors, used)

    return Stages(4, write)


@stages.register
def _jitter_step(operation: JitterStep) -> Stages:
    number = FACTORS.index(operation.step)

    def write(params: Params, columns: Columns) -> None:
        factors = np.zeros((4, len(columns.codes)))
        factors[number] = params["factor"]
        order = np.full((len(columns.codes), 1), number)
        _write_steps(columns, order, factors, np.ones(4, bool))

    return Stages(1, write)


# A jitter step of factor f is f * plain + (1 - f) * gray.
_PLAIN_MATRIX = np.eye(3, 4).ravel()
_GRAY_MATRIX = np.tile((*GRAY, 0), 3)
_CODES = np.array([Stage.SCALE, Stage.CONTRAST, Stage.MATRIX, Stage.HUE], np.int32)
"""The stages of FACTORS."""


def _write_steps(
    columns: Columns,
    order: NDArray[np.int64],
    factors: NDArray[np.float64],
    used: NDArray[np.bool_],
) -> None:
    """Write jitter steps as stages.

    Args:
        columns: Where the stages are written.
        order: Indices into FACTORS in the order of application, int64 [B, n].
        factors: Drawn factors, float64 [4, B].
        used: Which of FACTORS the operation changes, bool [4]; others are skipped.
    """
    program = columns.pending.program
    _write_factors(
        np.ascontiguousarray(order), factors, used, columns.first, program.codes, program.values
    )


@CompiledAtFirstCall
def _write_factors(
    order: Any, factors: Any, used: Any, first: int, codes: Any, values: Any
) -> None:
    """Write jitter steps from stage ``first`` on; compiled, because NumPy would release the GIL a dozen times."""
    for row in range(len(order)):
        for place in range(order.shape[1]):
            step = order[row, place]
            if not used[step]:
                continue
            factor, v = factors[step, row], values[row, first + place]
            code = _CODES[step]
            codes[row, first + place] = code
            if code in (CONTRAST, HUE):
                v[0] = factor
                continue
            for index in range(12):
                plain, gray = _PLAIN_MATRIX[index], _GRAY_MATRIX[index]
                v[index] = factor * plain if code == SCALE else gray + factor * (plain - gray)
            v[15:] = 1


@stages.register
def _policy_warp(operation: PolicyWarp) -> Stages | None:
    """Return the stage that rounds down after the warp."""
    if operation.interpolation != "bilinear":
        return None

    def write(_: Params, columns: Columns) -> None:
        columns.codes[:, 0] = Stage.FLOOR
        columns.values[:, 0, 0] = ROUND_UP

    return Stages(1, write)


@stages.register
def _gamma(_: Gamma) -> Stages:
    return _plain(Stage.GAMMA, "gamma")


@stages.register
def _solarize(_: Solarize) -> Stages:
    return _plain(Stage.SOLARIZE, "threshold")


@stages.register
def _to_dtype(operation: ToDtype) -> Stages:
    if operation.dtype != "uint8":
        return NO_STAGES
    if operation.floor is None:
        return _plain(Stage.ROUND)
    factor, summand = operation.floor
    scale = _fixed_matrix(factor * np.eye(3), np.zeros(3), limits=(-np.inf, np.inf))

    def write(params: Params, columns: Columns) -> None:
        scale.write(params, columns)
        columns.codes[:, 1] = Stage.FLOOR
        columns.values[:, 1, 0] = summand

    return Stages(2, write)


@stages.register
def _table(operation: Table) -> Stages:
    return Stages(1, lambda params, columns: _write_tables(columns, operation.tables(params)))


@stages.register
def _histogram_table(operation: HistogramTable) -> Stages:
    """Return the stage of images on the CPU: only their histograms are counted before the next pass."""

    def write(params: Params, columns: Columns) -> None:
        from gpu_aug.engines.backends.tables import histogram

        images, counts = columns.pending.images, np.zeros((len(columns.codes), 3, 256), np.int64)
        for row in np.flatnonzero(params["apply"]):
            counts[row] = histogram(images[row].numpy())
        _write_tables(columns, operation.tables(torch.from_numpy(counts)).numpy())

    return Stages(1, write)


def _write_tables(columns: Columns, tables: NDArray[np.uint8]) -> None:
    columns.codes[:, 0] = Stage.TABLE
    unit = tables.astype(np.float32) / np.float32(255)
    columns.values[:, 0, 0] = columns.pending.add_tables(unit)


@stages.register
def _holes(operation: Holes) -> Stages | None:
    paint = operation.paint
    if paint == "normal":  # by the logarithm and the cosine of torch, which differ in the last bit
        return None

    def write(params: Params, columns: Columns) -> None:
        holes = params["holes"]
        if paint == "random_uniform":
            colours = params["colours"]
        else:
            colours = np.broadcast_to(
                0.0 if isinstance(paint, str) else paint, (*holes.shape[:2], 3)
            )
        columns.codes[:, 0] = Stage.HOLES
        columns.values[:, 0, 0] = columns.pending.add_holes(holes, colours)
        columns.values[:, 0, 1] = holes.shape[1]
        if paint == "random":
            columns.values[:, 0, 2] = 1
            columns.values[:, 0, 3] = columns.pending.add_keys(params["key"])

    return Stages(1, write, fixed=True)


def _plain(code: Stage, name: str | None = None) -> Stages:
    """Return how an operation becomes one stage with one drawn argument, or with none if ``name`` is None."""

    def write(params: Params, columns: Columns) -> None:
        columns.codes[:, 0] = code
        if name is not None:
            columns.values[:, 0, 0] = params[name]

    return Stages(1, write)


def _fixed_matrix(
    matrix: NDArray[np.float64], shift: NDArray[np.float64], *, limits: tuple[float, float]
) -> Stages:
    """Return how an operation becomes one MATRIX or SCALE stage that is equal for all images."""
    arguments = np.concatenate([np.column_stack([matrix, shift]).ravel(), np.repeat(limits, 3)])
    code = Stage.SCALE if np.array_equal(matrix, np.diag(np.diag(matrix))) else Stage.MATRIX

    def write(_: Params, columns: Columns) -> None:
        columns.codes[:, 0] = code
        columns.values[:, 0] = arguments

    return Stages(1, write)
