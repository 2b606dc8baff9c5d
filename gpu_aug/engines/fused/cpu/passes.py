"""Compiled functions that carry out a program for all images of a pass in one call."""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import inlined, inner, kernel
from gpu_aug.engines.fused.compile.program import NUM_VALUES, VIEW_FIELD, Mix, Program, Stage
from gpu_aug.engines.fused.cpu import colors
from gpu_aug.engines.fused.cpu.byte_tables import NUM_BYTES
from gpu_aug.engines.fused.cpu.copies import copies_bytes, copy_image
from gpu_aug.engines.fused.cpu.fold import fold
from gpu_aug.engines.fused.cpu.holes import paint
from gpu_aug.engines.fused.cpu.lines import UINT8, to_bytes, write
from gpu_aug.engines.fused.cpu.memory import Integer, Real, fence, floats_at
from gpu_aug.engines.fused.cpu.points import Between
from gpu_aug.engines.fused.cpu.sampling import (
    EDGE,
    NEAREST,
    WHOLE,
    View,
    load_between,
    load_mapped,
    load_sampled,
    load_whole,
    look_up,
)

# Plain integers for the compiled functions.
(
    NOTHING,
    SCALE,
    MATRIX,
    CONTRAST,
    HUE,
    GAMMA,
    SOLARIZE,
    TABLE,
    ROUND,
    FLOOR,
    GRAY_MAX,
    GRAY_MIDDLE,
    HOLES,
) = (int(stage) for stage in Stage)
NO_MIX, BLEND, CUT = (int(mix) for mix in Mix)

SPARE_BYTES = 52
"""Scratch for each pixel of a line: 36 bytes for ``sampling``, 12 for a second line, 4 for sums."""

TABLES_BYTES = 3 * NUM_BYTES * (4 + 1 + 1)
"""Scratch for tables of bytes: float32, uint8 and scratch of `write`, each [3, NUM_BYTES]."""

# The map of a second image; see "2. Blend" in `program`.
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@kernel
def run(
    program: Any,
    sources: Any,
    others: Any,
    outs: Any,
    dtype: Integer,
    memory: Any,
    is_streamed: bool,
) -> None:
    """Carry out a program and write the results.

    Args:
        program: The Program.
        sources: Source images, int64 [B, 5]; see ``describe_images``.
        others: Second source images, int64 [B, 5]; read only for images with a ``mix``.
        outs: Results, int64 [B, 4]; see ``describe_outs``.
        dtype: Dtype of the results: UINT8, FLOAT16, BFLOAT16 or FLOAT32 of ``lines``.
        memory: Scratch memory, uint8: TABLES_BYTES, SPARE_BYTES + 12 for each pixel of a line, and 12 more for each pixel
            of an image that has a CONTRAST.
        is_streamed: Whether the results are written past the cache; see ``stream`` of ``memory``.
    """
    _run(program, sources, others, outs, dtype, memory, is_streamed, True)


@kernel
def run_plain(
    program: Any,
    sources: Any,
    others: Any,
    outs: Any,
    dtype: Integer,
    memory: Any,
    is_streamed: bool,
) -> None:
    """Carry out a program that `is_plain`, with the arguments of ``run``; it takes half the time to compile."""
    _run(program, sources, others, outs, dtype, memory, is_streamed, False)


def is_plain(program: Program) -> bool:
    """Return whether `run_plain` can carry out a program.

    Its maps may only crop, flip and move by whole pixels; there is no mix, and there are only the most frequent stages.
    """
    is_whole = not program.kind.any() and not program.mix.any()
    return bool(is_whole and (program.codes <= HUE).all())


@inlined
def _run(
    program: Any, sources: Any, others: Any, outs: Any, dtype: Integer, memory: Any, is_streamed: bool, is_full: bool,
) -> None:  # fmt: skip
    codes = np.empty(program.codes.shape[1] + 1, np.int32)
    values = np.empty((program.codes.shape[1] + 1, NUM_VALUES), np.float32)
    for image in range(len(program.size)):
        num = np.int64(0)
        for stage in range(program.codes.shape[1]):
            if program.codes[image, stage] != NOTHING:
                codes[num] = program.codes[image, stage]
                for index in range(NUM_VALUES):
                    values[num, index] = program.values[image, stage, index]
                num += 1
        _run_image(
            program, image, _view(program, image, sources), _view(program, image, others), outs[image], dtype,
            codes, values, num, np.int64(memory.ctypes.data), is_streamed, is_full,
        )  # fmt: skip
    fence()


