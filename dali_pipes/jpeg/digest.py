"""Hash complete files to 64 bits with seed 0: by XXH3 for files of more than 240 bytes, by XXH64 for shorter ones.

Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. XXH3 reads eight numbers at once, but has
separate rules for short inputs; hardly any JPEG is that short, so XXH64 replaces them.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numpy.typing import NDArray

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out
from gpu_aug.compiled.jit import (
    inlined,
    inner,
    intrinsic_of,
    kernel,
    load_i32,
    load_i64,
    load_u8,
    signed,
)

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
"""The 64-bit primes of XXH64; see the specification."""
_SHORT_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
"""The 32-bit primes of XXH32; see the specification."""
_BEGIN = np.array(
    [_SHORT_PRIMES[2], _P1, _P2, _P3, _P4, _SHORT_PRIMES[1], _P5, _SHORT_PRIMES[0]], np.uint64
)
"""Initial sums of XXH3."""
_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
        "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
        "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
)
"""The default secret of XXH3."""
_LAST = np.uint64(0x165667919E3779F9)
"""A constant of XXH3's final avalanche."""
_LEAST_BYTES = 241
"""XXH3 uses these rules from 241 bytes on."""
_STRIPE, _STEP, _STRIPES = (
    64,
    8,
    16,
)  # bytes of a stripe, step in the secret from stripe to stripe, stripes of a block
_BLOCK = _STRIPE * _STRIPES


def _add_stripe(builder: Builder, sums: Lanes, address: Any, secret: Any, number: int) -> Lanes:
    """Return the sums after adding 64 bytes."""
    words = load(builder, address, number * _STRIPE, 64, 8)
    keyed = words ^ load(builder, secret, number * _STEP, 64, 8)
    low, high = (part.narrow(32).widen(64, signed=False) for part in (keyed, keyed >> 32))
    return sums + words.pick(words, (1, 0, 3, 2, 5, 4, 7, 6)) + low * high


def _take_stripe(builder: Builder, sums: Any, address: Any, secret: Any) -> None:
    before = load(builder, sums, 0, 64, 8)
    _add_stripe(builder, before, address, secret, 0).store(sums)


def _take_block(builder: Builder, sums: Any, address: Any, secret: Any) -> None:
    """Add 1024 bytes to the sums, and scramble them."""
    found = load(builder, sums, 0, 64, 8)
    for number in range(_STRIPES):
        found = _add_stripe(builder, found, address, secret, number)
    shift = ir.Constant(found.value.type, [47] * 8)
    found = found ^ Lanes(builder, builder.lshr(found.value, shift))
    found = (found ^ load(builder, secret, _SECRET.size - _STRIPE, 64, 8)) * _SHORT_PRIMES[0]
    found.store(sums)


def _folding(_context: Any, *_arguments: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(one, wide) for one in arguments))
        high = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(builder.xor(product, high), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


_take_stripe_at, _take_block_at = written_out(_take_stripe, 3), written_out(_take_block, 3)
_fold = intrinsic_of(_folding, 2)
"""The 128-bit product of two numbers, its halves combined by xor."""


@kernel
def digest_all(files: NDArray[np.int64], digests: NDArray[np.uint64]) -> None:
    """Write a 64-bit hash of each file's bytes to `digests`.

    Args:
        files: int64 [n, 2]: address and length in bytes of each file.
        digests: uint64 [n], written: the hash of each file.
    """
    sums = np.empty(8, np.uint64)
    for number in range(len(digests)):
        address, length = files[number, 0], files[number, 1]
        if length >= _LEAST_BYTES:
            digests[number] = _digest_long(address, length, sums)
        else:
            digests[number] = _digest_short(address, length)


@inner
def _digest_long(address: int, length: int, sums: Any) -> np.uint64:
    """Return the XXH3 of more than 240 bytes; `sums`, uint64 [8], is scratch."""
    for index in range(8):  # two slices would take Numba 1.5 s more, see `store_table`
        sums[index] = _BEGIN[index]
    place, secret = signed(sums.ctypes.data), signed(_SECRET.ctypes.data)
    position, end = address, address + length
    while position + _BLOCK < end:
        _take_block_at(place, position, secret)
        position += _BLOCK
    passed = signed(0)
    while position + _STRIPE < end:
        _take_stripe_at(place, position, secret + passed)
        position += _STRIPE
        passed += _STEP
    _take_stripe_at(place, end - _STRIPE, secret + len(_SECRET) - _STRIPE - 7)
    digest, secret = np.uint64(length) * _P1, secret + 11
    for pair in range(0, 8, 2):
        first, second = sums[pair] ^ _read_word(secret + 8 * pair), sums[pair + 1] ^ _read_word(secret + 8 * pair + 8)  # fmt: skip
        digest += _fold(first, second)
    digest = (digest ^ (digest >> np.uint64(37))) * _LAST
    return digest ^ (digest >> np.uint64(32))


@inlined
def _rotate(value: np.uint64, by: int) -> np.uint64:
    return value << np.uint64(by) | value >> np.uint64(64 - by)


@inlined
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _P2, 31) * _P1


@inlined
def _merge(digest: np.uint64, lane: np.uint64) -> np.uint64:
    return (digest ^ _round(np.uint64(0), lane)) * _P1 + _P4


@inlined
def _read_word(address: int) -> np.uint64:
    return np.uint64(load_i64(address))


@inner
def _digest_short(address: int, length: int) -> np.uint64:
    end = address + length
    if length >= 32:
        first, second, third, fourth = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        while address + 32 <= end:
            first = _round(first, _read_word(address))
            second = _round(second, _read_word(address + 8))
            third = _round(third, _read_word(address + 16))
            fourth = _round(fourth, _read_word(address + 24))
            address += 32
        digest = _rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12)
        digest += _rotate(fourth, 18)
        digest = _merge(_merge(_merge(_merge(digest, first), second), third), fourth)
    else:
        digest = _P5
    digest += np.uint64(length)
    while address + 8 <= end:
        digest = _rotate(digest ^ _round(np.uint64(0), _read_word(address)), 27) * _P1 + _P4
        address += 8
    if address + 4 <= end:
        word = np.uint64(load_i32(address) & 0xFFFFFFFF)
        digest = _rotate(digest ^ (word * _P1), 23) * _P2 + _P3
        address += 4
    while address < end:
        digest = _rotate(digest ^ (np.uint64(load_u8(address)) * _P5), 11) * _P1
        address += 1
    digest = (digest ^ (digest >> np.uint64(33))) * _P2
    digest = (digest ^ (digest >> np.uint64(29))) * _P3
    return digest ^ (digest >> np.uint64(32))
