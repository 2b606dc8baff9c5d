"""Saying something that a person must see, also where nobody has set up logging."""

import logging
import sys

LOGGER = logging.getLogger("gpu_aug.dali_pipes.monitoring.ranks")


def speak(text: str, *, error: bool = False) -> None:
    """Log a warning; where no handler takes it, write it to stderr.

    A library's logger has a handler that does nothing, so Python itself would not write it anywhere.

    Args:
        text: What to say; it may have several lines.
        error: Whether to add the exception that is being handled, in the log.
    """
    LOGGER.warning("%s", text, exc_info=error)
    if LOGGER.isEnabledFor(logging.WARNING) and not _is_heard() and sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


def _is_heard() -> bool:
    """Whether there is a handler on the way, or Python's own of last resort takes it."""
    logger: logging.Logger | None = LOGGER
    found: list[logging.Handler] = []
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None
    return not found or any(not isinstance(one, logging.NullHandler) for one in found)
