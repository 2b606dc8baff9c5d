"""PlanckianJitter: a random colour of the light."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.color.matrices import ColorMatrix, normals, plain_matrices
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes

__all__ = ["PlanckianJitter"]

TEMPERATURES = {
    mode: np.arange(coldest, 15001, 500) for mode, coldest in (("blackbody", 3000), ("cied", 4000))
}
"""In kelvin."""

# Source: Zini et al., Planckian jitter: countering the color-crippling effects of color jitter on
# self-supervised training, 2022; as in Kornia and Albumentations. Red, green, blue.
COLORS = {
    "blackbody": np.array(
        [
            (0.6743, 0.4029, 0.0013),
            (0.6281, 0.4241, 0.1665),
            (0.5919, 0.4372, 0.2513),
            (0.5623, 0.4457, 0.3154),
            (0.5376, 0.4515, 0.3672),
            (0.5163, 0.4555, 0.4103),
            (0.4979, 0.4584, 0.4468),
            (0.4816, 0.4604, 0.4782),
            (0.4672, 0.4619, 0.5053),
            (0.4542, 0.4630, 0.5289),
            (0.4426, 0.4638, 0.5497),
            (0.4320, 0.4644, 0.5681),
            (0.4223, 0.4648, 0.5844),
            (0.4135, 0.4651, 0.5990),
            (0.4054, 0.4653, 0.6121),
            (0.3980, 0.4654, 0.6239),
            (0.3911, 0.4655, 0.6346),
            (0.3847, 0.4656, 0.6444),
            (0.3787, 0.4656, 0.6532),
            (0.3732, 0.4656, 0.6613),
            (0.3680, 0.4655, 0.6688),
            (0.3632, 0.4655, 0.6756),
            (0.3586, 0.4655, 0.6820),
            (0.3544, 0.4654, 0.6878),
            (0.3503, 0.4653, 0.6933),
        ]
    ),
    "cied": np.array(
        [
            (0.5829, 0.4421, 0.2288),
            (0.5510, 0.4514, 0.2948),
            (0.5246, 0.4576, 0.3488),
            (0.5021, 0.4618, 0.3941),
            (0.4826, 0.4646, 0.4325),
            (0.4654, 0.4667, 0.4654),
            (0.4502, 0.4681, 0.4938),
            (0.4364, 0.4692, 0.5186),
            (0.4240, 0.4700, 0.5403),
            (0.4127, 0.4705, 0.5594),
            (0.4023, 0.4709, 0.5763),
            (0.3928, 0.4713, 0.5914),
            (0.3839, 0.4715, 0.6049),
            (0.3757, 0.4716, 0.6171),
            (0.3681, 0.4717, 0.6281),
            (0.3609, 0.4718, 0.6380),
            (0.3543, 0.4719, 0.6472),
            (0.3480, 0.4719, 0.6555),
            (0.3421, 0.4719, 0.6631),
            (0.3365, 0.4719, 0.6702),
            (0.3313, 0.4719, 0.6766),
            (0.3263, 0.4719, 0.6826),
            (0.3217, 0.4719, 0.6882),
        ]
    ),
}

_WHITE = 6000  # kelvin


@dataclass(frozen=True)
class PlanckianJitter(ColorMatrix):
    """Change the colour of the light: red and blue are scaled as under a lamp of another temperature.

    Two of five images get light warmer than white (6000 kelvin), the others colder.

    Args:
        mode: Kind of light: "blackbody" radiators or "cied" daylight.
        temperature: (smallest, largest) temperature in kelvin, a range that contains 6000; None means the largest possible
            range, from 3000 ("cied": 4000) to 15000.
        sampling_method: Distribution on either side of white: "uniform", or "gaussian" with three standard deviations at the
            ends.
        p: Share of the images that are changed.

    Source: Albumentations PlanckianJitter.
    """

    random: ClassVar[Random] = {"side": Numbers(), "distance": Numbers(2)}

    mode: Literal["blackbody", "cied"] = "blackbody"
    temperature: tuple[int, int] | None = None
    sampling_method: Literal["uniform", "gaussian"] = "uniform"
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        name, known = "PlanckianJitter", TEMPERATURES[self.mode]
        ends = validation.interval(
            name,
            "temperature",
            (known[0], known[-1]) if self.temperature is None else self.temperature,
            low=known[0],
            high=known[-1],
            example="(4000, 12000)",
        )
        if not ends[0] <= _WHITE <= ends[1]:
            raise validation.fault(
                name,
                "temperature",
                self.temperature,
                "a range that contains 6000, for example (4000, 12000)",
            )
        self._set(temperature=ends)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``temperature`` in whole kelvin, int64 [B], and its ``matrix``, float64 [B, 3, 4]."""
        low, high = self.temperature  # type: ignore[misc]
        reach = np.where(drawn["side"] < 0.4, low - _WHITE, high - _WHITE)
        if self.sampling_method == "uniform":
            distance = drawn["distance"][:, 0]
        else:
            distance = np.abs(normals(drawn["distance"])[:, 0]) / 3
        temperature = np.clip(_WHITE + reach * distance, low, high).astype(np.int64)
        known, colors = TEMPERATURES[self.mode], COLORS[self.mode]
        light = np.stack([np.interp(temperature, known, column) for column in colors.T], axis=1)
        matrix = plain_matrices(len(sizes))
        matrix[:, 0, 0] = light[:, 0] / light[:, 1]
        matrix[:, 2, 2] = light[:, 2] / light[:, 1]
        return {"temperature": temperature, "matrix": matrix}
