"""What a loader says of a stream: what is promised, and what is not."""

from collections.abc import Iterator

from dali_pipes.steps.streams.steps import UNKNOWN, StreamSteps


def explain_stream(steps: StreamSteps, name: str) -> Iterator[str]:
    """Return the lines for `Loader.explain`.

    Args:
        steps: The steps of an epoch.
        name: Name of the order.
    """
    step = f"{steps.global_batch} samples a step, rank {steps.rank} of {steps.world_size}"
    end = f"last batch: {steps.last_batch}"
    if steps.length == UNKNOWN:
        yield f"order: {name}; an epoch ends with the stream, {step}, {end}"
    else:
        yield f"order: {name}; {steps.num_steps()} steps of an epoch of {steps.length} samples, {step}, {end}"
    if steps.world_size == 1:
        yield "stream: read by this process alone; each sample once, and another batch size changes no order"
    elif steps.divide == "samples":
        yield (
            "stream: every rank reads all of it and takes its part of each step; the same samples and order on any "
            "number of ranks, which a state resumes on"
        )
    else:
        yield (
            "stream: ranks divide the shards; a rank that is through early begins its shards again, another one leaves "
            "the rest out; each sample comes once if all ranks have as many; a state resumes on as many ranks alone, "
            "fast with its rank's own state"
        )
