"""Fused programs for tests, and what NumPy makes of them in float64."""

import colorsys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.engines.fused.compile.program import NUM_VALUES, Border, Kind, Program, Stage
from gpu_aug.random_fields import uniform_field

Image = NDArray[np.float64]
"""float64 [height, width, 3]."""

PAD = 48
"""How far beside the view the reference looks."""

_PAD_MODES = {
    Border.CONSTANT: "constant",
    Border.CONSTANT_TWICE: "constant",
    Border.EDGE: "edge",
    Border.REFLECT: "reflect",
    Border.SYMMETRIC: "symmetric",
}


def make_program(
    num: int, size: tuple[int, int], source: tuple[int, int], /, **fields: Any
) -> Program:
    """A program of ``num`` images that copies the top left of the source, but for what is given.

    Stages are given as ``stages``, a list of (code, values).
    """
    stages = fields.pop("stages", [])
    program: dict[str, Any] = {
        "codes": np.zeros((num, len(stages)), np.int32),
        "values": np.zeros((num, len(stages), NUM_VALUES), np.float32),
        "kind": np.full(num, Kind.WHOLE, np.int32),
        "back": np.eye(3).reshape(1, 9).repeat(num, axis=0),
        "frame": np.zeros((num, 2), np.int32),
        "before": np.eye(3).reshape(1, 9).repeat(num, axis=0),
        "view": np.array([[0, 0, *source]] * num, np.int32),
        "border": np.zeros(num, np.int32),
        "fill": np.zeros((num, 3), np.float32),
        "size": np.array([size] * num, np.int32),
        "mix": np.zeros(num, np.int32),
        "share": np.zeros((num, 2), np.float32),
        "window": np.zeros((num, 4), np.int32),
        "tables": np.zeros((num, 0, 3, 256), np.float32),
        "holes": np.zeros((num, 0, 4), np.int32),
        "colours": np.zeros((num, 0, 3), np.float32),
        "keys": np.zeros((num, 0, 2), np.uint32),
    }
    for place, (code, values) in enumerate(stages):
        program["codes"][:, place] = code
        program["values"][:, place, : len(values)] = values
    for name, values in fields.items():
        default = program[name]
        given = np.asarray(values, default.dtype)
        whole = given if given.ndim == default.ndim else np.broadcast_to(given, (num, *given.shape))
        program[name] = np.ascontiguousarray(whole)
    return Program(**program)


def reference(program: Program, row: int, image: NDArray[Any]) -> Image:
    """What a program without a second image makes of one image."""
    value = _sampled(program, row, _values(image))
    for code, v in zip(program.codes[row].tolist(), program.values[row].astype(float), strict=True):
        value = _changed(Stage(code), v, value, program, row)
    return value


def _values(image: NDArray[Any]) -> Image:
    return image / 255 if image.dtype == np.uint8 else image.astype(np.float64)


def _sampled(program: Program, row: int, image: Image) -> Image:
    """Sample a padded copy of the view; padding is NumPy's."""
    top, left, height, width = program.view[row].tolist()
    border, fill = Border(int(program.border[row])), program.fill[row].astype(float)
    view = image[top : top + height, left : left + width]
    exists = np.ones((*view.shape[:2], 1))
    around = ((PAD, PAD), (PAD, PAD), (0, 0))
    padded = np.pad(np.concatenate([view - fill, exists], axis=2), around, _PAD_MODES[border])
    rows, columns = np.mgrid[: program.size[row, 0], : program.size[row, 1]] + 0.5
    points = np.stack([columns.ravel(), rows.ravel(), np.ones(rows.size)])
    x, y, z = program.back[row].reshape(3, 3) @ points
    x, y = x / z, y / z
    cover = np.ones((len(x), 1))
    if program.frame[row, 0]:
        x, y, cover = _through_frame(program, row, x, y)
    if program.kind[row] == Kind.BILINEAR:
        taken = _between(padded, x - 0.5 + PAD, y - 0.5 + PAD)
    else:
        taken = padded[np.floor(y).astype(int) + PAD, np.floor(x).astype(int) + PAD]
    values, covered = taken[:, :3], taken[:, 3:]
    if border == Border.CONSTANT_TWICE:  # the sum over the pixels inside, without the fill
        values = (values + fill * covered - fill) * covered
        values = (values * cover - fill * (1 - cover)) * cover
    elif border == Border.CONSTANT:
        values = values * cover
    return np.asarray(values + fill).reshape(*rows.shape, 3)


