"""Findings and impression of a plain-text report, and the small cleaning that its text gets."""

import difflib
import re
from collections.abc import Mapping

FINDINGS, IMPRESSION = "findings", "impression"

# Headers that end a section without being findings or impression. Any other header in capitals (HEART:, LINES AND TUBES:) is
# taken for a heading within the section that it stands in.
OTHER = re.compile(
    r"\b(EXAM|EXAMINATION|STUDY|PROCEDURE|INDICATIONS?|HISTORY|REASON|CLINICAL|SYMPTOMS?|DIAGNOSIS|TECHNIQUE|COMPARISONS?|COMPARED|"
    r"RECOMMENDATIONS?|NOTIFICATIONS?|NOTICE|ADDENDUM|WET READ|PRELIMINARY|DATE|TIME|PHYSICIAN|RADIOLOGIST|DICTATED|SIGNED|"
    r"ATTENDING|PROVIDER|FINAL REPORT|DOSE|CONTRAST|MEDICATIONS?|ACCESSION)\b"
)
WORDS = {
    FINDINGS: ("FINDING", "FINDINGS", "REPORT", "DESCRIPTION", "OBSERVATIONS"),
    IMPRESSION: ("IMPRESSION", "IMPRESSIONS", "CONCLUSION", "CONCLUSIONS", "OPINION", "INTERPRETATION", "SUMMARY"),
}
# Some reports put the findings under the name of the examination (PORTABLE AP CHEST RADIOGRAPH:).
VIEWS = re.compile(r"\b(CHEST|PA|AP|LATERAL|FRONTAL|PORTABLE|UPRIGHT|SUPINE|RADIOGRAPHS?|VIEWS?|X-?RAYS?)\b")

HEADER = re.compile(
    r"^[ \t]*(?P<capitals>[A-Z][A-Z0-9 ()/,&.'-]{1,70}?)[ \t]*:"  # FINDINGS:
    r"|^[ \t]*(?P<title>(?:Findings?|Impressions?|Conclusions?|Opinion|Findings? (?:and|/|&) Impressions?|Indications?|"
    r"(?:Clinical )?History|Comparisons?|Technique|Exam(?:ination)?|Procedure|Recommendations?))[ \t]*:"  # Findings:
    r"|^[ \t]*(?P<alone>FINDINGS?|IMPRESSIONS?|CONCLUSIONS?|FINAL (?:REPORT|ADDENDUM)|WET READ)[ \t]*-?[ \t]*$",  # on a line
    re.MULTILINE,
)

MARK = "XXXX"  # what every mark of de-identification becomes: one word, which a vocabulary can learn
MARKS = re.compile(r"(?:X{3,}|_{2,4})(?:\s+(?:X{3,}|_{2,4})(?!\w))*")
# A number at the start of a line, or after the end of a sentence: 1. No acute disease. 2) 8 mm nodule.
ENUMERATION = re.compile(
    r"(?:^|(?<=[.;:!?])(?=\s))\s*\(?\d{1,2}[.)],?(?:\s*(?=[A-Za-z])|\s+(?=\d[\d.]*\s?[cm]m\b))", re.MULTILINE
)
LIST_BEGINS = re.compile(r"^(?:[A-Z][a-z]+ ){0,2}\(?1[.)]\s*(?=[A-Z])", re.MULTILINE)  # also: Chest 1. No acute disease
MISSING_SPACE = re.compile(r"(?<=[a-z0-9%)X])([.;])(?=[A-Z][a-z])")


