"""Some samples, to see what the data is."""

from bench.report.elements import code, section
from bench.report.markup import Markup, tag
from bench.report.pictures import SampleView, Views


def samples(views: Views, class_names: tuple[str, ...]) -> Markup:
    """Pictures that are spread evenly over the data, with their boxes, keypoints and masks."""
    if not views.shown:
        return Markup()
    cards = [_card(view, class_names) for view in views.shown]
    return section("samples", "Samples", tag("div", *cards, class_="gallery"))


def _card(view: SampleView, class_names: tuple[str, ...]) -> Markup:
    known = 0 <= view.label < len(class_names)
    label = class_names[view.label] if known else str(view.label)
    words = ", ".join(filter(None, (label if view.label >= 0 else "", view.words)))
    return tag(
        "figure",
        view.picture.markup(f"sample {view.key}"),
        tag("figcaption", code(view.key), tag("span", words)),
    )
