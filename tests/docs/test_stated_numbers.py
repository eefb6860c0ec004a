"""The measured numbers and outcome words in the text of pages about tuned comparisons follow from
committed rows.

stated.csv has one line per statement:

- page: empty for all pages.
- text: the words around its numbers, with {} for each number; it occurs once on the page.
- source: a file of docs/results; or archives of evidence, "NAME curves" for the last epochs and
  "NAME settings" for pilots; "other_tasks.csv corrected" for label-free methods after Holm's
  correction. Two sources with a minus sign between are subtracted, seed by seed.
- where: the columns that select its rows; two sides of a difference may have their own.
- contrasts: a comparison, or several, or an objective alone for its mean over seeds. Several
  sources with their selections and contrasts are separated by slashes.
- values: what the numbers are, in order; "min" or "max" is over the comparisons. Without one, the
  difference and its interval.
- scale: of the numbers, if not 100 (points, %).
- word: the outcome word of the sentence, if it has one.
- reason: of a text without source, such as a setting: why its numbers need no row.
"""

import re
from functools import cache

import pandas as pd
import pytest

from tests.docs.comparisons import INTERVAL, NUMBER, comparison, is_rounded, negated, outcome
from tests.docs.pages import FENCE, ROOT

STATED = ROOT / "tests/docs/stated.csv"
PAGES = [
    "README.md",
    "docs/decide.md",
    "docs/when-it-helps.md",
    "docs/findings.md",
    *(
        f"docs/results/{name}.md"
        for name in (
            "banking77",
            "banking77_finetune",
            "cleaned_files",
            "clinc150",
            "digits",
            "few_labels",
            "fine_tuning",
            "guided_placebos",
            "flickr8k_tuned",
            "hard_negatives",
            "open_i_frozen",
            "tuned_baseline",
        )
    ),
]
DEFAULTS = {1: INTERVAL[:1], 2: INTERVAL[1:], 3: INTERVAL}
GAIN = {"better", "better by less than the margin", "above 0"}
LOSS = {"worse", "worse by less than the margin", "below 0"}
NOT_SHOWN = {"undecided", "around 0"}
NO_GAIN = LOSS | NOT_SHOWN | {"equivalent"}
MEANINGS = [
    *(({outcome}, [outcome]) for outcome in (*GAIN, *LOSS)),
    ({"better by less than the margin"}, ["less than the margin"]),
    ({"worse by less than the margin"}, ["worse, by less than the margin"]),
    ({"equivalent"}, ["equivalent", "within"]),
    (GAIN, ["gain", "Gains", "above", "higher", "beat"]),
    (GAIN, ["lead is seen", "lead recurs", "lead holds"]),
    (LOSS, ["lose", "below", "lower", "cost", "smaller"]),
    (
        NOT_SHOWN,
        ["undecided", "cannot tell", "cannot be distinguished", "differs by", "no clear change"],
    ),
    (NOT_SHOWN, ["keeps", "changes little", "not clearly differ", "no clear gain"]),
    (NOT_SHOWN, ["none is shown to be equivalent", "not shown to differ"]),
    ({"undecided", "worse"}, ["undecided or worse"]),
    (NOT_SHOWN, ["not when fine-tuned"]),
    (NO_GAIN, ["no gain", "not shown to gain", "none in", "none of", "show none"]),
    (NO_GAIN, ["but not", "nor"]),
    (
        NO_GAIN,
        ["none was seen", "no lead", "no label-free method", "No label-free method clearly beats"],
    ),
    # of those that the sentence leaves out
    (NO_GAIN, ["only one above", "only that one", "only guided removal", "three of ten"]),
    (NO_GAIN, ["with one of two", "only with images"]),
]
WORDS = {word: outcomes for outcomes, words in MEANINGS for word in words}
# what a line must account for
IS_STATED = re.compile(
    r"(?<![\w.])[+−]?\d+\.\d+"
    r"|(?<=[\[(])[+−]?\d+(?=(?:,| to) [+−]?\d)|(?<=\d, )[+−]?\d+(?=\])"
    r"|(?<![\w.])[+−]?\d+(?= (?:%|points))"
    r"|\b(?:better|worse|equivalent|undecided)\b"
)


@cache
def prose(page):
    """A page in one line: no code blocks, links' targets or emphasis, nor tables of results."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    if page == "README.md":
        text = text.split("## What it found")[1].split("\n## ")[0]
    left_out = r" {4}|\|" if "results" in page else r" {4}"
    text = re.sub(rf"(?m)^(?:{left_out}).*$", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return " ".join(re.sub(r"[*`\\]", "", text).split())


def statements():
    lines = pd.read_csv(STATED, keep_default_na=False, dtype=str)
    return lines.to_dict("records")


def places(statement, text):
    """Where a statement's text stands."""
    words = [re.escape(part) for part in statement["text"].split("{}")]
    return list(re.finditer(rf"(?<![\d.])({NUMBER})(?!\d|\.\d)".join(words), text))