@inlined
def _view(program: Any, image: Integer, sources: Any) -> View:
    """Return the View of an image that the program describes.

    For a second source this is the full image, because images that are mixed have no other view.
    """
    fill, view = program.fill[image], program[VIEW_FIELD][image]
    is_float, row_bytes = sources[image, 1], sources[image, 2]
    pixel_bytes = 12 if is_float else 3
    return View(
        sources[image, 0] + np.int64(view[0]) * row_bytes + np.int64(view[1]) * pixel_bytes,
        is_float,
        row_bytes,
        np.int64(view[2]),
        np.int64(view[3]),
        np.int64(program.border[image]),
        fill[0],
        fill[1],
        fill[2],
    )


@inlined
def _between(program: Any, image: Integer) -> Between:
    m = program.before[image]
    return Between(
        np.int64(program.frame[image, 0]),
        np.int64(program.frame[image, 1]),
        (m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]),
        program.border[image] == EDGE,
    )


@inlined
def _run_image(
    program: Any, image: Integer, view: View, other: View, out: Any, dtype: Integer, codes: Any, values: Any, num: Integer, tables: Integer, is_streamed: bool, is_full: bool,
) -> None:  # fmt: skip
    """Carry out the program of one image, line by line, up to each CONTRAST, which needs the mean of all lines.

    Numba leaves out the code behind ``if is_full`` if that is a constant False.
    """
    if dtype == UINT8 and copies_bytes(program, image, view, out, codes, values, num):
        copy_image(program, image, view, out, values, num)
        return
    height, width = np.int64(program.size[image, 0]), np.int64(program.size[image, 1])
    address, across, down, along = out[0], out[1], out[2], out[3]
    item = 1 if dtype == UINT8 else (4 if dtype == 3 else 2)
    spare = tables + TABLES_BYTES
    second, total = spare + 36 * width, spare + 48 * width
    lines = spare + SPARE_BYTES * width
    pitch = np.int64(0)
    for stage in range(num):
        if codes[stage] == CONTRAST:
            pitch = 12 * width
    back = program.back[image]
    map_ = (back[0], back[1], back[2], back[3], back[4], back[5], back[6], back[7], back[8])
    between = _between(program, image)
    kind = np.int64(program.kind[image])
    mix = program.mix[image]
    window, share = program.window[image], program.share[image]
    first, is_loaded = np.int64(0), False  # a plain 0 would have `fold` compiled twice
    is_mapped = False
    low, high = _range(view, mix)
    while True:
        last = first
        while last < num and codes[last] != CONTRAST:
            last += 1
        low, high = fold(codes, values, first, last, low, high)
        if not is_loaded and _keeps_bytes(program, image, view, height, width):
            num_mapped, is_mapped = _count_mapped(codes, num)
            if dtype == UINT8 and num_mapped == num:
                levels = _fill_tables(codes, values, num, program.tables[image], tables)
                if back[0] == 1.0 and back[4] == 1.0 and view.stride == 3 * width == down:
                    width, height = width * height, np.int64(1)
                for y in range(height):
                    start = address + y * down
                    look_up(view, map_, y, levels, start, across, along, width, lines)
                return
            if is_mapped:
                _fill_tables(codes, values, num_mapped, program.tables[image], tables)
                first = num_mapped
        sums = floats_at(total, width)
        for x in range(width):
            sums[x] = 0
        for y in range(height):
            line = lines + pitch * y
            if not is_loaded:
                if is_mapped:
                    load_mapped(view, map_, y, tables, line, width)
                elif not is_full or kind == WHOLE:
                    load_whole(view, map_, y, line, width)
                elif between.height:
                    load_between(view, map_, between, y, line, width, spare)
                else:
                    load_sampled(view, kind == NEAREST, map_, y, line, width, spare)
                if is_full and mix != NO_MIX:
                    load_whole(other, _IDENTITY, y, second, width)
                    if mix == BLEND:
                        colors.mix(line, width, second, share[0], share[1])
                    elif window[0] <= y < window[2]:
                        colors.paste(line, width, second, np.int64(window[1]), np.int64(window[3]))
            for stage in range(first, last):
                code, v = codes[stage], np.int64(values[stage].ctypes.data)
                if code < CONTRAST:
                    if code == SCALE:
                        colors.scale(line, width, v)
                    elif code == MATRIX:
                        colors.matrix(line, width, v)
                elif code == HUE:
                    colors.hue(line, width, v)
                elif is_full:
                    _carry_out(program, image, y, line, width, height, code, v)
            if last == num:
                start = address + y * down * item
                write(start, dtype, across, along, line, width, spare, is_streamed)
            else:
                colors.add_gray(line, width, total)
        if last == num:
            return
        mean = 0.0
        for x in range(width):
            mean += sums[x]
        _use_mean(np.float32(mean / (height * width)), values[last])
        codes[last] = SCALE
        first, is_loaded = last, True


