"""Leave out unusable rows and images on request (``skip_incomplete``), and count them by kind."""

from collections import Counter
from pathlib import Path

from trueneg.errors import UserError

SHARE = 0.1  # of all rows or images that `skip_incomplete: true` may leave out


class Skipped:
    """Counts of the rows or images that are left out, by kind.

    Args:
        place: file or folder, for messages.
        total: number of all rows or images.
        unit: what is counted: ``"rows"`` or ``"images"``.
        allowed: the setting ``skip_incomplete``: False (none may be left out), True (at most a
            tenth), the largest number, or the largest share.

    Example:
        >>> skipped = Skipped("table.csv", 20, "rows", allowed=True)
        >>> skipped.add("without a text", 1)
        >>> skipped.add("whose image does not exist", 0)
        >>> skipped.sentence()
        '1 of 20 rows are skipped: 1 without a text.'
        >>> skipped.add("without a text", 2)
        >>> skipped.check()
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: table.csv: 3 of 20 rows are skipped: 3 without a text. ...
    """

    def __init__(self, place: str | Path, total: int, unit: str, allowed: bool | int | float):
        self.place = place
        self.total = total
        self.unit = unit
        self.allowed = allowed
        self.kinds: Counter[str] = Counter()

    def add(self, kind: str, count: int) -> None:
        """Count skipped rows or images; `kind` is a phrase that follows the number in messages
        (``without a text``).
        """
        if count:
            self.kinds[kind] += count

    def sentence(self) -> str:
        """Return the counts in a sentence without names, so that it may be shown for restricted
        data; empty if all are used.
        """
        if not self.kinds:
            return ""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
        return f"{self.kinds.total():,} of {self.total:,} {self.unit} are skipped: {kinds}."

    def check(self) -> None:
        """Check the number left out against the setting.

        Raises:
            UserError: if it is larger, or nothing remains.
        """
        share = SHARE if self.allowed is True else self.allowed
        limit = int(share * self.total) if isinstance(share, float) else int(share)
        count = self.kinds.total()
        where = f"{self.place}: {self.sentence()}"
        if count and count == self.total:
            raise UserError(
                f"{where} Expected at least one that can be used; correct them, or the settings"
                " that name them."
            )
        if count > limit:
            raise UserError(
                f"{where} Expected at most {limit:,} (skip_incomplete:"
                f" {str(self.allowed).lower()}); correct them, or set skip_incomplete to the"
                f" largest number or share that may be skipped, such as {count}."
            )
