"""Format counts with their noun in singular or plural."""


def counted(number: int, noun: str) -> str:
    """Return a count with its noun in singular or plural: ``1 class``, ``2 classes``, ``1,000 entries``."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith(("s", "x", "ch", "sh")):
        noun += "e"
    elif noun.endswith("ry"):
        noun = f"{noun[:-1]}ie"
    return f"{number:,} {noun}s"
