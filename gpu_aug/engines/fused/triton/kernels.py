"""The two Triton kernels of a fused pass: the means that contrast needs, and everything else.

Both run one program per tile and image. A record (see ``triton_record``) tells a program all about its image; what
it says is the same for the whole tile, so a branch on it costs a test and no more.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"
# ruff: noqa: N803, D417, SIM300 - compiled by Triton: no types, constants in capitals

import triton
import triton.language as tl

from gpu_aug.engines.fused.compile.program import Mix
from gpu_aug.engines.fused.triton import record, stages
from gpu_aug.engines.fused.triton.sample import load_at, sample, unit

_KIND = tl.constexpr(record.KIND)
_BORDER = tl.constexpr(record.BORDER)
_MIX = tl.constexpr(record.MIX)
_IS_PROJECTIVE = tl.constexpr(record.IS_PROJECTIVE)
_SIZE = tl.constexpr(record.SIZE)
_VIEW = tl.constexpr(record.VIEW)
_WINDOW = tl.constexpr(record.WINDOW)
_FILL = tl.constexpr(record.FILL)
_SHARE = tl.constexpr(record.SHARE)
_SOURCE = tl.constexpr(record.SOURCE)
_OTHER = tl.constexpr(record.OTHER)
_ADDRESS = tl.constexpr(record.ADDRESS)
_IS_FLOAT = tl.constexpr(record.IS_FLOAT)
_SHIFT = tl.constexpr(record.SHIFT)
_ROW = tl.constexpr(record.ROW)
_OUT = tl.constexpr(record.OUT)
_OUT_STRIDES = tl.constexpr(record.OUT_STRIDES)
_BACK = tl.constexpr(record.BACK)
_BEFORE = tl.constexpr(record.BEFORE)
_FRAME = tl.constexpr(record.FRAME)
_NO_MIX = tl.constexpr(int(Mix.NO_MIX))
_BLEND = tl.constexpr(int(Mix.BLEND))

GENERIC = tl.constexpr(0)
"""Stores along any strides."""
PLANAR = tl.constexpr(1)
"""Columns lie side by side, and each row begins at a multiple of 16 bytes."""
INTERLEAVED = tl.constexpr(2)
"""The three channels of a pixel, then those of the next one."""


@triton.jit
def _image_at(image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts):
    """Where the record of an image begins, as four types, its tables, and its sums of the first round."""
    half = image * (length // 2)
    return (
        words + image * length, floats + image * length, doubles + half, longs + half,
        tables + image * tables_length, sums + image * num_parts,
    )  # fmt: skip


@triton.jit
def _pixels(number, words, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr):
    """The pixels of a tile by its number.

    Returns:
        Height and width of the result; left and top of the tile; its right and bottom; and of its pixels x, y and
        whether they are inside the result, [N].
    """
    height, width = tl.load(words + _SIZE), tl.load(words + _SIZE + 1)
    across = (width + TILE_WIDTH - 1) // TILE_WIDTH
    left, top = (number % across) * TILE_WIDTH, (number // across) * TILE_HEIGHT
    number_in_tile = tl.arange(0, TILE_HEIGHT * TILE_WIDTH)
    x, y = left + number_in_tile % TILE_WIDTH, top + number_in_tile // TILE_WIDTH
    end = (tl.minimum(left + TILE_WIDTH, width), tl.minimum(top + TILE_HEIGHT, height))
    return (height, width), (left, top), end, x, y, (x < width) & (y < height)


@triton.jit
def _source(words, longs):
    """What ``sample`` wants to know of the image described at ``words``, which is at ``longs``."""
    return tl.load(longs), tl.load(words + _IS_FLOAT) != 0, tl.load(words + _SHIFT)


@triton.jit
def _loaded(at, pixels):
    """Load the pixels of a tile and blend them with the second source; three float32 [N]."""
    words, floats, doubles, longs, _, _ = at
    _, tile, _, x, y, inside = pixels
    view_at = words + _VIEW
    view = (tl.load(view_at), tl.load(view_at + 1), tl.load(view_at + 2), tl.load(view_at + 3))
    fill_at = floats + _FILL
    r, g, b = sample(
        tl.load(words + _KIND),
        tl.load(words + _BORDER),
        tl.load(words + _IS_PROJECTIVE) != 0,
        view,
        tl.load(words + _SOURCE + _ROW),
        (tl.load(fill_at), tl.load(fill_at + 1), tl.load(fill_at + 2)),
        (doubles + _BACK // 2, doubles + _BEFORE // 2),
        (tl.load(words + _FRAME), tl.load(words + _FRAME + 1)),
        _source(words + _SOURCE, longs + _SOURCE // 2),
        tile,
        x,
        y,
        inside,
    )
    mix = tl.load(words + _MIX)
    if mix != _NO_MIX:
        other = _source(words + _OTHER, longs + _OTHER // 2)
        r2, g2, b2 = load_at(other, tl.load(words + _OTHER + _ROW), x, y, inside)
        if mix == _BLEND:
            own, others = tl.load(floats + _SHARE), tl.load(floats + _SHARE + 1)
            r = r * own + r2 * others
            g = g * own + g2 * others
            b = b * own + b2 * others
        else:
            window = words + _WINDOW
            cut = (y >= tl.load(window)) & (x >= tl.load(window + 1))
            cut = cut & (y < tl.load(window + 2)) & (x < tl.load(window + 3))
            r, g, b = tl.where(cut, r2, r), tl.where(cut, g2, g), tl.where(cut, b2, b)
    return r, g, b


@triton.jit
def _mean(sums, num_parts, num_pixels, PARTS: tl.constexpr):
    """The mean over an image, from the sums of its parts."""
    part = tl.arange(0, PARTS)
    total = tl.sum(tl.load(sums + part, mask=part < num_parts, other=0.0).to(tl.float64), axis=0)
    return (total / num_pixels.to(tl.float64)).to(tl.float32)


@triton.jit
def _run_stages(at, layout, means, stop, pixels, colour, PARTS: tl.constexpr):
    """Carry out the first ``stop`` stages of an image.

    Args:
        at: See ``_image_at``.
        layout: Where the codes, values, holes, colours and keys lie in a record.
        means: From the sums of a round to those of the next one; how many sums an image has.
        stop: Number of stages.
        pixels: See ``_pixels``.
        colour: Three float32 [N].
        PARTS: See ``sum_gray``.

    Returns:
        Three float32 [N].
    """
    words, floats, _, _, tables, sums = at
    codes, values, holes, colours, keys = layout
    size, tile, end, x, y, inside = pixels
    r, g, b = colour
    num_contrasts = 0
    for stage in range(stop):
        code = tl.load(words + codes + stage)
        v = floats + values + stage * stages.WIDTH
        if code != stages.NOTHING:
            if code == stages.UNIT_MATRIX:
                r, g, b = stages.in_unit(stages.matrix(v, r, g, b))
            elif code == stages.UNIT_SCALE:
                r, g, b = stages.in_unit(stages.scale(v, r, g, b))
            elif code == stages.FREE_SCALE:
                r, g, b = stages.scale(v, r, g, b)
            elif code == stages.FREE_MATRIX:
                r, g, b = stages.matrix(v, r, g, b)
            elif code == stages.MATRIX:
                r, g, b = stages.limit(v, stages.matrix(v, r, g, b))
            elif code == stages.SCALE:
                r, g, b = stages.limit(v, stages.scale(v, r, g, b))
            elif code == stages.CONTRAST:
                mean = _mean(sums + num_contrasts * means[0], means[1], size[0] * size[1], PARTS)
                num_contrasts += 1
                factor = tl.load(v)
                shift = mean * (1.0 - factor)
                r = stages.clamp(r * factor + shift, 0.0, 1.0)
                g = stages.clamp(g * factor + shift, 0.0, 1.0)
                b = stages.clamp(b * factor + shift, 0.0, 1.0)
            elif code == stages.HUE:
                r, g, b = stages.hue(tl.load(v), r, g, b)
            elif code == stages.HOLES:
                r, g, b = stages.paint_holes(
                    v, words + holes, floats + colours, words + keys, size, tile, end, x, y, r, g, b
                )
            elif code == stages.TABLE:
                table = tables + tl.load(v).to(tl.int32) * 768
                r = stages.look_up(table, r, inside)
                g = stages.look_up(table + 256, g, inside)
                b = stages.look_up(table + 512, b, inside)
            elif code == stages.GAMMA:
                gamma = tl.load(v)
                r, g, b = stages.power(r, gamma), stages.power(g, gamma), stages.power(b, gamma)
            elif code == stages.SOLARIZE:
                level = tl.load(v)
                r, g = stages.solarize(r, level), stages.solarize(g, level)
                b = stages.solarize(b, level)
            elif code == stages.ROUND:
                r, g, b = unit(stages.steps(r)), unit(stages.steps(g)), unit(stages.steps(b))
            elif code == stages.FLOOR:
                summand = tl.load(v)
                r, g = unit(stages.floor_steps(r, summand)), unit(stages.floor_steps(g, summand))
                b = unit(stages.floor_steps(b, summand))
            elif code == stages.GRAY_MAX:
                r = tl.maximum(tl.maximum(r, g), b)
                g, b = r, r
            elif code == stages.GRAY_MIDDLE:
                r = (tl.maximum(tl.maximum(r, g), b) + tl.minimum(tl.minimum(r, g), b)) / 2
                g, b = r, r
    return r, g, b


_VARYING = (
    "length", "codes", "values", "holes", "colours", "keys", "tables_length", "num_images", "num_parts",
)  # fmt: skip
"""Triton compiles a kernel anew where a whole number becomes 1 or a multiple of 16, but for these."""


@triton.jit(do_not_specialize=(*_VARYING, "contrasts", "round_"))
def sum_gray(
    words, floats, doubles, longs, tables, sums,
    length, codes, values, holes, colours, keys, tables_length, contrasts, round_, num_images, num_parts,
    PARTS: tl.constexpr, TILES: tl.constexpr, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr,
):  # fmt: skip
    """Sum the gray of a few tiles, as it is before the image's ``round_``-th contrast stage.

    Args:
        words: The records, as int32.
        floats: The same as float32.
        doubles: The same as float64.
        longs: The same as int64.
        tables: float32.
        sums: float32 [R, num_images, num_parts]; the sums of earlier rounds are read.
        length: Length of a record, in words; ``contrasts`` and ``codes`` to ``keys`` are offsets in it.
        tables_length: Length of the tables of one image.
        round_: Which contrast stage, in [0, R).
        num_images: Images of the batch.
        num_parts: Programs for each image.
        PARTS: The power of 2 at or above ``num_parts``.
        TILES: Tiles that a program takes.
        TILE_HEIGHT: In pixels.
        TILE_WIDTH: In pixels.
    """
    image, part = tl.program_id(1), tl.program_id(0)
    stop = tl.load(words + image * length + contrasts + round_)
    if stop >= 0:
        at = _image_at(
            image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts
        )
        layout, means = (codes, values, holes, colours, keys), (num_images * num_parts, num_parts)
        total = tl.zeros([TILE_HEIGHT * TILE_WIDTH], tl.float32)
        for number in range(part * TILES, part * TILES + TILES):
            pixels = _pixels(number, at[0], TILE_HEIGHT, TILE_WIDTH)
            if pixels[1][1] < pixels[0][0]:
                colour = _loaded(at, pixels)
                r, g, b = _run_stages(at, layout, means, stop, pixels, colour, PARTS)
                total += tl.where(pixels[5], stages.gray_of(r, g, b), 0.0)
        tl.store(at[5] + round_ * means[0] + part, tl.sum(total, axis=0))


@triton.jit
def _stored(value, TYPE: tl.constexpr):
    """A value in the type of the result."""
    return stages.steps(value).to(TYPE) if TYPE == tl.uint8 else value.to(TYPE)


@triton.jit
def _store(at, pixels, colour, TYPE: tl.constexpr, LAYOUT: tl.constexpr):
    """Write a tile."""
    words, _, _, longs, _, _ = at
    _, _, _, x, y, inside = pixels
    r, g, b = colour
    out = tl.load(longs + _OUT // 2).to(tl.pointer_type(TYPE))
    by_channel = tl.load(words + _OUT_STRIDES).to(tl.int64)
    by_row = tl.load(words + _OUT_STRIDES + 1)
    by_column = tl.load(words + _OUT_STRIDES + 2)
    if LAYOUT == PLANAR:
        out = tl.multiple_of(out, 16)
        by_channel, by_row = tl.multiple_of(by_channel, 16), tl.multiple_of(by_row, 16)
        by_column = 1
    if LAYOUT == INTERLEAVED:
        by_channel, by_column = 1, 3
    there = out + (y * by_row + x * by_column)
    tl.store(there, _stored(r, TYPE), mask=inside)
    tl.store(there + by_channel, _stored(g, TYPE), mask=inside)
    tl.store(there + 2 * by_channel, _stored(b, TYPE), mask=inside)


@triton.jit(do_not_specialize=(*_VARYING, "num_stages"))
def run_pass(
    words, floats, doubles, longs, tables, sums,
    length, codes, values, holes, colours, keys, tables_length, num_stages, num_images, num_parts,
    PARTS: tl.constexpr, TYPE: tl.constexpr, LAYOUT: tl.constexpr, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr,
):  # fmt: skip
    """Carry out a whole pass for one tile; see ``sum_gray`` for what has the same name.

    Args:
        num_stages: S.
        TYPE: Data type of the results.
        LAYOUT: GENERIC, PLANAR or INTERLEAVED.
    """
    image = tl.program_id(1)
    at = _image_at(
        image, words, floats, doubles, longs, tables, sums, length, tables_length, num_parts
    )
    pixels = _pixels(tl.program_id(0), at[0], TILE_HEIGHT, TILE_WIDTH)
    if pixels[1][1] < pixels[0][0]:
        layout, means = (codes, values, holes, colours, keys), (num_images * num_parts, num_parts)
        colour = _run_stages(at, layout, means, num_stages, pixels, _loaded(at, pixels), PARTS)
        _store(at, pixels, colour, TYPE, LAYOUT)
