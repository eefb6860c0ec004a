"""Extract findings and impression from a plain-text report, and clean their text lightly."""

import difflib
import re
from collections.abc import Mapping

FINDINGS, IMPRESSION, VIEWS, OTHER = "findings", "impression", "views", "other"
# Words in a header, in order of precedence. OTHER ends a section without being findings or impression. Any other header in
# capitals (HEART:, LINES AND TUBES:) is treated as a heading within the current section.
WORDS = {
    FINDINGS: re.compile(r"\b(FINDINGS?|DESCRIPTION|OBSERVATIONS)\b|^REPORT$"),
    IMPRESSION: re.compile(r"\b(IMPRESSIONS?|CONCLUSIONS?|OPINION|INTERPRETATION|SUMMARY)\b"),
    OTHER: re.compile(
        r"\b(EXAM|EXAMINATION|STUDY|PROCEDURE|INDICATIONS?|HISTORY|REASON|CLINICAL|SYMPTOMS?|DIAGNOSIS|TECHNIQUE|COMPARISONS?|"
        r"COMPARED|RECOMMENDATIONS?|NOTIFICATIONS?|NOTICE|ADDENDUM|WET READ|PRELIMINARY|DATE|TIME|PHYSICIAN|RADIOLOGIST|"
        r"DICTATED|SIGNED|ATTENDING|PROVIDER|FINAL REPORT|DOSE|CONTRAST|MEDICATIONS?|ACCESSION)\b"
    ),
}
SPELLINGS = {"FINDING": FINDINGS, "FINDINGS": FINDINGS, "IMPRESSION": IMPRESSION, "IMPRESSIONS": IMPRESSION}
# Some reports put the findings under the name of the examination (PORTABLE AP CHEST RADIOGRAPH:).
VIEW_WORDS = re.compile(r"\b(CHEST|PA|AP|LATERAL|FRONTAL|PORTABLE|UPRIGHT|SUPINE|RADIOGRAPHS?|VIEWS?|X-?RAYS?)\b")

HEADER = re.compile(
    r"^[ \t]*(?P<capitals>[A-Z][A-Z0-9 ()/,&.'-]{1,70}?)[ \t]*:"  # FINDINGS:
    r"|^[ \t]*(?P<title>(?:Findings?|Impressions?|Conclusions?|Opinion|Findings? (?:and|/|&) Impressions?|Indications?|"
    r"(?:Clinical )?History|Comparisons?|Technique|Exam(?:ination)?|Procedure|Recommendations?))[ \t]*:"  # Findings:
    r"|^[ \t]*(?P<alone>FINDINGS?|IMPRESSIONS?|CONCLUSIONS?|FINAL (?:REPORT|ADDENDUM)|WET READ)[ \t]*-?[ \t]*$",  # on a line
    re.MULTILINE,
)

MARK = "XXXX"  # replaces every de-identification mark: one word, which a vocabulary can include
MARKS = re.compile(r"(?:X{3,}|_{2,4})(?:\s+(?:X{3,}|_{2,4})(?!\w))*")
# A list number at the start of a line or after the end of a sentence: 1. No acute disease. 2) 8 mm nodule.
ENUMERATION = re.compile(
    r"(?:^|(?<=[.;:!?])(?=\s))\s*\(?\d{1,2}[.)],?(?:\s*(?=[A-Za-z])|\s+(?=\d[\d.]*\s?[cm]m\b))", re.MULTILINE
)
LIST_BEGINS = re.compile(r"^(?:[A-Z][a-z]+ ){0,2}\(?1[.)]\s*(?=[A-Z])", re.MULTILINE)  # also: Chest 1. No acute disease
MISSING_SPACE = re.compile(r"(?<=[a-z0-9%)X])([.;])(?=[A-Z][a-z])")


