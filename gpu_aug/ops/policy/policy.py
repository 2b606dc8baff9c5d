"""The policies AutoAugment, RandAugment, TrivialAugmentWide and AugMix."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.gamma import beta, dirichlet
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.spatial import Blend, Fill
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy import space as policy_space
from gpu_aug.ops.policy.autoaugment_tables import POLICIES
from gpu_aug.ops.policy.space import PolicyWarp, Space

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]

_NUM_LEVELS = 10  # of AutoAugment and AugMix


Interpolation = Literal["nearest", "bilinear", "bicubic"]


@dataclass(frozen=True, kw_only=True)
class _Choosing(Operation, abstract=True):
    """Base of operations that draw from the operations of a Space.

    All colour operations work in 8 bits, as torchvision's do on uint8, with its rounding.

    Attributes:
        interpolation: Interpolation of shears, translations and rotations; "bicubic" is that of Pillow on 8-bit images: kernel
            with a = -1, rounded down, repeated edges, and ``fill`` without a transition.
        fill: Value outside the image.
        blend: How a bilinear seam mixes with ``fill``; see Spatial.
    """

    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    space: ClassVar[Space] = policy_space.RAND

    interpolation: Interpolation = "nearest"
    fill: Fill = 0.0
    blend: Blend = "once"

    @property
    def _warp(self) -> PolicyWarp:
        return PolicyWarp(self.interpolation, self.fill, self.blend)

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        """Tolerance of PolicyWarp with the interpolation of this operation."""
        return self._warp.tolerance

    @property
    def carriers(self) -> tuple[Operation, ...]:
        """The operations that can carry out any choice from ``space``; at most one is active in an image."""
        return policy_space.carriers(self.space, self._warp)


class Policy(_Choosing, abstract=True):
    """Base of policies, which carry out one or several drawn operations in a row.

    Each round has one leaf for each kind of operation, of which at most one is active in an image. Masks, boxes and keypoints
    follow.
    """

    num_stages: ClassVar[int] = 1
    """How many operations follow each other."""

    @property
    def leaves(self) -> tuple[Operation, ...]:
        """The ``carriers``, repeated for each round."""
        return self.carriers * self.num_stages

    @abstractmethod
    def draw_stages(self, drawn: Drawn, sizes: Sizes) -> list[Params]:
        """Return the parameters of the carriers of every round."""

    def draw_leaves(self, numbers: Iterator[Uniforms], sizes: Sizes) -> tuple[list[Params], Sizes]:
        """Return the parameters of the carriers of every round, and ``sizes``, which do not change."""
        return self.draw_stages(self.draw_columns(next(numbers))[1], sizes), sizes


@dataclass(frozen=True)
class RandAugment(Policy):
    """Carry out ``num_ops`` operations with one magnitude, each drawn uniformly from 14 operations.

    Args:
        num_ops: Number of operations, drawn with replacement.
        magnitude: Index of the magnitude, below ``num_magnitude_bins``.
        num_magnitude_bins: Number of magnitudes.
        interpolation: Interpolation of shears, translations and rotations; "bicubic" is that of Pillow on 8-bit images: kernel
            with a = -1, rounded down, repeated edges, and ``fill`` without a transition.
        fill: Value outside the image.
        blend: How a bilinear seam mixes with ``fill``; see Spatial.

    Source: torchvision v2 RandAugment on uint8 images; Cubuk et al. 2019,
    https://arxiv.org/abs/1909.13719.

    Example:
        >>> Recipe([RandomResizedCrop(224), RandAugment(), Normalize()]).size
        (224, 224)
    """

    random: ClassVar[Random] = {"choices_and_signs": Numbers(lambda self: 2 * self.num_ops)}

    num_ops: Annotated[int, validation.Integer(low=1, example="2")] = 2
    magnitude: int = 9
    num_magnitude_bins: Annotated[int, validation.Integer(low=2, example="31")] = 31

    def __post_init__(self) -> None:
        super().__post_init__()
        high = self.num_magnitude_bins - 1
        level = validation.whole(
            "RandAugment", "magnitude", self.magnitude, low=0, high=high, example="9"
        )
        self._set(magnitude=level)

    @property
    def num_stages(self) -> int:  # type: ignore[override]
        """Number of rounds: the field ``num_ops``."""
        return self.num_ops

    def draw_stages(self, drawn: Drawn, sizes: Sizes) -> list[Params]:
        """Return the parameters of the carriers of every round."""
        bins = np.full(len(sizes), self.magnitude)
        params: list[Params] = []
        for choice, sign in (
            drawn["choices_and_signs"].reshape(len(sizes), -1, 2).transpose(1, 2, 0)
        ):
            chosen = whole_below(choice, len(self.space.names))
            params += policy_space.choice_params(
                self.space, chosen, bins, sign, sizes, num_bins=self.num_magnitude_bins
            )
        return params


@dataclass(frozen=True)
class TrivialAugmentWide(Policy):
    """Carry out one operation, drawn uniformly from 14 operations, with a random magnitude.

    Args:
        num_magnitude_bins: Number of magnitudes.
        interpolation: Interpolation of shears, translations and rotations; "bicubic" is that of Pillow on 8-bit images: kernel
            with a = -1, rounded down, repeated edges, and ``fill`` without a transition.
        fill: Value outside the image.
        blend: How a bilinear seam mixes with ``fill``; see Spatial.

    Source: torchvision v2 TrivialAugmentWide on uint8 images; Mueller and Hutter 2021,
    https://arxiv.org/abs/2103.10158.
    """

    space: ClassVar[Space] = policy_space.WIDE

    random: ClassVar[Random] = {"choice": Numbers(), "level": Numbers(), "sign": Numbers()}

    num_magnitude_bins: Annotated[int, validation.Integer(low=2, example="31")] = 31

    def draw_stages(self, drawn: Drawn, sizes: Sizes) -> list[Params]:
        """Return the parameters of the carriers of the only round."""
        chosen = whole_below(drawn["choice"], len(self.space.names))
        bins = whole_below(drawn["level"], self.num_magnitude_bins)
        return policy_space.choice_params(
            self.space, chosen, bins, drawn["sign"], sizes, num_bins=self.num_magnitude_bins
        )


@dataclass(frozen=True)
class AutoAugment(Policy):
    """Carry out one of 25 learned pairs of operations, each with its own probability.

    Args:
        policy: Dataset on which the pairs were learned.
        interpolation: Interpolation of shears, translations and rotations; "bicubic" is that of Pillow on 8-bit images: kernel
            with a = -1, rounded down, repeated edges, and ``fill`` without a transition.
        fill: Value outside the image.
        blend: How a bilinear seam mixes with ``fill``; see Spatial.

    Source: torchvision v2 AutoAugment on uint8 images; Cubuk et al. 2018,
    https://arxiv.org/abs/1805.09501.
    """

    space: ClassVar[Space] = policy_space.AUTO

    num_stages: ClassVar[int] = 2
    """Two."""

    random: ClassVar[Random] = {"pair": Numbers(), "gates_and_signs": Numbers(4)}

    policy: Literal["imagenet", "cifar10", "svhn"] = "imagenet"

    def draw_stages(self, drawn: Drawn, sizes: Sizes) -> list[Params]:
        """Return the parameters of the carriers of both rounds, from a drawn pair; each operation has its own probability."""
        pairs = POLICIES[self.policy]
        pair = whole_below(drawn["pair"], len(pairs))
        params: list[Params] = []
        for stage in range(2):
            names, shares, levels = zip(*(choice[stage] for choice in pairs), strict=True)
            chosen = np.array([self.space.names.index(name) for name in names])[pair]
            gate, sign = drawn["gates_and_signs"][:, 2 * stage : 2 * stage + 2].T
            params += policy_space.choice_params(
                self.space,
                chosen,
                np.array([level or 0 for level in levels])[pair],
                sign,
                sizes,
                num_bins=_NUM_LEVELS,
                apply=gate < np.array(shares)[pair],
            )
        return params


def _depth(operation: str, field: str, value: Any) -> int:
    if validation.is_whole(value) and value == -1:
        return -1
    return validation.whole(operation, field, value, low=1, example="3")


@dataclass(frozen=True)
class AugMix(_Choosing):
    """Blend the image with the results of several chains of operations.

    Masks, boxes and keypoints are unchanged.

    Args:
        severity: Number of magnitudes to draw from: the weakest of ten magnitudes.
        mixture_width: Number of chains.
        chain_depth: Number of operations of a chain; -1 draws 1, 2 or 3 for each chain.
        alpha: Parameter of the distributions of weights: the image's weight is drawn from Beta(alpha, alpha), and the rest
            is divided among the chains by a symmetric Dirichlet distribution.
        all_ops: Whether brightness, contrast, colour and sharpness are among the operations.
        interpolation: Interpolation of shears, translations and rotations; "bicubic" is that of Pillow on 8-bit images: kernel
            with a = -1, rounded down, repeated edges, and ``fill`` without a transition.
        fill: Value outside the image.
        blend: How a bilinear seam mixes with ``fill``; see Spatial.

    Source: torchvision v2 AugMix on uint8 images, without rounding down the sum at the end; Hendrycks
    et al. 2019, https://arxiv.org/abs/1912.02781.
    """

    random: ClassVar[Random] = {
        "first": Numbers(2),
        "others": Numbers(lambda self: self.mixture_width),
        "depths": Numbers(lambda self: self.mixture_width),
        "links": Numbers(lambda self: 3 * self.mixture_width * self.num_links),
    }

    severity: Annotated[int, validation.Integer(low=1, high=_NUM_LEVELS, example="3")] = 3
    mixture_width: Annotated[int, validation.Integer(low=1, example="3")] = 3
    chain_depth: Annotated[int, _depth] = -1
    alpha: Annotated[float, validation.Number(low=0, above=True, example="1.0")] = 1.0
    all_ops: bool = True
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"

    @property
    def space(self) -> Space:  # type: ignore[override]
        """The operations to choose from: all, or without ``all_ops`` those without brightness, contrast, colour and sharpness."""
        return policy_space.MIX if self.all_ops else policy_space.MIX_PARTIAL

    @property
    def num_links(self) -> int:
        """Number of operations of the longest possible chain."""
        return 3 if self.chain_depth == -1 else self.chain_depth

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``weights``, float64 [B, 1 + mixture_width], first that of the image, and the parameters of all chains.

        The key of a parameter of a carrier is "chain.link.carrier.name", with indices of chain, link and carrier.
        """
        width = self.mixture_width
        own = beta(drawn["first"], self.alpha)[:, None]
        weights = np.concatenate([own, (1 - own) * dirichlet(drawn["others"], self.alpha)], 1)
        params: Params = {"weights": weights}
        depths = whole_below(drawn["depths"], 3) + 1
        choices = drawn["links"].reshape(len(sizes), width, self.num_links, 3)
        for chain, link in np.ndindex(width, self.num_links):
            choice, level, sign = choices[:, chain, link].T
            carriers = policy_space.choice_params(
                self.space,
                whole_below(choice, len(self.space.names)),
                whole_below(level, self.severity),
                sign,
                sizes,
                num_bins=_NUM_LEVELS,
                apply=None if self.chain_depth != -1 else link < depths[:, chain],
            )
            for carrier, values in enumerate(carriers):
                prefix = f"{chain}.{link}.{carrier}."
                params |= {prefix + name: array for name, array in values.items()}
        return params

    def carried(self, params: Params) -> Iterator[tuple[int, int, Params]]:
        """Yield (index of the chain, index of the carrier, its parameters) in the order in which they are carried out."""
        drawn: dict[tuple[int, int, int], Params] = {}
        for key, values in params.items():
            chain, _, rest = key.partition(".")
            if rest:
                link, carrier, name = rest.split(".")
                drawn.setdefault((int(chain), int(link), int(carrier)), {})[name] = values
        for (number, _, which), named in drawn.items():
            yield number, which, named
