"""What is lost when an image becomes three channels of 8 bits, said once in a process."""

import threading
import warnings
from typing import Literal, get_args

from readers import Header

Loss = Literal["bits", "alpha"]

_SAID: set[Loss] = set()
_LOCK = threading.Lock()


def warn_of_losses(header: Header) -> None:
    """Warn when an image has more than 8 bits per channel, or transparency: neither is handed over.

    Args:
        header: Of an encoded image.

    Raises:
        UserWarning: Where warnings are errors.
    """
    if len(_SAID) == len(get_args(Loss)):
        return
    if header.bits > 8:
        upper = header.bits - 8
        _say(
            "bits",
            f"a {header.format} has {header.bits} bits per channel, of which the upper 8 are kept: values below "
            f"{1 << upper} become 0, and 300 and 4000 become {300 >> upper} and {4000 >> upper} of 255; where the "
            "numbers matter, give the Loader depth=16 (and the images' channels=), or scale them to 8 bits beforehand",
        )
    if header.has_alpha:
        _say(
            "alpha",
            f"a {header.format} has an alpha channel, which is left out: transparent pixels get the colour that is "
            "stored for them; to have it as a channel, give the Loader channels=4, and to have another background, lay "
            "the images on it beforehand",
        )


def _say(loss: Loss, text: str) -> None:
    with _LOCK:
        if loss in _SAID:
            return
        # Where warnings are errors each such image is one, and not the first alone.
        warnings.warn(f"{text} (said once)", UserWarning, stacklevel=3)
        _SAID.add(loss)
