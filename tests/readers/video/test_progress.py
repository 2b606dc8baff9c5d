"""The bar that shows how far a long work is."""

import io

import pytest

from readers.video import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:  # noqa: D102 - as of every file
        return True


def test_the_bar_ends_its_line_when_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work of seconds is shown from the first second on, and only the last state ends the line."""
    now, terminal = [100.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    show = progress.terminal_bar("looking")

    for number in range(5):
        now[0] += 0.6
        show(number, 4)

    shown = terminal.getvalue().split("\r")[1:]
    assert [text.split()[-1] for text in shown] == ["1/4", "2/4", "3/4", "4/4"]
    assert [text.endswith("\n") for text in shown] == [False, False, False, True]
