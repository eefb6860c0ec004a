"""Reports of unknown names."""

from collections.abc import Collection, Iterable, Iterator


def unknown(
    key: str, names: Iterable[str | None], allowed: Collection[str], kind: str = "objectives"
) -> Iterator[str]:
    """Report names under a key that are not allowed; None is skipped."""
    expected = (
        f"expected one of the {kind}: {', '.join(allowed)}" if allowed else f"there are no {kind}"
    )
    yield from (
        f"{key} refers to {name!r}; {expected}"
        for name in names
        if name is not None and name not in allowed
    )


def unknown_dataset(key: str, label: str | None, labels: Collection[str]) -> Iterator[str]:
    """Report a data set that does not exist, or a missing name if there are several data sets."""
    if label is None and len(labels) > 1:
        yield f"{key} is missing; expected one of the data sets: {', '.join(labels)}"
    yield from unknown(key, [label], labels, "data sets")
