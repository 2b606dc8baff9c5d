"""The codes of small baseline JPEGs read one bit after the other, as ITU-T T.81 tells it: what our decoder is compared with."""

from collections.abc import Iterator

Place = tuple[int, list[int]]


def places_of(data: bytes) -> list[Place]:
    """Return the bit at which each MCU of a file begins, and the DC predictors of the components there.

    Bits are counted from the scan's first byte in the file's own bytes.
    """
    tables: dict[int, dict[tuple[int, int], int]] = {}
    restart, at = 0, 2
    while True:
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + size]
        at += 2 + size
        if marker == 0xC4:
            tables.update(_tables(body))
        elif marker == 0xDD:
            restart = int.from_bytes(body, "big")
        elif marker == 0xC0:
            height, width = (int.from_bytes(body[n : n + 2], "big") for n in (1, 3))
            factors = [body[7 + 3 * number] for number in range(body[5])]
        elif marker == 0xDA:
            names = [body[2 + 2 * number] for number in range(body[0])]
            break
    if len(factors) == 1:
        factors = [0x11]
    across, down = (8 * max(side) for side in zip(*(divmod(f, 16) for f in factors), strict=True))
    num_mcus = -(-width // across) * -(-height // down)
    blocks = [
        (number, tables[name >> 4], tables[16 | name & 15])
        for number, (factor, name) in enumerate(zip(factors, names, strict=True))
        for _ in range((factor >> 4) * (factor & 15))
    ]
    return list(_walk(_Bits(data[at:]), blocks, num_mcus, restart, len(factors)))


class _Bits:
    def __init__(self, scan: bytes) -> None:
        self.scan, self.bit = scan, 0

    def take(self, count: int) -> int:
        number = 0
        for _ in range(count):
            byte = self.bit >> 3
            number = number << 1 | self.scan[byte] >> (7 - (self.bit & 7)) & 1
            self.bit += 1
            if self.bit % 8 == 0 and self.scan[byte] == 0xFF:
                self.bit += 8  # the zero that is stuffed
        return number

    def symbol(self, table: dict[tuple[int, int], int]) -> int:
        code = length = 0
        while (length, code) not in table:
            code, length = code << 1 | self.take(1), length + 1
        return table[length, code]

    def pass_marker(self) -> None:
        self.take(-self.bit % 8)
        self.bit += 16


def _tables(body: bytes) -> dict[int, dict[tuple[int, int], int]]:
    tables = {}
    while body:
        counts, symbols = body[1:17], iter(body[17:])
        code, table = 0, {}
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                table[length, code] = next(symbols)
                code += 1
            code <<= 1
        tables[body[0]] = table
        body = body[17 + sum(counts) :]
    return tables


def _walk(
    bits: _Bits, blocks: list[tuple], num_mcus: int, restart: int, num: int
) -> Iterator[Place]:
    levels = [0] * num
    for mcu in range(num_mcus):
        if restart and mcu and mcu % restart == 0:
            bits.pass_marker()
            levels = [0] * num
        yield bits.bit, list(levels)
        for component, dc, ac in blocks:
            size = bits.symbol(dc)
            raw = bits.take(size)
            levels[component] += raw if size == 0 or raw >> (size - 1) else raw - (1 << size) + 1
            coefficient = 1
            while coefficient < 64:
                run, size = divmod(bits.symbol(ac), 16)
                if size == 0 and run < 15:
                    break
                bits.take(size)
                coefficient += run + 1
