"""Plain values with one value changed: the fuzz tests' configurations and JSON files."""

import copy
import datetime
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Place = tuple[str | int, ...]
LONG = "long " * 20_000
CONTROL = "a\x1b[31m\u202eb\nc\td\u0000\u2028e"
STRANGE_KEYS = [CONTROL, "", LONG, 7, None, 3.5, datetime.date(2020, 1, 1), "a.b", "../up", "%s{0}"]
CHOICES: dict[str, list[Any]] = {
    "nothing": [None, "null", "", " ", "~"],
    "another type": [
        "words",
        3,
        0.5,
        True,
        False,
        "1e-3",
        "true",
        datetime.date(2020, 1, 1),
        b"\xff",
    ],
    "mapping": [{}, {"a": 1}, {"schedule": "linear"}, {1: 2}, {None: 3}, {"a": {"b": {}}}],
    "small": [-1, -0.5, -(10**9), "-1", 0, 0.0, "0", 5e-324],
    "huge": [10**6, 2**31, 2**63, 10**30, 1e308, 10**400, "9" * 5000, "1e999"],
    "not finite": [float("nan"), float("inf"), -float("inf"), ".nan", "inf"],
    "characters": [
        CONTROL,
        "η→✓ 猫",
        "\ufeff",
        "{0} %s %n ${HOME} {snakemake.input}",
        "<script>",
        "'\"`",
        "\x7f\x85",
    ],
    "long": [LONG, "é" * 5000, list(range(500)), {f"key{n}": n for n in range(200)}],
    "path": [
        "/",
        ".",
        "..",
        "/dev/null",
        "nowhere/at/all",
        "a\x00b",
        "x/" * 3000,
        "x" * 300,
        "~nobody/x",
        "-rf",
    ],
}
# Replacements by kind, made from the valid value and a random source.
REPLACEMENTS: dict[str, Callable[[Any, random.Random], Any]] = {
    **{kind: lambda value, draw, kind=kind: draw.choice(CHOICES[kind]) for kind in CHOICES},
    "list": lambda value, draw: draw.choice(
        [[], [value], [value, value], [None], [[value]], [1, "a"], {"name": value}]
    ),
    "near": lambda value, draw: _near(value, draw),
}
KEYS = ("key misspelt", "key missing", "key strange")


def _near(value: Any, draw: random.Random) -> Any:
    """Return a value that is nearly right."""
    if isinstance(value, bool) or value is None:
        return draw.choice([1, 0, "yes", "no"])
    if isinstance(value, (int, float)):
        return draw.choice(
            [
                value + 1,
                value - 1,
                -value,
                value * 2,
                value / 3,
                str(value),
                value + 1e-9,
                1 - value,
                value * 1000,
            ]
        )
    if isinstance(value, str) and value:
        cut = draw.randrange(len(value))
        return draw.choice(
            [
                value[:cut] + value[cut + 1 :],
                value + "x",
                value.upper(),
                f" {value} ",
                value[:cut] + "ö",
            ]
        )
    return draw.choice([[0], {"x": 0}])


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the places of leaf values; an empty list or mapping counts as a leaf."""
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    inner = [found for key, part in items for found in leaves(part, (*place, key))]
    yield from inner or [place]


def changed(
    whole: Mapping[str, Any], place: Place, kind: str, draw: random.Random
) -> dict[str, Any]:
    """Return a copy with one value, or one key, changed."""
    whole = copy.deepcopy(dict(whole))
    section: Any = whole
    *way, key = place
    for step in way:
        section = section[step]
    if kind in KEYS and isinstance(section, dict):
        value = section.pop(key)
        if kind != "key missing":
            section[f"{key}s" if kind == "key misspelt" else draw.choice(STRANGE_KEYS)] = value
    else:
        section[key] = REPLACEMENTS["another type" if kind in KEYS else kind](section[key], draw)
    return whole


def drawn_kinds(draw: random.Random, count: int, keys: bool = True) -> list[str]:
    """Draw kinds of changes; most mistakes of users are nearly right."""
    kinds = [*REPLACEMENTS, *(KEYS if keys else ())]
    return draw.choices(kinds, [6 if kind == "near" else 1 for kind in kinds], k=count)
