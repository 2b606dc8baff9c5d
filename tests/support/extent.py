"""How much is tested: what `make test` runs in minutes, or everything, as `make test-all` does."""

import os

EVERYTHING = os.environ.get("GPU_AUG_TESTS") == "all"


def trials(usual: int) -> int:
    """How many random inputs a test tries: twenty times the usual number where everything is tested."""
    return 20 * usual if EVERYTHING else usual