def rows(statement):
    """The comparisons of a statement."""
    parts = [statement[key].split(" / ") for key in ("source", "where", "contrasts")]
    count = max(map(len, parts))
    parts = [part * count if len(part) == 1 else part for part in parts]
    return [
        comparison(source, where, contrast)
        for source, where, contrasts in zip(*parts, strict=True)
        for contrast in contrasts.split("; ")
    ]


def expected(statement, printed):
    """The values of a statement's numbers; a word may replace the sign."""
    names = statement["values"].split("; ") if statement["values"] else DEFAULTS[len(printed)]
    found = rows(statement)
    is_signed = any(number[0] in "+−" for number in printed)
    if not is_signed and WORDS.get(statement["word"], GAIN) <= LOSS:
        found = [negated(row) for row in found]
    for name in names:
        choice, _, column = name.partition(" ")
        if choice in ("min", "max"):
            value = {"min": min, "max": max}[choice](row[column] for row in found)
        else:
            (row,) = found
            value = row[name]
        yield float(statement["scale"] or 100) * value


def disagreement(statement, text):
    """What is wrong with a statement in the text of its page; None if nothing."""
    occurrences = places(statement, text)
    if len(occurrences) != 1:
        return f"occurs {len(occurrences)} times"
    printed = occurrences[0].groups()
    for number, value in zip(printed, expected(statement, printed) if printed else (), strict=True):
        if not is_rounded(number, value):
            return f"{number} is {value:.4f}"
    return wrong_word(statement)


def wrong_word(statement):
    word = statement["word"]
    if not word:
        return None
    longer = [other for other in WORDS if word in other and other in statement["text"]]
    if longer != [word]:
        return f"its words are {longer}"
    outcomes = {outcome(row) for row in rows(statement)}
    return None if outcomes <= WORDS[word] else f"{word} is {outcomes}"


STATEMENTS = statements()
# by page, or by archive: reading one takes a second
MEASURED = {}
for statement in STATEMENTS:
    if statement["source"]:
        is_slow = statement["source"].endswith((" curves", " settings"))
        group = statement["source"] if is_slow else statement["page"]
        MEASURED.setdefault(group, []).append(statement)


def unaccounted(page, text):
    """The numbers and outcome words of a page without a statement."""
    spans = [
        place.span()
        for statement in STATEMENTS
        if statement["page"] in ("", page)
        for place in places(statement, text)
    ]
    return [
        text[max(0, found.start() - 60) : found.end() + 25]
        for found in IS_STATED.finditer(text)
        if not any(start <= found.start() and found.end() <= end for start, end in spans)
    ]


@pytest.mark.parametrize("group", MEASURED)
def test_each_stated_number_and_outcome_is_that_of_its_rows(group):
    for statement in MEASURED[group]:
        assert disagreement(statement, prose(statement["page"])) is None, statement


@pytest.mark.parametrize("page", PAGES)
def test_each_number_and_outcome_word_is_accounted_for(page):
    assert page in MEASURED
    assert unaccounted(page, prose(page)) == []


def test_a_statement_has_a_source_or_a_reason():
    for statement in STATEMENTS:
        assert bool(statement["source"]) != bool(statement["reason"]), statement
        assert "{}" in statement["text"] or statement["word"] or statement["reason"], statement
        pages = [statement["page"]] if statement["page"] else PAGES
        assert any(places(statement, prose(page)) for page in pages), statement


@pytest.mark.parametrize("group", MEASURED)
def test_a_changed_digit_is_found(group):
    for statement in MEASURED[group]:
        text = prose(statement["page"])
        (place,) = places(statement, text)
        for number in range(1, len(place.groups()) + 1):
            end = place.end(number)
            changed = str((int(text[end - 1]) + 5) % 10)
            assert disagreement(statement, text[: end - 1] + changed + text[end:]), statement


@pytest.mark.parametrize("group", MEASURED)
def test_a_changed_outcome_word_is_found(group):
    for statement in MEASURED[group]:
        text, old = prose(statement["page"]), statement["word"]
        (place,) = places(statement, text)
        for word in ("better", "worse", "equivalent", "undecided"):
            if old and not WORDS[word] & WORDS[old]:
                changed = place[0].replace(old, word)
                altered = text[: place.start()] + changed + text[place.end() :]
                assert disagreement(statement, altered), statement
                renamed = {"word": word, "text": statement["text"].replace(old, word)}
                assert disagreement(statement | renamed, altered), (statement, word)


@pytest.mark.parametrize(
    "claim", ["by +0.3 [+0.1, +0.5]", "by 3 points", "an 11 % share", "it is *better*", "[2, 4]"]
)
def test_a_new_claim_needs_a_statement(claim):
    page = "docs/decide.md"
    assert len(unaccounted(page, f"{prose(page)} Here, {claim}.")) > 0


def test_when_it_helps_is_short():
    assert len((ROOT / "docs/when-it-helps.md").read_text(encoding="utf-8").split()) <= 900