def parse_sections(text: str) -> Mapping[str, str]:
    """Parse the sections of a report; header capitalisation and small misspellings do not matter.

    A section ends at the next header. If a name occurs twice (an addendum), both texts are kept. A report without headers
    counts as findings. If a report has headers but neither findings nor impression, its last paragraph after them is returned as
    ``"last paragraph"``.

    Args:
        text: text of a whole report.

    Returns:
        The non-empty sections among ``findings`` and ``impression``; otherwise ``last paragraph``, or an empty mapping.

    Example:
        >>> parse_sections("INDICATION: Cough.\\n\\nFINDINGS:  Clear lungs.\\n\\nIMPRSSION: Normal.")
        {'findings': 'Clear lungs.', 'impression': 'Normal.'}
    """
    headers = [(match, name) for match in HEADER.finditer(text) if (name := _section_of(match))]
    if not headers:
        return {FINDINGS: text.strip()} if text.strip() else {}
    found: dict[str, list[str]] = {name: [] for name in (FINDINGS, IMPRESSION, VIEWS, OTHER)}
    ends = [match.start() for match, _ in headers[1:]] + [len(text)]
    for (match, name), end in zip(headers, ends, strict=True):
        if content := text[match.end() : end].strip():
            found[name].append(content)
    contents = {FINDINGS: found[FINDINGS] or found[VIEWS], IMPRESSION: found[IMPRESSION]}
    if any(contents.values()):
        return {name: "\n\n".join(parts) for name, parts in contents.items() if parts}
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text[headers[-1][0].end() :]) if part.strip()]
    return {"last paragraph": paragraphs[-1]} if len(paragraphs) > 1 else {}  # the first belongs to the header


def clean(text: str) -> str:
    """Clean a text lightly before it is split into sentences; everything else is left unchanged.

    * Each run of de-identification marks (``XXXX``, ``___``) becomes one ``XXXX``.
    * List numbers (``1.``, ``2)``) at the start of a line or sentence are removed. In a list that begins with 1, they are also
      removed if the previous item lacks a full stop (``Cardiomegaly 2. No edema``), which is then added.
    * A missing space after a full stop (``effusion.Heart``) is added, repeated full stops are merged, and a space before a full
      stop is removed.
    * Lines are joined, empty lines between paragraphs become a single ``\\n``, and paragraphs without words are dropped.

    Example:
        >>> clean("1. No ___ airspace disease.Heart size is\\nnormal .. 2. Stable 2.5 cm nodule.")
        'No XXXX airspace disease. Heart size is normal. Stable 2.5 cm nodule.'
    """
    text = re.sub(r"_{5,}", "\n\n", text)  # a line of underscores separates an addendum from its report
    text = MARKS.sub(MARK, text)
    text = MISSING_SPACE.sub(r"\1 ", text)
    text = ENUMERATION.sub(" ", _end_items(text))
    paragraphs = (re.sub(r"\s+", " ", part) for part in re.split(r"\n\s*\n", text))
    paragraphs = (re.sub(r"\s+(?=[.,;:](?!\d))", "", part) for part in paragraphs)  # but keep the space before .5 cm
    paragraphs = (re.sub(r"\.(?:\s*\.)+", ".", part).lstrip(" .,;:").rstrip() for part in paragraphs)
    return "\n".join(part for part in paragraphs if has_words(part))


def has_words(text: str) -> bool:
    """Return whether a text contains anything besides numbers, punctuation and de-identification marks."""
    return re.search("[A-Za-z]", text.replace(MARK, "")) is not None


def _end_items(text: str) -> str:
    """Add a full stop before every list number; only counting along distinguishes list numbers from measurements."""
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
    """Return ``findings``, ``impression``, ``views`` or ``other``; None for a heading within a section."""
    header = " ".join((match["capitals"] or match["title"] or match["alone"]).upper().split())
    for name, words in WORDS.items():
        if words.search(header):
            return name
    if close := difflib.get_close_matches(header, SPELLINGS, n=1, cutoff=0.8):
        return SPELLINGS[close[0]]
    return VIEWS if VIEW_WORDS.search(header) else None
