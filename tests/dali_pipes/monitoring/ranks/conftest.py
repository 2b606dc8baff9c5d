"""A clock that a test moves, small images, and what was said of a loop."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from dali_pipes import Loader, Monitoring
from dali_pipes.monitoring.ranks import heartbeat_sender, pulse, watch
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

Said = Callable[[], list[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Eight small images; what the first batch of a process imports is behind us."""
    root = tmp_path_factory.mktemp("images")
    for number in range(8):
        (root / f"{number:02d}.jpg").write_bytes(jpeg(20, 30, seed=number))
    recipe = Recipe([RandomResizedCrop(16)])
    list(
        Loader(
            open_dataset(root),
            recipe,
            batch_size=4,
            device="cpu",
            monitoring=Monitoring(heartbeat=None),
        )
    )
    return root


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Said:
    """Returns the warnings that were logged so far."""
    return lambda: [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


class Hands:
    """Stands for the clock of the watches, and for their threads: what is due is done by whoever moves it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.daemons: list[Daemon] = []

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def start(self, _name: str, seconds: float, work: Callable[[bool], None]) -> "Daemon":
        """Stand for `dali_pipes.monitoring.ranks.background.RepeatingThread`."""
        self.daemons.append(Daemon(self, seconds, work))
        return self.daemons[-1]

    def go_on(self, seconds: float) -> None:
        """Let time go by, a tenth of a second after the other."""
        for _ in range(round(10 * seconds)):
            self.now += 0.1
            for daemon in [one for one in self.daemons if one.due <= self.now]:
                daemon.due = self.now + daemon.seconds
                daemon.work(False)


class Daemon:
    """See `Hands`."""

    def __init__(self, hands: Hands, seconds: float, work: Callable[[bool], None]) -> None:
        self.hands, self.seconds, self.work = hands, seconds, work
        self.due = hands.now + seconds

    def end(self) -> None:
        """Do the work for the last time."""
        self.hands.daemons.remove(self)
        self.work(True)

    def join(self) -> None:
        """There is no thread."""


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """The watches of loops go by this clock."""
    hands = Hands()
    for module in (heartbeat_sender, pulse, watch):
        monkeypatch.setattr(module, "clock", hands)
    monkeypatch.setattr(watch, "RepeatingThread", hands.start)
    return hands
