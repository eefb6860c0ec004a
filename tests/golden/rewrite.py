"""Rewrite ``golden.json``: ``make golden``. Changed results are refused unless a VERSION of their
parts was raised.
"""

import sys

from tests.golden import golden
from tests.golden.entries import all_entries


def main() -> int:
    """Rewrite the file and return 0; or print the refused entries, leave the file as it is, and
    return 1.
    """
    recorded = golden.read()
    new, refused = golden.updated(recorded, all_entries())
    if refused:
        print(*refused, sep="\n", file=sys.stderr)
        print(
            f"{len(refused)} of {len(new)} golden entries changed without a higher VERSION; nothing"
            " was written.",
            file=sys.stderr,
        )
        return 1
    golden.write(new)
    added, removed = len(new.keys() - recorded.keys()), len(recorded.keys() - new.keys())
    changed = sum(
        recorded[name]["value"] != new[name]["value"] for name in new.keys() & recorded.keys()
    )
    print(
        f"{golden.FILE.name}: {len(new)} entries, {added} added, {removed} removed, {changed}"
        " changed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
