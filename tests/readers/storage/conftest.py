"""What fails while it is read is tried again at once: no test waits for the pauses in between."""

import pytest


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("readers.datasets.fetched.PAUSES_SECONDS", (0, 0))
