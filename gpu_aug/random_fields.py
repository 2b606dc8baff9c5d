"""Random fields: one random number per pixel, which depends only on a key and the pixel.

The host draws a key per sample, and each device computes the field from it, with equal results on every device and in every
batch. Numbers come from Philox 4x32-10, as in ``gpu_aug.draws``.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import philox4x32
from gpu_aug.ops.distributions.uniform import Uniforms
from gpu_aug.upload import upload

# The constants of Philox 4x32-10. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_NUM_ROUNDS = 10
_MASK = 0xFFFFFFFF
_STEP = 2.0**-24  # between neighbouring uniform numbers: all of them are exact in float32
# Counters at a time on a CPU: the integers stay in the first two levels of cache, and a call of compiled code is
# worth its fixed cost (half of them take a tenth longer).
_CPU_CHUNK = 1 << 14

# Of numbers in float32: the bits of the root of 1/2, and how many bits the fraction has, below the power of two.
_ROOT_BITS, _FRACTION_BITS = np.int32(0x3F3504F3), np.int32(23)

_MOST_EVENTS = 2000
"""Where the sum of probabilities is cut off, should rounding keep it from its limit."""


def keys(u: Uniforms) -> NDArray[np.uint32]:
    """Return keys, uint32 [B, 2], made from uniform numbers, float64 [B, 2]; see ``gpu_aug.draws.uniforms``."""
    return (u * 2.0**32).astype(np.uint32)


def uniform_field(
    key: NDArray[np.uint32], shape: tuple[int, ...], device: torch.device, *, stream: int = 0
) -> Tensor:
    """Return uniform numbers in [0, 1), multiples of 2**-24, float32 [B, *shape].

    They are bit-identical on every device and in every batch. The device is not waited for.

    Args:
        key: Keys, uint32 [B, 2], on the host.
        shape: Shape of one sample's field. Its element at flat index i is a function of (key, i, stream).
        device: Device of the result.
        stream: Index of the stream; each stream gives another field for a key.
    """
    return _uniform(key, math.prod(shape), device, stream).view(len(key), *shape)


def normal_field(
    key: NDArray[np.uint32], shape: tuple[int, ...], device: torch.device, *, stream: int = 0
) -> Tensor:
    """Return standard normal numbers, float32 [B, *shape]; arguments are those of ``uniform_field``.

    Devices agree but for rounding of the logarithm, the sine and the cosine. The largest number is 5.8.
    """
    num = math.prod(shape)
    pairs = _uniform(key, num + num % 2, device, stream).view(len(key), -1, 2)
    if device.type == "cpu":
        _make_normal(pairs.view(-1).numpy())
    else:
        radius = (pairs[..., 0] + _STEP).log_().mul_(-2).sqrt_()
        angle = pairs[..., 1] * (2 * math.pi)
        pairs[..., 0], pairs[..., 1] = radius * angle.cos(), radius * angle.sin()
    return pairs.flatten(1)[:, :num].reshape(len(key), *shape)


@CompiledAtFirstCall
def _make_normal(numbers: Any) -> None:
    """Replace pairs of uniform numbers, float32 [2 n], by pairs of normal numbers, rounded from float64.

    A pair (u, v) becomes sqrt(-2 ln(u + 2**-24)) times cos(2 pi v) and sin(2 pi v). The logarithm, the cosine and the sine are
    series here, which the compiler turns into vector code; torch's functions took three times as long.
    """
    bits = numbers.view(np.int32)
    for pair in range(len(numbers) // 2):
        at = 2 * pair  # a step in `range` would be no vector code
        numbers[at] += np.float32(_STEP)
        # Split off a power of two, so that a number between the roots of 1/2 and of 2 is left.
        power = (bits[at] - _ROOT_BITS) >> _FRACTION_BITS
        bits[at] -= power << _FRACTION_BITS
        # ln(x) is twice the inverse hyperbolic tangent of (x - 1) / (x + 1), which is at most 0.172 here.
        ratio = (numbers[at] - 1.0) / (numbers[at] + 1.0)
        z = ratio * ratio
        series = 1 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z / 9)))
        radius = math.sqrt(max(-2 * (power * math.log(2) + 2 * ratio * series), 0.0))
        # Split off quarter turns, so that an angle of at most an eighth of a turn is left.
        quarters = np.int32(numbers[at + 1] * 4 + 0.5)
        angle = 2 * math.pi * (numbers[at + 1] - quarters * 0.25)
        z = angle * angle
        sine = angle * (1 - z * (1 / 6 - z * (1 / 120 - z * (1 / 5040 - z / 362880))))
        cosine = 1 - z * (1 / 2 - z * (1 / 24 - z * (1 / 720 - z * (1 / 40320 - z / 3628800))))
        x, y = (sine, cosine) if quarters & 1 else (cosine, sine)
        numbers[at] = radius * (-x if (quarters + 1) & 2 else x)
        numbers[at + 1] = radius * (-y if quarters & 2 else y)


def poisson(u: Tensor, rate: Tensor, largest_rate: float) -> Tensor:
    """Return Poisson numbers made from uniform numbers, by inversion of the distribution.

    Args:
        u: Uniform numbers, as ``uniform_field`` returns them, of any shape.
        rate: Means of the distribution, float64, from 0; broadcast to the shape of ``u``.
        largest_rate: Upper bound of the rates, at most 600. It limits the work and does not change the result.

    Returns:
        Poisson numbers, float32, of the shape of ``u``.
    """
    last, weight, total = 0, math.exp(-largest_rate), math.exp(-largest_rate)
    # Beyond this number there is less than half a step of the uniform numbers.
    while total < 1 - 2.0**-25 and last < _MOST_EVENTS:
        last += 1
        weight *= largest_rate / last
        total += weight
    if u.device.type != "cpu" or rate.shape != u.shape:
        return _count(u, rate, last)
    dice, rates = u.flatten(), rate.flatten()
    chunks = [slice(at, at + _CPU_CHUNK) for at in range(0, len(dice), _CPU_CHUNK)]
    return torch.cat([_count(dice[chunk], rates[chunk], last) for chunk in chunks]).view(u.shape)


def _count(u: Tensor, rate: Tensor, last: int) -> Tensor:
    """Return how many of the first ``last`` + 1 cumulative probabilities each uniform number reaches."""
    dice, count = u.double(), torch.zeros_like(u)
    probability = (-rate).exp()
    cumulated = probability.clone()
    for number in range(1, last + 2):
        reached = dice >= cumulated
        if u.device.type == "cpu" and not reached.any():
            break
        count += reached
        probability.mul_(rate).div_(number)
        cumulated += probability
    return count


def _uniform(key: NDArray[np.uint32], num: int, device: torch.device, stream: int) -> Tensor:
    """Return ``num`` uniform numbers per key, float32 [B, num]: the upper 24 bits of Philox words, times 2**-24."""
    num_counters = -(-num // 4)
    if device.type == "cpu":
        numbers = torch.empty(len(key), num_counters, 4)
        counter = np.zeros((4, min(num_counters, _CPU_CHUNK)), np.uint32)
        counter[3] = stream
        for row, pair in zip(numbers.numpy(), key, strict=True):
            for start in range(0, num_counters, _CPU_CHUNK):
                chunk = row[start : start + _CPU_CHUNK]
                counter[0, : len(chunk)] = np.arange(start, start + len(chunk))
                words = philox4x32(counter[:, : len(chunk)], pair).T
                np.multiply(words >> 8, _STEP, out=chunk, dtype=np.float32, casting="unsafe")
    else:
        keys_there = upload(key.astype(np.int64), device)
        numbers = _philox_torch(num_counters, keys_there, stream).mul_(_STEP)
    return numbers.flatten(1)[:, :num].contiguous()


def _philox_torch(num: int, key: Tensor, stream: int) -> Tensor:
    """Return the upper 24 bits of the Philox words of all keys, int64 [B, 2], at once: float32 [B, num, 4].

    A product of two 32-bit words wraps around in int64, which keeps its 64 bits.
    """
    c0 = torch.arange(num, device=key.device).repeat(len(key), 1)
    c1, c2, c3 = torch.zeros_like(c0), torch.zeros_like(c0), torch.full_like(c0, stream)
    k0, k1 = key[:, :1], key[:, 1:]
    for _ in range(_NUM_ROUNDS):
        first, second = c0.mul_(_MULTIPLIERS[0]), c2.mul_(_MULTIPLIERS[1])
        c0 = (second >> 32).bitwise_and_(_MASK).bitwise_xor_(c1).bitwise_xor_(k0)
        c2 = (first >> 32).bitwise_and_(_MASK).bitwise_xor_(c3).bitwise_xor_(k1)
        c1, c3 = second.bitwise_and_(_MASK), first.bitwise_and_(_MASK)
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return torch.stack([(word >> 8).float() for word in (c0, c1, c2, c3)], dim=-1)
