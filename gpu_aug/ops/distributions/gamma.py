"""Samples of the gamma, beta and Dirichlet distributions, by inverting the gamma distribution."""

import math

import numpy as np
import torch

from gpu_aug.ops.distributions.uniform import Uniforms

_HALF_STEP = 2.0**-33  # uniform numbers are multiples of 2**-32; the middle of a step is never 0
# For shapes from 0.05 to 100 the logarithms are then exact to 2e-14; after 8 steps one of shape 0.2 is off by 0.2.
_NUM_STEPS = 12
_TINY = 1e-9  # below it the law is a power to all digits


def log_gammas(u: Uniforms, shape: float) -> Uniforms:
    """Return the logarithms of samples of a gamma distribution with this shape and scale 1, one per uniform number.

    Samples of small shapes, such as 1e-3000, are too small for floating-point numbers, but their logarithms are not.

    Source: Press et al., Numerical Recipes, 3rd edition, section 6.2.1, which inverts the incomplete gamma function by Halley's
    method. Here the number of steps is fixed, so that all numbers are computed at once.
    """
    if shape == 1:  # exponential
        return np.log(-np.log1p(-(u + _HALF_STEP)))
    p = u + _HALF_STEP
    log_small = (
        np.log(p) + math.lgamma(shape + 1)
    ) / shape  # P(shape, x) = x**shape / gamma(shape + 1)
    x = np.maximum(_first_guess(p, shape, log_small), _TINY)
    below = shape - 1
    for _ in range(_NUM_STEPS):
        density = np.exp(below * np.log(x) - x - math.lgamma(shape))
        newton = (_incomplete_gamma(shape, x) - p) / np.maximum(density, 1e-300)
        step = newton / (1 - 0.5 * np.minimum(1.0, newton * (below / x - 1)))
        x = np.where(step < x, x - step, 0.5 * x)
    return np.where(log_small < math.log(_TINY), log_small, np.log(np.maximum(x, _TINY)))


def beta(u: Uniforms, alpha: float) -> Uniforms:
    """Return samples of Beta(alpha, alpha), float64 [B], made from uniform numbers, float64 [B, 2]."""
    return dirichlet(u, alpha)[:, 0]


def dirichlet(u: Uniforms, alpha: float) -> Uniforms:
    """Return samples of the symmetric Dirichlet distribution, float64 [B, n], made from uniform numbers, float64 [B, n]."""
    logs = log_gammas(u, alpha)
    parts = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares: Uniforms = parts / parts.sum(axis=1, keepdims=True)
    return shares


def _first_guess(p: Uniforms, shape: float, log_small: Uniforms) -> Uniforms:
    if shape > 1:
        tail = np.sqrt(-2 * np.log(np.minimum(p, 1 - p)))
        z = (2.30753 + tail * 0.27061) / (1 + tail * (0.99229 + tail * 0.04481)) - tail
        z = np.where(p < 0.5, -z, z)
        cube = 1 - 1 / (9 * shape) - z / (3 * math.sqrt(shape))
        middle: Uniforms = np.maximum(1e-3, shape * cube**3)
        return middle
    knee = 1 - shape * (0.253 + shape * 0.12)
    tail = 1 - np.log(np.maximum(1 - (p - knee) / (1 - knee), 1e-300))
    return np.where(log_small < math.log(0.7), np.exp(np.minimum(log_small, 0)), tail)


def _incomplete_gamma(shape: float, x: Uniforms) -> Uniforms:
    shapes = torch.full(x.shape, shape, dtype=torch.float64)
    values: Uniforms = torch.special.gammainc(shapes, torch.from_numpy(x)).numpy()
    return values
