"""Which run a checkpoint of the training examples belongs to."""

from argparse import Namespace
from typing import Any

import torch


def settings_of(given: Namespace) -> dict[str, Any]:
    """Return what a run must keep when it goes on; how many ranks it has may change."""
    return {name: getattr(given, name) for name in ("pipeline", "epochs", "batch_size", "seed")}


def steps_done(given: Namespace) -> int:
    """Return how many steps the checkpoint has behind it, 0 where there is none.

    Raises:
        SystemExit: It is that of another run, or of one that is over.
    """
    if not given.checkpoint.exists():
        return 0
    saved, own = torch.load(given.checkpoint), settings_of(given)
    way = "remove it, or give another --checkpoint"
    if saved["settings"] != own:
        raise SystemExit(
            f"{given.checkpoint} is of a run with {saved['settings']}, not {own}: {way}"
        )
    if len(saved["losses"]) >= saved["total"]:
        raise SystemExit(f"{given.checkpoint} is of a run that is over: {way}")
    return len(saved["losses"])