def parse_sections(text: str) -> Mapping[str, str]:
    """The sections of a report, in capitals or not, misspelt or not.

    A section ends at the next header. Where a name occurs twice (an addendum), both texts are kept. A report without any header
    is all findings; one with headers but neither findings nor impression gives the last paragraph after them as ``"last
    paragraph"``.

    Args:
        text: a whole report.

    Returns:
        ``findings`` and ``impression``, those that are not empty; or ``last paragraph``; or nothing.

    Example:
        >>> parse_sections("INDICATION: Cough.\\n\\nFINDINGS:  Clear lungs.\\n\\nIMPRSSION: Normal.")
        {'findings': 'Clear lungs.', 'impression': 'Normal.'}
    """
    found: dict[str, list[str]] = {FINDINGS: [], IMPRESSION: []}
    views: list[str] = []
    headers = [(match, name) for match in HEADER.finditer(text) if (name := _section_of(match)) is not None]
    if not headers:
        whole = text.strip()
        return {FINDINGS: whole} if whole else {}
    for place, (match, name) in enumerate(headers):
        end = headers[place + 1][0].start() if place + 1 < len(headers) else len(text)
        content = text[match.end() : end].strip()
        if content and name in found:
            found[name].append(content)
        elif content and name == "views":
            views.append(content)
    if not found[FINDINGS]:
        found[FINDINGS] = views
    sections = {name: "\n\n".join(contents) for name, contents in found.items() if contents}
    if sections:
        return sections
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text[headers[-1][0].end() :]) if part.strip()]
    return {"last paragraph": paragraphs[-1]} if len(paragraphs) > 1 else {}  # the first belongs to the header


def clean(text: str) -> str:
    """The small cleaning before sentences are split; nothing else of the text is changed.

    * every mark of de-identification (``XXXX``, ``___``), or several in a row, becomes one ``XXXX``;
    * numbers of lists (``1.``, ``2)``) at the start of a line or sentence are removed; within a list that begins with 1 also
      where the item before has no full stop (``Cardiomegaly 2. No edema``), which it then gets;
    * a missing space after a full stop (``effusion.Heart``) is added, a repeated full stop made one, and a space before it
      removed;
    * lines are joined; an empty line stays the end of a paragraph, ``\\n``; a paragraph without any word is dropped.

    Example:
        >>> clean("1. No ___ airspace disease.Heart size is\\nnormal .. 2. Stable 2.5 cm nodule.")
        'No XXXX airspace disease. Heart size is normal. Stable 2.5 cm nodule.'
    """
    text = re.sub(r"_{5,}", "\n\n", text)  # a line of underscores parts an addendum from its report
    text = MARKS.sub(MARK, text)
    text = MISSING_SPACE.sub(r"\1 ", text)
    text = ENUMERATION.sub(" ", _end_items(text))
    paragraphs = (re.sub(r"\s+", " ", part) for part in re.split(r"\n\s*\n", text))
    paragraphs = (re.sub(r"\s+(?=[.,;:](?!\d))", "", part) for part in paragraphs)  # not: a space before .5 cm
    paragraphs = (re.sub(r"\.(?:\s*\.)+", ".", part).lstrip(" .,;:").rstrip() for part in paragraphs)
    return "\n".join(part for part in paragraphs if has_words(part))


def has_words(text: str) -> bool:
    """Whether a text says anything besides numbers and marks of de-identification."""
    return re.search("[A-Za-z]", text.replace(MARK, "")) is not None


def _end_items(text: str) -> str:
    """A full stop before every number of a list: what follows it can be told from a measurement only by counting along."""
    begins = LIST_BEGINS.search(text)
    if begins is None:
        return text
    done, rest = text[: begins.end()], text[begins.end() :]
    done = re.sub(r"(?<=[a-z])\s+(?=\(?1[.)]\s*$)", ". ", done)
    for number in range(2, 30):
        ended = re.search(rf"(?<=[.;:!?])\s+\(?{number}[.)]", rest)
        found = ended or re.search(rf"(?<=[\w)])\s+\(?{number}[.)],?\s+(?=[A-Z])", rest)
        if found is None:
            break
        done += rest[: found.start()] + ("" if ended else ".") + rest[found.start() : found.end()]
        rest = rest[found.end() :]
    return done + rest


def _section_of(match: re.Match) -> str | None:
    """``findings``, ``impression``, ``views``, ``other``; None for a heading within a section."""
    header = " ".join((match["capitals"] or match["title"] or match["alone"]).upper().split())
    for name, words in WORDS.items():
        if any(re.search(rf"\b{word}\b", header) for word in words if word != "REPORT") or header == "REPORT":
            return name
    if OTHER.search(header):
        return "other"
    for name, words in WORDS.items():
        if difflib.get_close_matches(header, words[:2], n=1, cutoff=0.8):
            return name
    return "views" if VIEWS.search(header) else None
