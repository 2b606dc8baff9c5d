"""The result of tuning: settings, what to expect of them, what limits and what would help."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.compare.timer import Rate
from bench.tune.advice import Advice
from bench.tune.bound import Bound
from bench.tune.candidates import Alters
from bench.tune.ceilings import Ceilings
from dali_pipes.stats.stats import Stats


@dataclass(frozen=True)
class Tried:
    """A candidate of the search.

    Attributes:
        name: Its settings, as they are written in Python.
        rate: Samples per second.
        factor: So many times as fast as the defaults, in the same rounds.
        wait_share: The part of the time that the training step waited.
        better: Whether it was faster than the defaults by more than the spread of the rounds.
        alters: What else becomes different.
    """

    name: str
    rate: Rate
    factor: float
    wait_share: float
    better: bool
    alters: Alters = ""


@dataclass(frozen=True)
class Tuning:
    """What `bench.tune.tune` found.

    Attributes:
        settings: Arguments of a Loader: what the user gave, and what to change. All of them are what YAML can hold.
        changes: Of these, what to change; empty where the defaults are as good.
        beside: Arguments that the user gave and that YAML cannot hold, such as a dtype.
        unit: "images" or "clips".
        wanted: Samples per second that the training asks for; None where faster is better.
        expected: Samples per second to expect with these settings, one number per round.
        before: The same with the defaults.
        makes: Samples per second that the loader makes with these settings if nobody waits for a training step.
        makes_before: The same with the defaults.
        enough: Whether the training step does not wait for the loader any more.
        bottleneck: What limits the loader with the defaults, one sentence with its evidence.
        doubt: Why what the loader itself saw differs from that; "" where it does not.
        advice: What would lift it, the greatest factor first.
        tried: The candidates.
        absent: Why candidates could not take part, by name.
        left_out: Names of those for which there was no time.
        ceilings: What every stage and storage give; None for clips, whose stages are not measured one by one.
        bound: What follows from them.
        stats: What the loader with the defaults did in its last turn.
        seconds: How long all of it took.
        interrupted: Whether somebody ended it before its time.
    """

    settings: Mapping[str, Any]
    changes: Mapping[str, Any]
    beside: Mapping[str, str]
    unit: str
    wanted: float | None
    expected: Rate
    before: Rate
    makes: float
    makes_before: float
    enough: bool
    bottleneck: str
    doubt: str
    advice: Sequence[Advice]
    tried: Sequence[Tried]
    absent: Mapping[str, str]
    left_out: Sequence[str]
    ceilings: Ceilings | None
    bound: Bound | None
    stats: Stats | None
    seconds: float
    interrupted: bool = False

    def as_python(self) -> str:
        """The loader with these settings, as a line of Python."""
        given = {name: repr(value) for name, value in self.settings.items()} | dict(self.beside)
        arguments = ", ".join(f"{name}={value}" for name, value in given.items())
        return f"loader = Loader(dataset, recipe, {arguments})"

    def as_yaml(self) -> str:
        """The settings as YAML: `Loader(dataset, recipe, **yaml.safe_load(text))`."""
        from ruamel.yaml import YAML

        yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
        yaml.default_flow_style = False
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        yaml.dump(dict(self.settings), stream)
        return stream.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        named = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("expected", "before"):
            named[name] = named[name].to_dict()
        named["tried"] = [{**vars(one), "rate": one.rate.to_dict()} for one in self.tried]
        named["advice"] = [{**vars(one), "settings": dict(one.settings)} for one in self.advice]
        for name in ("ceilings", "bound"):
            named[name] = named[name] and asdict(named[name])
        named["stats"] = None if self.stats is None else self.stats.to_dict()
        named |= {"python": self.as_python(), "yaml": self.as_yaml()}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in named.items()
        }
