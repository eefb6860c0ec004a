"""Every golden entry computes what was recorded for its versions; every versioned part has an
entry.
"""

import pytest

from tests.golden import golden
from tests.golden.entries import all_entries
from trueneg.store import versions

ENTRIES = all_entries()
# Networks of other libraries: tests/models/towers compares each with its library, whose releases
# may change the last digits.
TOWERS = {
    **dict.fromkeys(("encoder/images/timm", "encoder/image-text/timm"), "test_timm_tower.py"),
    **dict.fromkeys(
        ("encoder/images/open_clip", "encoder/image-text/open_clip"), "test_open_clip_towers.py"
    ),
    **dict.fromkeys(
        ("text_encoder/image-text/open_clip", "text_encoder/text/open_clip"),
        "test_open_clip_towers.py",
    ),
    "text_encoder/image-text/sentence_transformers": "test_sentence_transformers_tower.py",
    "text_encoder/text/sentence_transformers": "test_sentence_transformers_tower.py",
}
# tests/training/test_frozen.py compares training on vectors with computing the tower in each step.
VECTORS = (
    "encoder/images/vectors",
    "encoder/image-text/vectors",
    "text_encoder/image-text/vectors",
    "features",
)
# Part: why it has no entry.
UNCOVERED = TOWERS | dict.fromkeys(VECTORS, "test_frozen.py")
UNCOVERED |= dict.fromkeys(
    ("guide/images/encoder", "guide/image-text/encoder"), "test_encoder_guide.py"
)
UNCOVERED["objective/images/untrained"] = "test_untrained.py"  # the features are the tower's
UNCOVERED |= dict.fromkeys(
    ("guide/text/encoder", "text_encoder/text/vectors"), "test_text_guides.py"
)


@pytest.fixture(scope="module")
def recorded():
    return golden.read()


@pytest.mark.parametrize("name", ENTRIES)
def test_results_are_those_recorded(recorded, name):
    entry = ENTRIES[name]
    assert name in recorded, f"{name} is new: run `make golden`"
    found, expected = golden.plain(entry.compute()), recorded[name]["value"]
    if not golden.equal(expected, found, entry.rtol):
        raised = golden.raised(recorded[name], golden.versions_of(entry))
        message = (
            f"{name} changed, and so did the VERSION of {', '.join(raised)}: run `make golden`"
        )
        pytest.fail(
            f"{message if raised else golden.changed(name, entry)}\nrecorded: {expected}\nfound:   "
            f" {found}",
            pytrace=False,
        )


def test_the_file_records_the_current_versions_and_no_further_entries(recorded):
    assert not recorded.keys() - ENTRIES.keys(), "these entries no longer exist: run `make golden`"
    outdated = [
        name for name in recorded if recorded[name]["versions"] != golden.versions_of(ENTRIES[name])
    ]
    assert not outdated, (
        "versions of these entries were raised, or their parts changed: run `make golden`"
    )


def test_every_versioned_part_has_an_entry():
    covered = {part for entry in ENTRIES.values() for part in entry.parts}
    assert covered <= versions.today().keys()
    assert versions.today().keys() - covered == UNCOVERED.keys()
    assert {entry.parts[0] for entry in ENTRIES.values()} >= {
        part for part in covered if part.startswith(("objective/", "task/"))
    }