def _through_frame(
    program: Program, row: int, x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Lead points of the frame between on to the view, and weigh the pixels that the frame has."""
    height, width = program.frame[row].tolist()
    # A white frame on black, sampled: what is inside of it.
    white = np.pad(np.ones((height, width, 1)), ((PAD, PAD), (PAD, PAD), (0, 0)))
    cover = _between(white, x - 0.5 + PAD, y - 0.5 + PAD)
    nearest = np.stack([x.clip(0.5, width - 0.5), y.clip(0.5, height - 0.5), np.ones(len(x))])
    x, y, z = program.before[row].reshape(3, 3) @ nearest
    return x / z, y / z, cover


def _between(
    padded: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    total = np.zeros((len(x), padded.shape[2]))
    for down in (0, 1):
        for right in (0, 1):
            line, column = np.floor(y) + down, np.floor(x) + right
            weight = (1 - np.abs(y - line)) * (1 - np.abs(x - column))
            total += weight[:, None] * padded[line.astype(int), column.astype(int)]
    return total


def _changed(
    code: Stage, v: NDArray[np.float64], value: Image, program: Program, row: int
) -> Image:
    match code:
        case Stage.SCALE | Stage.MATRIX:
            linear = v[:12].reshape(3, 4)
            return np.clip(value @ linear[:, :3].T + linear[:, 3], v[12:15], v[15:18])
        case Stage.CONTRAST:
            mean = (value @ (0.299, 0.587, 0.114)).mean()
            return np.clip(value * v[0] + mean * (1 - v[0]), 0, 1)
        case Stage.HUE:
            return np.apply_along_axis(lambda pixel: _turned(pixel, v[0]), 2, value)
        case Stage.GAMMA:
            return np.asarray(np.maximum(value, 0) ** v[0])
        case Stage.SOLARIZE:
            return np.where(value >= v[0], 1 - value, value)
        case Stage.TABLE:
            steps = np.clip(np.rint(255 * value), 0, 255).astype(int)
            table = program.tables[row, int(v[0])].astype(float)
            return np.stack([table[c][steps[..., c]] for c in range(3)], axis=2)
        case Stage.ROUND:
            return np.clip(np.rint(255 * value), 0, 255) / 255
        case Stage.FLOOR:
            return np.clip(np.floor(255 * value + v[0]), 0, 255) / 255
        case Stage.GRAY_MAX:
            return np.repeat(value.max(axis=2, keepdims=True), 3, axis=2)
        case Stage.GRAY_MIDDLE:
            middle = (value.max(axis=2, keepdims=True) + value.min(axis=2, keepdims=True)) / 2
            return np.repeat(middle, 3, axis=2)
        case Stage.HOLES:
            return _with_holes(v, value, program, row)
    return value


def _turned(pixel: NDArray[np.float64], turns: float) -> tuple[float, float, float]:
    hue, saturation, brightness = colorsys.rgb_to_hsv(*pixel)
    return colorsys.hsv_to_rgb((hue + turns) % 1, saturation, brightness)


def _with_holes(v: NDArray[np.float64], value: Image, program: Program, row: int) -> Image:
    value = value.copy()
    first, count, paint = (int(number) for number in v[:3])
    for number in range(first, first + count):
        top, left, bottom, right = np.maximum(program.holes[row, number], 0).tolist()
        colour: NDArray[Any] = program.colours[row, number]
        if paint:
            key = program.keys[row, int(v[3])][None]
            noise = uniform_field(key, (3, *value.shape[:2]), torch.device("cpu"))[0].numpy()
            colour = noise.transpose(1, 2, 0)[top:bottom, left:right]
        value[top:bottom, left:right] = colour
    return value
