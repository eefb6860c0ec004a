"""Find the findings and the impression in a plain-text report."""

import difflib
import re
from collections.abc import Mapping

FINDINGS = "findings"
IMPRESSION = "impression"
VIEWS = "views"
OTHER = "other"
# Words in a header, in order of precedence. OTHER ends a section without being findings or
# impression. Any other header in capitals (HEART:, LINES AND TUBES:) is treated as a heading within
# the current section.
WORDS = {
    FINDINGS: re.compile(r"\b(FINDINGS?|DESCRIPTION|OBSERVATIONS)\b|^REPORT$"),
    IMPRESSION: re.compile(r"\b(IMPRESSIONS?|CONCLUSIONS?|OPINION|INTERPRETATION|SUMMARY)\b"),
    OTHER: re.compile(
        r"\b(EXAM|EXAMINATION|STUDY|PROCEDURE|INDICATIONS?|HISTORY|REASON|CLINICAL|SYMPTOMS?"
        r"|DIAGNOSIS|TECHNIQUE|COMPARISONS?|"
        r"COMPARED|RECOMMENDATIONS?|NOTIFICATIONS?|NOTICE|ADDENDUM|WET"
        r" READ|PRELIMINARY|DATE|TIME|PHYSICIAN|RADIOLOGIST|"
        r"DICTATED|SIGNED|ATTENDING|PROVIDER|FINAL REPORT|DOSE|CONTRAST|MEDICATIONS?|ACCESSION)\b"
    ),
}
SPELLINGS = {
    "FINDING": FINDINGS,
    "FINDINGS": FINDINGS,
    "IMPRESSION": IMPRESSION,
    "IMPRESSIONS": IMPRESSION,
}
# Some reports put the findings under the name of the examination (PORTABLE AP CHEST RADIOGRAPH:).
VIEW_WORDS = re.compile(
    r"\b(CHEST|PA|AP|LATERAL|FRONTAL|PORTABLE|UPRIGHT|SUPINE|RADIOGRAPHS?|VIEWS?|X-?RAYS?)\b"
)

HEADER = re.compile(
    r"^[ \t]*(?P<capitals>[A-Z][A-Z0-9 ()/,&.'-]{1,70}?)[ \t]*:"  # FINDINGS:
    r"|^[ \t]*(?P<title>(?:Findings?|Impressions?|Conclusions?|Opinion|Findings? (?:and|/|&)"
    r" Impressions?|Indications?|"
    # Findings:
    r"(?:Clinical )?History|Comparisons?|Technique|Exam(?:ination)?|Procedure|Recommendations?))["
    r" \t]*:"
    # on a line
    r"|^[ \t]*(?P<alone>FINDINGS?|IMPRESSIONS?|CONCLUSIONS?|FINAL (?:REPORT|ADDENDUM)|WET READ)["
    r" \t]*-?[ \t]*$",
    re.MULTILINE,
)


def parse_sections(text: str) -> Mapping[str, str]:
    """Parse the sections of a report; header capitalisation and small misspellings do not matter.

    A section ends at the next header. If a name occurs twice (an addendum), both texts are kept. A
    report without headers counts as findings. If a report has headers but neither findings nor
    impression, its last paragraph after them is returned as ``"last paragraph"``.

    Args:
        text: text of a whole report.

    Returns:
        The non-empty sections among ``findings`` and ``impression``; otherwise ``last paragraph``,
            or an empty mapping.

    Example:
        >>> parse_sections(
        ...     "INDICATION: Cough.\\n\\nFINDINGS:  Clear lungs.\\n\\nIMPRSSION: Normal."
        ... )
        {'findings': 'Clear lungs.', 'impression': 'Normal.'}
    """
    headers = [(match, name) for match in HEADER.finditer(text) if (name := _section_of(match))]
    if not headers:
        return {FINDINGS: text.strip()} if text.strip() else {}
    texts: dict[str, list[str]] = {name: [] for name in (FINDINGS, IMPRESSION, VIEWS, OTHER)}
    ends = [match.start() for match, _ in headers[1:]] + [len(text)]
    for (match, name), end in zip(headers, ends, strict=True):
        if content := text[match.end() : end].strip():
            texts[name].append(content)
    contents = {FINDINGS: texts[FINDINGS] or texts[VIEWS], IMPRESSION: texts[IMPRESSION]}
    if any(contents.values()):
        return {name: "\n\n".join(parts) for name, parts in contents.items() if parts}
    paragraphs = [
        part.strip() for part in re.split(r"\n\s*\n", text[headers[-1][0].end() :]) if part.strip()
    ]
    # the first belongs to the header
    return {"last paragraph": paragraphs[-1]} if len(paragraphs) > 1 else {}


def _section_of(match: re.Match) -> str | None:
    """Return ``findings``, ``impression``, ``views`` or ``other``; None for a heading within a
    section.
    """
    header = " ".join((match["capitals"] or match["title"] or match["alone"]).upper().split())
    for name, words in WORDS.items():
        if words.search(header):
            return name
    if close := difflib.get_close_matches(header, SPELLINGS, n=1, cutoff=0.8):
        return SPELLINGS[close[0]]
    return VIEWS if VIEW_WORDS.search(header) else None
