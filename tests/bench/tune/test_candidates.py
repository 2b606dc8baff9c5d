"""What is tried, and what never is."""

from bench.tune.candidates import DEFAULTS, Candidate, Ground, candidates, combinations, options


def ground(**more: object) -> Ground:
    """A machine with two cores, everything installed."""
    own: dict[str, object] = {
        "num_threads": 2,
        "device": "cpu",
        "decoder": "cpu",
        "engine": "fused",
        "decoders": ["dali", "cpu"],
        "engines": ["fused", "kornia"],
        **more,
    }
    return Ground(**own)  # type: ignore[arg-type]


def test_the_defaults_come_first_and_nothing_twice() -> None:
    """Every candidate has another name, and the first sets nothing."""
    names = [candidate.name for candidate in candidates(ground(waits=True))]

    assert names[0] == DEFAULTS
    assert len(names) == len(set(names))
    assert "helper_process=True" in names
    assert "decoder='dali'" in names


def test_what_the_user_set_is_left_alone() -> None:
    """No candidate names an argument that was given."""
    fixed = frozenset({"num_threads", "decoder", "decode"})
    tried = [*candidates(ground(fixed=fixed, waits=True)), *options(ground(fixed=fixed))]

    assert not {name for candidate in tried for name in candidate.settings} & fixed


def test_a_helper_process_needs_our_own_decoder() -> None:
    """With DALI as the default decoder none is tried but together with ours."""
    tried = [dict(one.settings) for one in candidates(ground(decoder="dali"))]

    assert [one for one in tried if "helper_process" in one] == [
        {"decoder": "cpu", "helper_process": True}
    ]
    fixed = candidates(ground(decoder="dali", fixed=frozenset({"decoder"})))
    assert not any("helper_process" in one.settings for one in fixed)


def test_what_alters_anything_is_an_option() -> None:
    """Other pixels and another order are options, which say so, and are no candidates."""
    found = options(ground(blocks=True))

    assert {one.name: one.alters for one in found} == {
        "shuffle='block'": "order",
        "decode='fast'": "pixels",
    }
    assert not any(one.alters for one in candidates(ground(blocks=True)))
    assert options(ground(jpegs=False)) == []


def test_combinations_set_nothing_twice() -> None:
    """The best is joined with the next that sets something else; the better value of a setting is kept."""
    good = [
        Candidate({"num_threads": 4}),
        Candidate({"num_threads": 8}),
        Candidate({"prefetch": 4}),
        Candidate({"helper_process": True}),
    ]

    assert [dict(one.settings) for one in combinations(good)] == [
        {"num_threads": 4, "prefetch": 4},
        {"num_threads": 4, "prefetch": 4, "helper_process": True},
    ]
    assert combinations(good[:1]) == combinations([]) == []


def test_a_process_costs_more_than_a_thread() -> None:
    """Cheap first: no process, few threads, few batches, few changes."""
    order = [
        Candidate({"num_threads": 1}),
        Candidate({"prefetch": 1}),
        Candidate(),
        Candidate({"prefetch": 4}),
        Candidate({"num_threads": 4}),
        Candidate({"helper_process": True, "num_threads": 1}),
    ]

    assert sorted(order, key=lambda one: one.cost(2, 2)) == order


def test_cheaper_settings_come_first_where_the_defaults_do() -> None:
    """There is nothing to gain in speed, so time goes into what takes less; else they come last."""
    eager, content = candidates(ground()), candidates(ground(enough=True))
    cheaper = ["num_threads=1", "prefetch=1"]

    assert [one.name for one in content[1:3]] == cheaper
    assert [one.name for one in eager[-2:]] == cheaper
    assert {one.name for one in eager} == {one.name for one in content}