@inner
def _keeps_bytes(program: Any, image: Integer, view: View, height: Integer, width: Integer) -> Any:
    """Return whether all values are bytes of the source when they are loaded, so that tables can map them.

    The map may only crop and flip, and all pixels must lie in the view.
    """
    if program.kind[image] != WHOLE or program.mix[image] != NO_MIX or view.is_float:
        return False
    back = program.back[image]
    # The tables are computed in the time of about as many pixels.
    if back[1] != 0.0 or height * width < 4 * NUM_BYTES:
        return False
    for y in (0, height - 1):
        for x in (0, width - 1):
            column = np.floor(back[0] * (x + 0.5) + back[2])
            row = np.floor(back[4] * (y + 0.5) + back[5])
            if not (0 <= column < view.width and 0 <= row < view.height):
                return False
    return True


@inner
def _count_mapped(codes: Any, num: Integer) -> Any:
    """Return how many of the first stages change each channel by itself, and whether tables are faster for floating results.

    Of these stages a power, and a look-up itself, take more time than looking up a float32.
    """
    count, is_faster = np.int64(0), False
    while count < num:
        code = codes[count]
        if code not in (NOTHING, SCALE, GAMMA, SOLARIZE, TABLE, ROUND, FLOOR):
            break
        is_faster |= code in (GAMMA, TABLE)
        count += 1
    return count, is_faster


@inner
def _fill_tables(codes: Any, values: Any, num: Integer, given: Any, tables: Integer) -> Any:
    """Carry out stages on all values of a byte.

    Args:
        codes: Codes of the stages.
        values: Arguments of the stages.
        num: Number of stages.
        given: Lookup tables of the image.
        tables: Address of TABLES_BYTES; the results for each byte, float32 [3, NUM_BYTES], come first.

    Returns:
        Address of the results for each byte as uint8 [3, NUM_BYTES], which follow.
    """
    numbers = floats_at(tables, 3 * NUM_BYTES)
    for channel in range(3):
        for byte in range(NUM_BYTES):
            numbers[channel * NUM_BYTES + byte] = np.float32(byte) / np.float32(255)
    width = np.int64(NUM_BYTES)
    for stage in range(num):
        code, v = codes[stage], np.int64(values[stage].ctypes.data)
        if code == SCALE:
            colors.scale(tables, width, v)
        elif code != NOTHING:
            _change_channels(tables, width, code, v, given)
    levels = tables + 12 * width
    to_bytes(tables, 3 * width, levels)  # `write` would be compiled again for these types
    return levels


@inlined
def _range(view: View, mix: Integer) -> Any:
    """Return the smallest and the largest value that a pixel can have when it is loaded."""
    if view.is_float or mix != NO_MIX:
        return np.float32(-np.inf), np.float32(np.inf)
    zero, one = np.float32(0), np.float32(1)
    low, high = min(view.red, view.green, view.blue), max(view.red, view.green, view.blue)
    return min(low, zero), max(high, one)


@inlined
def _use_mean(mean: Real, v: Any) -> None:
    """Replace the arguments of a CONTRAST, in place, by those of the SCALE that does the same with this mean."""
    factor = v[0]
    for index in range(NUM_VALUES):
        v[index] = 0
    for channel in range(3):
        v[5 * channel] = factor
        v[4 * channel + 3] = mean * (np.float32(1) - factor)
        v[15 + channel] = 1


@inner
def _change_channels(line: Integer, width: Integer, code: Integer, v: Integer, tables: Any) -> None:
    """Apply one of the less frequent stages that change each channel by itself to a line."""
    if code == GAMMA:
        colors.gamma(line, width, v)
    elif code == SOLARIZE:
        colors.solarize(line, width, v)
    elif code == TABLE:
        number = np.int64(floats_at(v, 1)[0])
        colors.table(line, width, np.int64(tables[number].ctypes.data))
    else:
        colors.whole(line, width, code == ROUND, v)


@inlined
def _carry_out(
    program: Any,
    image: Integer,
    y: Integer,
    line: Integer,
    width: Integer,
    height: Integer,
    code: Integer,
    v: Integer,
) -> None:
    """Apply one of the less frequent stages to line ``y``."""
    if code in (GAMMA, SOLARIZE, TABLE, ROUND, FLOOR):
        _change_channels(line, width, code, v, program.tables[image])
    elif code in (GRAY_MAX, GRAY_MIDDLE):
        colors.gray(line, width, code == GRAY_MIDDLE)
    elif code == HOLES:
        arguments = floats_at(v, 4)
        first, is_noise = np.int64(arguments[0]), arguments[2] == 1
        key = program.keys[image, np.int64(arguments[3])]
        for hole in range(first, first + np.int64(arguments[1])):
            rectangle = program.holes[image, hole]
            if rectangle[0] <= y < rectangle[2]:
                paint(
                    line, width, y, height, rectangle, program.colours[image, hole], is_noise, key
                )
