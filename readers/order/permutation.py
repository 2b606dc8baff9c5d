"""Keyed permutations of the integers below a length, computed without tables and with the same result on every machine."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# 8 leave orders of 5 samples visibly uneven (chi-square over 12,000 epochs), 12 do not. A batch of
# 256 out of 1.3 million samples takes 0.4 ms.
_NUM_ROUNDS = 12
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # SplitMix64's
_HALF = np.uint64(32)

Integers = NDArray[np.int64]


@lru_cache(maxsize=64)
def make_keys(seed: int, *numbers: int) -> NDArray[np.uint64]:
    """Return the keys of a permutation for `permute`, uint64 [12].

    Args:
        seed: Seed, >= 0.
        numbers: Further integers on which the keys depend, such as the epoch. They enter one by one: a sum would give
            (0, 1) and (1, 0) the same keys.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=numbers)
    return sequence.generate_state(_NUM_ROUNDS, np.uint64).astype(np.uint64)


def permute(
    values: Integers,
    lengths: int | Integers,
    keys: NDArray[np.uint64],
    salts: Integers | None = None,
) -> Integers:
    """Apply a pseudorandom permutation of the integers below a length.

    Args:
        values: int64 [n], each 0 <= value < length.
        lengths: Length of the permutation; or int64 [n], a length for each value.
        keys: Keys from `make_keys`, which select the permutation.
        salts: int64 [n], for each value a number that selects one of many permutations with the same keys; None uses one
            permutation for all values.

    Returns:
        int64 [n], each 0 <= result < length.

    Source: Black and Rogaway 2002, "Ciphers with Arbitrary Finite Domains": a Feistel network
    with cycle walking. Here the halves may differ by one bit, and the rounds are a
    multiply-and-shift hash, since the order need not be secret.
    """
    limits = np.asarray(lengths, np.int64)
    num_bits = _num_bits(limits)
    salt = None if salts is None else _hash(salts.astype(np.uint64), keys[0] ^ keys[-1])
    walked = _feistel(values.astype(np.uint64), num_bits, keys, salt).astype(np.int64)
    # Cycle walking: the network permutes 2**num_bits values, most often fewer than 2 * length.
    # A value that lands outside is permuted again along its cycle, which returns to the inside
    # at its start at the latest.
    outside = np.flatnonzero(walked >= limits)
    while outside.size:
        again = _feistel(
            walked[outside].astype(np.uint64),
            num_bits[outside] if num_bits.ndim else num_bits,
            keys,
            None if salt is None else salt[outside],
        ).astype(np.int64)
        walked[outside] = again
        outside = outside[again >= (limits[outside] if limits.ndim else limits)]
    return walked


def mix_numbers(first: Integers, second: Integers) -> Integers:
    """Return a 64-bit hash of each pair (first[i], second[i]), int64 [n], for use as `salts` of `permute`."""
    mixed = _hash(_hash(first.astype(np.uint64), _MULTIPLIERS[1]), second.astype(np.uint64))
    return mixed.astype(np.int64)


def scale(
    values: Integers, numerator: int, denominator: int, *, round_up: bool = False
) -> Integers:
    """Return ``values * numerator / denominator``, rounded exactly, int64 [n], although the product has up to 82 bits.

    Args:
        values: int64 [n], 0 <= value <= 2**41.
        numerator: Factor, 0 <= numerator <= 2**41.
        denominator: Divisor, 1 <= denominator <= 2**41. Results must fit into int64.
        round_up: Whether to round up instead of down.
    """
    high, low = values >> 20, values & 0xFFFFF
    quotient, rest = np.divmod(high * numerator, denominator)
    last, rest = np.divmod((rest << 20) + low * numerator, denominator)
    result: Integers = (quotient << 20) + last
    return result + (rest > 0) if round_up else result


def _num_bits(lengths: Integers) -> NDArray[np.uint64]:
    """Return the bit length of ``length - 1`` for each length, at least 2, so that both halves of the network have a bit."""
    if lengths.ndim == 0:
        return np.asarray(max(2, int(lengths - 1).bit_length()), np.uint64)
    # A float64 holds lengths up to 2**53 exactly, and knows the power of two.
    return np.maximum(2, np.frexp((lengths - 1).astype(np.float64))[1]).astype(np.uint64)


def _feistel(
    values: NDArray[np.uint64],
    num_bits: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    salts: NDArray[np.uint64] | None,
) -> NDArray[np.uint64]:
    """Apply a permutation of the integers below 2**num_bits.

    In alternate rounds, each half of the bits is combined with a hash of the other half.
    """
    one, bits = np.uint64(1), np.uint64(64)
    num_low_bits = (num_bits + one) >> one
    low_shift, high_shift = bits - num_low_bits, bits - (num_bits >> one)
    low = values & ((one << num_low_bits) - one)
    high = values >> num_low_bits
    for number, key in enumerate(keys):
        of_this_round = key if salts is None else salts ^ key
        if number % 2 == 0:
            low ^= _hash(high, of_this_round) >> low_shift
        else:
            high ^= _hash(low, of_this_round) >> high_shift
    result: NDArray[np.uint64] = high << num_low_bits | low
    return result


def _hash(values: NDArray[np.uint64], key: np.uint64 | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64-bit hashes; their upper bits depend on every bit of the value and the key."""
    mixed = values ^ key
    mixed *= _MULTIPLIERS[0]
    mixed ^= mixed >> _HALF
    mixed *= _MULTIPLIERS[1]
    return mixed
