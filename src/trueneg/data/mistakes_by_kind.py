"""Report errors in the user's own files by kind, so that many errors of one kind do not hide the others."""

from collections.abc import Iterable, Sequence

from trueneg.errors import UserError

SHOWN = 2  # errors to show of each kind


def refuse_by_kind(kinds: Iterable[Sequence[str]]) -> None:
    """Raise an error with the first two messages of each kind and the number of the others; do nothing if there are none.

    Args:
        kinds: the messages of each kind.

    Raises:
        UserError: if there is a message.

    Example:
        >>> refuse_by_kind([[]])
        >>> refuse_by_kind([[f"{name}.png is damaged." for name in "abcd"], ["e.txt is not an image."]])
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.png is damaged.
        b.png is damaged.
        … and 2 more like these.
        e.txt is not an image.
    """
    lines: list[str] = []
    for messages in kinds:
        lines += messages[:SHOWN]
        if len(messages) > SHOWN:
            lines.append(f"… and {len(messages) - SHOWN:,} more like these.")
    if lines:
        raise UserError("\n".join(lines))
