"""What limits a measurement: a sentence with its evidence, by rules, or that it is not known.

A rule gets a measurement and all of the same step, and answers with a sentence, or with "" where its evidence is
not there. The first that answers counts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.gpu_report.markdown import is_number, number, percent
from bench.gpu_report.rows import Measured

Rows = Mapping[str, Measured]
Rule = Callable[[Measured, Rows], str]

_FULL = 95.0
"""Percent at which an engine of the GPU counts as fully at work."""

_HOST_BUSY, _GPU_IDLE = 85.0, 0.30
_NEAR = 0.10
"""Rates that differ by less count as the same."""

NO_LOADER = "no loader"
"""The training step that is lent a batch which lies on the device."""

_MOST = 0.60
"""A part of the time that is larger than all others together by far."""


def limit(row: Measured, rows: Rows) -> str:
    """Say what limits a measurement.

    Args:
        row: The measurement.
        rows: All of the same step, by name.
    """
    if row.error:
        return "not known: it failed"
    for rule in _RULES.get(row.step, _LOADER_RULES):
        if said := rule(row, rows):
            return said
    return f"not known: {_seen(row)}"


def _engines(row: Measured, _: Rows) -> str:
    """An engine of the GPU that never rests."""
    for name in ("the JPEG engine", "NVDEC"):
        busy = row.fact(f"percent of {name}")
        if busy is not None and busy >= _FULL:
            return f"{name}: busy {number(busy)} % of the time"
    return ""


def _video_engine(row: Measured, _: Rows) -> str:
    busy = row.fact("percent of NVDEC")
    if busy is not None and busy > 90:
        return f"NVDEC: busy {number(busy)} % of the time"
    return ""


def _host(row: Measured, _: Rows) -> str:
    """The GPU waits while the cores work."""
    cores, idle = row.fact("percent of the cores"), _idle(row)
    if cores is not None and idle is not None and cores >= _HOST_BUSY and idle >= _GPU_IDLE:
        return f"the host: {number(cores)} % of the cores busy, the GPU idle {percent(idle)} of the time"
    return ""


def _gpu(row: Measured, _: Rows) -> str:
    """Kernels follow each other without a break."""
    busy, idle = row.fact("percent of the GPU"), _share(row, "idle")
    if idle is None and busy is not None and busy >= _FULL:
        return f"the GPU's kernels: one or another at work {number(busy)} % of the time"
    if idle is not None and idle <= 1 - _FULL / 100:
        parts = {name: value for name, value in _shares(row).items() if name != "idle"}
        most = max(parts, key=parts.__getitem__, default="")
        more = f", most of it {most} ({percent(parts[most])})" if most else ""
        return f"the GPU: idle {percent(idle)} of the time{more}"
    return ""


def _decoder(row: Measured, rows: Rows) -> str:
    """As fast as the decoder alone; of tiled files that says nothing, since it decodes whole ones."""
    alone = _alone(rows)
    if alone is None or alone is row or "(tiled)" in row.name or not alone.speed or not row.speed:
        return ""
    ratio = row.speed / alone.speed
    if abs(1 - ratio) <= _NEAR:
        return f"the decoder: {ratio:.2f} of {alone.name} at the same settings"
    return ""


def _alone(rows: Rows) -> Measured | None:
    return next((rows[name] for name in ("decode-only", "decode only") if name in rows), None)


def _is_decoder(row: Measured, rows: Rows) -> str:
    if row is _alone(rows):
        return "the decoder: nothing else is done"
    return ""


def _threads(row: Measured, _: Rows) -> str:
    """Of a loader: on what its threads spend most of their time."""
    stages = {name: row.fact(f"share of {name}") for name in ("read", "decode", "augment", "copy")}
    known = {name: share for name, share in stages.items() if share is not None}
    most = max(known, key=known.__getitem__, default="")
    if most and known[most] >= _MOST:
        return f"{_STAGES[most]}: {percent(known[most])} of the time that its stages take"
    return ""


_STAGES = {"read": "reading", "decode": "decoding", "augment": "augmenting", "copy": "copying"}


def _model(row: Measured, rows: Rows) -> str:
    """Of a training step: the model, its loader, or that they are in each other's way."""
    if row.name == NO_LOADER:
        return "the model: nothing is loaded"
    ideal, lost = rows.get(NO_LOADER), row.fact("share_lost")
    if ideal is None or not ideal.speed or lost is None:
        return ""
    if lost < 0.02:
        return f"the model: {percent(max(lost, 0.0))} lost beside the step without a loader"
    alone = row.fact("alone_images_per_second")
    if alone is None:
        return ""
    ratio = alone / ideal.speed
    if ratio < 1:
        return f"the loader: alone it gives {number(ratio, 2)} of what the model takes"
    asked = row.fact("share_in_next")
    waiting = (
        "" if asked is None else f", {percent(asked)} of the time passes in asking for batches"
    )
    return (
        f"both work on one machine: alone the loader gives {number(ratio, 2)} times what the model takes, "
        f"together {percent(lost)} are lost{waiting}"
    )


