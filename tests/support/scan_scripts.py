"""Writes JPEGs with any script of scans: which coefficients each scan brings, and how precisely.

Procedures as in ITU-T T.81, annexes F.1.2 and G.1.2; whether what comes out is right is for libjpeg-turbo to say.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Part:
    """A component: sampling factors, and int [rows, columns, 64] coefficients in zigzag order, in whole MCUs."""

    across: int
    down: int
    blocks: NDArray[np.int64]


@dataclass
class Script:
    """A scan.

    Attributes:
        parts: Numbers of the components.
        first: First coefficient.
        last: Last coefficient.
        high: Bit position of the scan before, 0 for none.
        low: Bit position of this one.
        restart: MCUs to an interval, 0 for no restart markers.
    """

    parts: Sequence[int]
    first: int = 0
    last: int = 63
    high: int = 0
    low: int = 0
    restart: int = 0


@dataclass
class _Bits:
    """Codes and other bits of one restart interval: (table, symbol) or (value, number of bits)."""

    items: list[tuple[str, int, int]] = field(default_factory=list)

    def code(self, table: int, symbol: int) -> None:
        self.items.append(("code", table, symbol))

    def bits(self, value: int, count: int) -> None:
        self.items.append(("bits", value, count))

    def number(self, value: int) -> None:
        """The bits of a number behind its size."""
        size = abs(value).bit_length()
        self.bits(value if value > 0 else value + (1 << size) - 1, size)


def draw_parts(
    rng: np.random.Generator, size: tuple[int, int], samplings: Sequence[tuple[int, int]], most: int
) -> list[Part]:
    """Components with random coefficients, most of them zero, the larger the rarer."""
    across, down = (max(pair[axis] for pair in samplings) for axis in (0, 1))
    rows, columns = -(-size[0] // (8 * down)), -(-size[1] // (8 * across))
    parts = []
    for wide, high in samplings:
        shape = rows * high, columns * wide, 64
        sizes = np.minimum(rng.geometric(0.35, shape) - 1, most.bit_length())
        blocks = rng.integers(-(1 << sizes), (1 << sizes) + 1) * (rng.random(shape) < 0.3)
        blocks[rng.random(shape[:2]) < 0.4, 1:] = 0
        parts.append(Part(wide, high, np.clip(blocks, -most, most)))
    return parts


def write_scans(
    size: tuple[int, int],
    parts: Sequence[Part],
    scripts: Sequence[Script],
    *,
    progressive: bool,
    long_codes: bool = False,
) -> bytes:
    """Write a JPEG.

    Args:
        size: Height and width.
        parts: One or three components.
        scripts: The scans.
        progressive: Whether it is a progressive JPEG; else every scan is of all coefficients.
        long_codes: Whether codes are up to 16 bits long; else all codes of a table have one length.
    """
    steps = bytes([0, *range(1, 65)])
    frame = bytes([8, *size[0].to_bytes(2), *size[1].to_bytes(2), len(parts)])
    for number, part in enumerate(parts):
        frame += bytes([number + 1, part.across << 4 | part.down, 0])
    data = b"\xff\xd8" + _segment(0xDB, steps) + _segment(0xC2 if progressive else 0xC0, frame)
    restart = 0
    for script in scripts:
        if script.restart != restart:
            data += _segment(0xDD, script.restart.to_bytes(2))
            restart = script.restart
        data += _write_scan(size, parts, script, progressive, long_codes)
    return data + b"\xff\xd9"


def _segment(marker: int, body: bytes) -> bytes:
    return bytes([255, marker]) + (len(body) + 2).to_bytes(2) + body


def _write_scan(
    size: tuple[int, int],
    parts: Sequence[Part],
    script: Script,
    progressive: bool,
    long_codes: bool,
) -> bytes:
    units = list(_units(size, parts, script.parts))
    step = script.restart or len(units)
    put = _putter(script) if progressive else _put_sequential
    intervals = []
    for begin in range(0, len(units), step):
        intervals.append(_Bits())
        put(intervals[-1], script, units[begin : begin + step])
    codes = _codes(intervals, long_codes)
    tables = b"".join(
        bytes([name, *np.bincount([n for _, n in of.values()], minlength=17)[1:], *of])
        for name, of in codes.items()
    )
    header = bytes([len(script.parts)])
    for number in script.parts:
        header += bytes([number + 1, (number % 2) << 4 | number % 2])
    header += bytes([script.first, script.last, script.high << 4 | script.low])
    body = b""
    for number, interval in enumerate(intervals):
        body += bytes([255, 0xD0 + (number - 1) % 8]) if number else b""
        body += _stuffed(interval, codes)
    return (_segment(0xC4, tables) if tables else b"") + _segment(0xDA, header) + body


_Unit = list[tuple[int, NDArray[np.int64]]]


def _units(size: tuple[int, int], parts: Sequence[Part], chosen: Sequence[int]) -> Iterator[_Unit]:
    """The MCUs of a scan: component and block of each."""
    down, across = max(part.down for part in parts), max(part.across for part in parts)
    if len(chosen) == 1:
        part = parts[chosen[0]]
        rows = -(-size[0] * part.down // (8 * down))
        columns = -(-size[1] * part.across // (8 * across))
        for row in range(rows):
            for column in range(columns):
                yield [(chosen[0], part.blocks[row, column])]
        return
    for row in range(-(-size[0] // (8 * down))):
        for column in range(-(-size[1] // (8 * across))):
            yield [
                (one, parts[one].blocks[row * parts[one].down + y, column * parts[one].across + x])
                for one in chosen
                for y in range(parts[one].down)
                for x in range(parts[one].across)
            ]


def _putter(script: Script) -> Callable[[_Bits, Script, list[_Unit]], None]:
    if script.first == 0:
        return _put_dc
    return _put_ac_refine if script.high else _put_ac


def _put_dc(out: _Bits, script: Script, units: list[_Unit]) -> None:
    before = [0] * 3
    for unit in units:
        for part, block in unit:
            value = int(block[0]) >> script.low
            if script.high:
                out.bits(value & 1, 1)
            else:
                _put_step(out, part, value, before)


def _put_step(out: _Bits, part: int, value: int, before: list[int]) -> None:
    step, before[part] = value - before[part], value
    out.code(part % 2, abs(step).bit_length())
    out.number(step)


def _put_sequential(out: _Bits, _script: Script, units: list[_Unit]) -> None:
    before = [0] * 3
    for unit in units:
        for part, block in unit:
            _put_step(out, part, int(block[0]), before)
            if _put_band(out, 0x10 | part % 2, block[1:]):
                out.code(0x10 | part % 2, 0)


def _put_band(out: _Bits, table: int, band: NDArray[np.int64]) -> bool:
    """Write a band up to its last coefficient; whether it goes on with zeros."""
    run = 0
    for value in band.tolist():
        if value == 0:
            run += 1
            continue
        while run > 15:
            out.code(table, 0xF0)
            run -= 16
        out.code(table, run << 4 | abs(value).bit_length())
        out.number(value)
        run = 0
    return run > 0


def _put_ac(out: _Bits, script: Script, units: list[_Unit]) -> None:
    empty, table = 0, 0x10 | script.parts[0] % 2
    for [(_, block)] in units:
        band = block[script.first : script.last + 1]
        band = np.sign(band) * (np.abs(band) >> script.low)
        if band.any():
            _put_empty(out, table, empty, [])
            empty = 0
        empty += not band.any() or _put_band(out, table, band)
    _put_empty(out, table, empty, [])


def _put_empty(out: _Bits, table: int, empty: int, behind: list[int]) -> None:
    """Write how many blocks have nothing new, and the bits of what they have."""
    if empty:
        size = empty.bit_length() - 1
        out.code(table, size << 4)
        out.bits(empty - (1 << size), size)
    for bit in behind:
        out.bits(bit, 1)


def _put_ac_refine(out: _Bits, script: Script, units: list[_Unit]) -> None:
    table = 0x10 | script.parts[0] % 2
    empty, behind = 0, list[int]()
    for [(_, block)] in units:
        signs = block[script.first : script.last + 1].tolist()
        sizes = [abs(value) >> script.low for value in signs]
        last_new = max((at for at, one in enumerate(sizes) if one == 1), default=-1)
        run, bits = 0, list[int]()
        for at, one in enumerate(sizes):
            if one == 0:
                run += 1
                continue
            while run > 15 and at <= last_new:
                _put_empty(out, table, empty, behind)
                empty, behind = 0, []
                out.code(table, 0xF0)
                _put_empty(out, table, 0, bits)
                run, bits = run - 16, []
            if one > 1:
                bits.append(one & 1)
                continue
            _put_empty(out, table, empty, behind)
            empty, behind = 0, []
            out.code(table, run << 4 | 1)
            _put_empty(out, table, 0, [int(signs[at] > 0), *bits])
            run, bits = 0, []
        if run or bits:
            empty += 1
            behind += bits
    _put_empty(out, table, empty, behind)


Codes = dict[int, dict[int, tuple[int, int]]]
"""By table, by symbol: code and its length, in the order of the codes."""


def _codes(intervals: Sequence[_Bits], long_codes: bool) -> Codes:
    used: dict[int, set[int]] = {}
    for interval in intervals:
        for kind, table, symbol in interval.items:
            if kind == "code":
                used.setdefault(table, set()).add(symbol)
    found: Codes = {}
    for table, symbols in sorted(used.items()):
        length = len(symbols).bit_length()
        lengths = [length] * len(symbols)
        if long_codes:  # one code of each of the shortest lengths, all others have the longest one
            lengths = [at + 1 for at in range(min(8, len(symbols)))] + [16] * (len(symbols) - 8)
        code, before, found[table] = 0, lengths[0], {}
        for symbol, length in zip(sorted(symbols), lengths, strict=True):
            code <<= length - before
            found[table][symbol] = code, length
            code, before = code + 1, length
    return found


def _stuffed(interval: _Bits, codes: Codes) -> bytes:
    text = ""
    for kind, one, other in interval.items:
        value, count = codes[one][other] if kind == "code" else (one, other)
        text += f"{value:0{count}b}" if count else ""
    text += "1" * (-len(text) % 8)
    whole = bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))
    return whole.replace(b"\xff", b"\xff\0")


def draw_scripts(rng: np.random.Generator, num_parts: int) -> list[Script]:
    """A complete script of a progressive JPEG: bands, precisions and the order are random, as far as they may be."""
    low = int(rng.integers(0, 3))
    whole = [tuple(range(num_parts))]
    single = [(part,) for part in range(num_parts)]
    begin = [Script(parts, 0, 0, 0, low) for parts in (whole if rng.random() < 0.5 else single)]
    threads = [
        [
            Script(parts, 0, 0, high, high - 1)
            for high in range(low, 0, -1)
            for parts in (whole if rng.random() < 0.5 else single)
        ]
    ]
    for part in range(num_parts):
        first = 1
        while first <= 63:
            last = 63 if rng.random() < 0.5 else int(rng.integers(first, 64))
            start = int(rng.integers(0, 4))
            threads.append([Script((part,), first, last, 0, start)])
            threads[-1] += [Script((part,), first, last, n, n - 1) for n in range(start, 0, -1)]
            first = last + 1
    scripts = begin
    while any(threads):
        thread = threads[int(rng.integers(len(threads)))]
        scripts += thread[:1]
        del thread[:1]
    for script in scripts:
        script.restart = int(rng.choice([0, 0, 1, 3, 7]))
    return scripts
