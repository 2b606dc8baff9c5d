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
def _coordinates(number, size, TILE_HEIGHT: tl.constexpr, TILE_WIDTH: tl.constexpr):
    """Left and top of a tile by its number, right and bottom, and x, y and inside of its pixels."""
    height, width = size
    across = (width + TILE_WIDTH - 1) // TILE_WIDTH
    left, top = (number % across) * TILE_WIDTH, (number // across) * TILE_HEIGHT
    place = tl.arange(0, TILE_HEIGHT * TILE_WIDTH)
    x, y = left + place % TILE_WIDTH, top + place // TILE_WIDTH
    end = (tl.minimum(left + TILE_WIDTH, width), tl.minimum(top + TILE_HEIGHT, height))
    return (left, top), end, x, y, (x < width) & (y < height)


@triton.jit
def _source(words, longs):
    """What ``sample`` wants to know of the image described at ``words``, which is at ``longs``."""
    return tl.load(longs), tl.load(words + _IS_FLOAT) != 0, tl.load(words + _SHIFT)


@triton.jit
def _loaded(words, floats, doubles, longs, tile, x, y, inside):
    """Load the pixels of a tile and blend them with the second source; three float32 [N]."""
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
            at = words + _WINDOW
            cut = (y >= tl.load(at)) & (x >= tl.load(at + 1))
            cut = cut & (y < tl.load(at + 2)) & (x < tl.load(at + 3))
            r, g, b = tl.where(cut, r2, r), tl.where(cut, g2, g), tl.where(cut, b2, b)
    return r, g, b


@triton.jit
def _mean(sums, num_parts, num_pixels, PARTS: tl.constexpr):
    """The mean over an image, from the sums of its parts."""
    part = tl.arange(0, PARTS)
    total = tl.sum(tl.load(sums + part, mask=part < num_parts, other=0.0).to(tl.float64), axis=0)
    return (total / num_pixels.to(tl.float64)).to(tl.float32)


@triton.jit
def _run_stages(
    words, floats, layout, tables, sums, round_length, num_parts, stop, size, tile, end,
    x, y, inside, r, g, b, PARTS: tl.constexpr,
):  # fmt: skip
    """Carry out the first ``stop`` stages of an image; three float32 [N]."""
    codes, values, holes, colours, keys = layout
    num_contrasts = 0
    for place in range(stop):
        code = tl.load(words + codes + place)
        v = floats + values + place * stages.WIDTH
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
                mean = _mean(
                    sums + num_contrasts * round_length, num_parts, size[0] * size[1], PARTS
                )
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
    words += image * length
    stop = tl.load(words + contrasts + round_)
    if stop >= 0:
        floats += image * length
        doubles += image * (length // 2)
        longs += image * (length // 2)
        tables += image * tables_length
        size = (tl.load(words + _SIZE), tl.load(words + _SIZE + 1))
        own = sums + image * num_parts
        total = tl.zeros([TILE_HEIGHT * TILE_WIDTH], tl.float32)
        for number in range(part * TILES, part * TILES + TILES):
            tile, end, x, y, inside = _coordinates(number, size, TILE_HEIGHT, TILE_WIDTH)
            if tile[1] < size[0]:
                r, g, b = _loaded(words, floats, doubles, longs, tile, x, y, inside)
                r, g, b = _run_stages(
                    words, floats, (codes, values, holes, colours, keys), tables, own,
                    num_images * num_parts, num_parts, stop, size, tile, end, x, y, inside, r, g, b, PARTS,
                )  # fmt: skip
                total += tl.where(inside, stages.gray_of(r, g, b), 0.0)
        tl.store(own + round_ * (num_images * num_parts) + part, tl.sum(total, axis=0))


@triton.jit
def _stored(value, TYPE: tl.constexpr):
    """A value in the type of the result."""
    return stages.steps(value).to(TYPE) if TYPE == tl.uint8 else value.to(TYPE)


@triton.jit
def _store(
    words, longs, x, y, inside, r, g, b, TYPE: tl.constexpr, LAYOUT: tl.constexpr,
):  # fmt: skip
    """Write a tile."""
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
    at = out + (y * by_row + x * by_column)
    tl.store(at, _stored(r, TYPE), mask=inside)
    tl.store(at + by_channel, _stored(g, TYPE), mask=inside)
    tl.store(at + 2 * by_channel, _stored(b, TYPE), mask=inside)


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
    words += image * length
    size = (tl.load(words + _SIZE), tl.load(words + _SIZE + 1))
    tile, end, x, y, inside = _coordinates(tl.program_id(0), size, TILE_HEIGHT, TILE_WIDTH)
    if tile[1] < size[0]:
        floats += image * length
        doubles += image * (length // 2)
        longs += image * (length // 2)
        tables += image * tables_length
        r, g, b = _loaded(words, floats, doubles, longs, tile, x, y, inside)
        r, g, b = _run_stages(
            words, floats, (codes, values, holes, colours, keys), tables, sums + image * num_parts,
            num_images * num_parts, num_parts, num_stages, size, tile, end, x, y, inside, r, g, b, PARTS,
        )  # fmt: skip
        _store(words, longs, x, y, inside, r, g, b, TYPE, LAYOUT)