def _floors(row: Measured, _: Rows) -> str:
    """Of a kernel: its time beside the least that its bytes and its operations take."""
    spent = _kernel_milliseconds(row)
    floors = _floor_milliseconds(row)
    if spent is None or not floors:
        return ""
    most = max(floors, key=floors.__getitem__)
    times = spent / floors[most]
    if times > 2:
        return ""
    word = "" if times <= 1.25 else "mostly "
    return f"{word}{_FLOORS[most]}: {number(times)} times the floor by {most}"


_FLOORS = {"bytes": "the memory's bandwidth", "operations": "the arithmetic units"}


def _bandwidth(row: Measured, _: Rows) -> str:
    share = row.fact("share_of_copy")
    if share is not None and share >= 0.8:
        return f"the memory's bandwidth: {percent(share)} of a copy's"
    return ""


def _launches(row: Measured, _: Rows) -> str:
    """Of a kernel: the host asks more slowly than the device answers, or leaves gaps."""
    device, host, spent = (
        row.fact("milliseconds_device"),
        row.fact("milliseconds_host"),
        _kernel_milliseconds(row),
    )
    if device is None or host is None or spent is None or device <= 0:
        return ""
    gaps = 1 - spent / device
    if gaps >= 0.15 and host >= (1 - _NEAR) * device:
        return f"the host: asking takes {number(host)} ms of {number(device)}, the kernels {number(spent)} ms"
    if gaps >= 0.15:
        return f"gaps between the kernels: {percent(gaps)} of the {number(device)} ms"
    return ""


def _kernel_milliseconds(row: Measured) -> float | None:
    return row.fact("milliseconds_of_kernels")


def _floor_milliseconds(row: Measured) -> dict[str, float]:
    """The least that the bytes and the operations of a kernel take, each alone."""
    found: Any = row.facts.get("floor_milliseconds")
    return {name: found[name] for name in _FLOORS if name in found} if found else {}


def _bytes_of_window(row: Measured, rows: Rows) -> str:
    """Of parts cut out of tiled files: whether the time falls as the bytes do."""
    place, _, decoder = row.name.partition(", ")
    whole = rows.get(f"{place.split()[0]} tiled, {decoder}")
    share = row.fact("share_of_bytes")
    if " cut " not in place or whole is None or not whole.speed or not row.speed or not share:
        return ""
    taken = whole.speed / row.speed
    said = f"{percent(share)} of the bytes take {percent(taken)} of the whole's time"
    if taken <= share * 1.2:
        return f"decoding, byte for byte: {said}"
    if taken >= 1.5 * share:
        return f"a cost of each image or batch that does not shrink with it: {said}"
    return ""


def _kernel(row: Measured, rows: Rows) -> str:
    """Of our batch stage: what the step `kernel` found about the same work."""
    kernel = row.facts.get("kernel")
    if not isinstance(kernel, Measured):
        return ""
    said = next((said for rule in _KERNEL_RULES if (said := rule(kernel, rows))), "")
    return f"{said} (by `kernel`, {kernel.name})" if said else ""


_KERNEL_RULES: Sequence[Rule] = (_launches, _floors, _bandwidth)
_LOADER_RULES: Sequence[Rule] = (_is_decoder, _engines, _decoder, _gpu, _host, _threads)
_RULES: Mapping[str, Sequence[Rule]] = {
    "kernel": _KERNEL_RULES,
    "tilings": _KERNEL_RULES,
    "batch-stage": (_kernel,),
    "training": (_model, *_LOADER_RULES),
    "tiles": (_engines, _gpu, _host, _bytes_of_window),
    "video-decode": (_video_engine, _gpu, _host),
    "video-loader": (_video_engine, *_LOADER_RULES),
}


def _shares(row: Measured) -> dict[str, float]:
    """Of a trace: by whom the GPU was at work."""
    traced: Any = row.facts.get("traced")
    found = traced.get("share") if isinstance(traced, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {str(name): float(value) for name, value in found.items() if is_number(value)}


def _share(row: Measured, name: str) -> float | None:
    return _shares(row).get(name)


def _idle(row: Measured) -> float | None:
    """The part of the time in which the GPU did nothing: by a trace, else by its driver."""
    if (idle := _share(row, "idle")) is not None:
        return idle
    busy = row.fact("percent of the GPU")
    return None if busy is None else 1 - busy / 100


def _seen(row: Measured) -> str:
    """What was looked at without an answer."""
    seen = [
        f"{name.removeprefix('percent of ')} {number(value)} % busy"
        for name in row.facts
        if name.startswith("percent of ")
        and not name.endswith("at most")
        and (value := row.fact(name)) is not None
    ]
    seen += [f"{name} {percent(share)} of the time" for name, share in _shares(row).items()]
    if (share_of_bytes := row.fact("share_of_bytes")) is not None:
        seen.append(f"{percent(share_of_bytes)} of the bytes")
    if (share_of_copy := row.fact("share_of_copy")) is not None:
        seen.append(f"{percent(share_of_copy)} of a copy's bandwidth")
    seen += [
        f"{number(spent / floor)} times the floor by {what}"
        for what, floor in _floor_milliseconds(row).items()
        if floor and (spent := _kernel_milliseconds(row)) is not None
    ]
    return ", ".join(seen) or "nothing was looked at beside the speed"
