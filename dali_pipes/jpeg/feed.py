"""The bytes of a scan without the zeros that are stuffed behind each 0xFF, up to the next marker.

A little at a time goes into a small buffer, which stays in the processor's nearest memory. Behind the last byte
lie zeros, so that reading on needs no check at each symbol.
"""

from typing import Any

import numpy as np

from gpu_aug.compiled.jit import has_ff, kernel, load_be64, load_u8, signed, store_be64, store_u8

# Places in `state`, int64 [STATE_LENGTH].
SOURCE, STOP, CLEAN, FILLED, ENDED, POSITION, BITS, BUFFER = range(8)
"""Address of the next byte to clean; where the file ends; address of the buffer, and where the clean bytes end in
it (an address as well); whether a marker came; address of the next byte to read; the number of bits that were
read ahead, and those."""
PREDICTION = 8
"""First of three: the last DC value of each component."""
STATE_LENGTH = 12

MCU_BYTES = 2560
"""More than the ten blocks of an MCU can take, with 64 symbols of at most 31 bits each."""
CLEAN_BYTES = 16384
"""What the buffer holds in front of the zeros."""
BUFFER_BYTES = CLEAN_BYTES + MCU_BYTES + 32


@kernel
def begin(state: Any, source: int) -> None:
    """Start reading at an address, with nothing read ahead and predictions of zero."""
    state[SOURCE] = source
    state[FILLED] = state[POSITION] = state[CLEAN]
    state[ENDED] = state[BITS] = state[BUFFER] = 0
    state[PREDICTION : PREDICTION + 3] = 0


@kernel
def top_up(state: Any) -> None:
    """Move what is left to the front of the buffer, and fill it with what follows."""
    rest = state[FILLED] - state[POSITION]
    target = state[CLEAN]
    for place in range(0, rest, 8):
        store_be64(target + place, load_be64(state[POSITION] + place))
    state[POSITION] = target
    target += rest
    source, stop = state[SOURCE], state[STOP]
    limit = state[CLEAN] + CLEAN_BYTES
    while target < limit:
        if source + 8 <= stop and target + 8 <= limit:
            word = load_be64(source)
            if not has_ff(word):
                store_be64(target, word)
                source += 8
                target += 8
                continue
        byte = signed(load_u8(source)) if source < stop else 0xFF
        if byte == 0xFF:
            if source + 2 > stop or load_u8(source + 1) != 0:
                state[ENDED] = 1
                break
            source += 1
        store_u8(target, byte)
        source += 1
        target += 1
    state[SOURCE], state[FILLED] = source, target
    for place in range(0, MCU_BYTES + 32, 8):
        if state[ENDED]:
            store_be64(target + place, np.uint64(0))
