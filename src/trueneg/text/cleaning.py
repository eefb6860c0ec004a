"""Clean the text of a report lightly, and normalise texts to compare them."""

import re
import unicodedata

import regex

from trueneg.text.words import UNSPACED

MARK = "XXXX"  # replaces every de-identification mark: one word, which a vocabulary can include
MARKS = re.compile(r"(?:X{3,}|_{2,4})(?:\s+(?:X{3,}|_{2,4})(?!\w))*")
# A list number at the start of a line or after the end of a sentence: 1. No acute disease. 2) 8 mm
# nodule.
ENUMERATION = re.compile(
    r"(?:^|(?<=[.;:!?])(?=\s))\s*\(?\d{1,2}[.)],?(?:\s*(?=[A-Za-z])|\s+(?=\d[\d.]*\s?[cm]m\b))",
    re.MULTILINE,
)
# also: Chest 1. No acute disease
LIST_BEGINS = re.compile(r"^(?:[A-Z][a-z]+ ){0,2}\(?1[.)]\s*(?=[A-Z])", re.MULTILINE)
MISSING_SPACE = re.compile(r"(?<=[a-z0-9%)X])([.;])(?=[A-Z][a-z])")
BLANK = regex.compile(r"[\p{Z}\p{M}\p{Cc}\p{Cf}\p{Cs}]*")
# A line break within a text of a script without spaces, or after its punctuation.
WRAPPED = regex.compile(
    rf"(?<=[{UNSPACED}\u3001-\u303f\uff01-\uff65])[^\S\n]*\n"
    rf"[^\S\n]*(?=[{UNSPACED}\u3001-\u303f\uff01-\uff65])"
)


def clean(text: str, language: str = "en") -> str:
    """Clean a text lightly before it is split into sentences; everything else is left unchanged.

    * Each run of de-identification marks (``XXXX``, ``___``) becomes one ``XXXX``.
    * List numbers (``1.``, ``2)``) at the start of a line or sentence are removed. In a list that
      begins with 1, they are also removed if the previous item lacks a full stop (``Cardiomegaly 2.
      No edema``), which is then added.
    * A missing space after a full stop (``effusion.Heart``) is added, repeated full stops are
      merged, and a space before a full stop is removed.
    * Lines are joined, empty lines between paragraphs become a single ``\\n``, and paragraphs
      without words are dropped.

    In languages other than English (``language`` is not ``"en"``), numbers and punctuation stay as
    they are, because a number with a full stop can be an ordinal, and lines in scripts without
    spaces are joined without one.

    Example:
        >>> clean("1. No ___ airspace disease.Heart size is\\nnormal .. 2. Stable 2.5 cm nodule.")
        'No XXXX airspace disease. Heart size is normal. Stable 2.5 cm nodule.'
    """
    # a line of underscores separates an addendum from its report
    text = re.sub(r"_{5,}", "\n\n", text)
    # ENUMERATION takes quadratic time on runs of line breaks
    text = re.sub(r"\n\s*\n", "\n\n", text)
    text = MARKS.sub(MARK, text)
    if language != "en":
        paragraphs = (
            re.sub(r"\s+", " ", part).strip() for part in WRAPPED.sub("", text).split("\n\n")
        )
        return "\n".join(part for part in paragraphs if has_words(part))
    text = MISSING_SPACE.sub(r"\1 ", text)
    text = ENUMERATION.sub(" ", _end_items(text))
    paragraphs = (re.sub(r"\s+", " ", part) for part in re.split(r"\n\s*\n", text))
    # but keep the space before .5 cm
    paragraphs = (re.sub(r"\s+(?=[.,;:](?!\d))", "", part) for part in paragraphs)
    paragraphs = (
        re.sub(r"\.(?:\s*\.)+", ".", part).lstrip(" .,;:").rstrip() for part in paragraphs
    )
    return "\n".join(part for part in paragraphs if has_words(part))


def has_words(text: str) -> bool:
    """Return whether a text contains a letter of any script outside its de-identification marks.

    Example:
        >>> has_words("正常"), has_words("12 % 3º ___ XXXX 🙂")
        (True, False)
    """
    return any(map(str.isalpha, re.sub("[ªº]", "", MARKS.sub("", text))))


def is_blank(text: str) -> bool:
    """Return whether a text has only spaces, and control, format and combining characters, which
    tokenizers drop.

    Example:
        >>> is_blank("\u200d \u00ad\u202e"), is_blank("?")
        (True, False)
    """
    return BLANK.fullmatch(text) is not None


def normalised(text: str) -> str:
    """Return a text in Unicode's NFKC, without case, repeated white space and final punctuation;
    itself if nothing is left.

    Example:
        >>> (
        ...     normalised("Heart size  normal ."),
        ...     normalised("ＨＥＡＲＴ SIZE\\nNORMAL！"),
        ...     normalised("?!"),
        ... )
        ('heart size normal', 'heart size normal', '?!')
    """
    # NFKC has replaced … and full-width forms
    return same_form(text).rstrip(" .!?。") or text


def same_form(text: str) -> str:
    """Return a text in Unicode's NFKC, without case and repeated white space."""
    if text.isascii():  # has one form, and is common
        return " ".join(text.lower().split())
    # folding can undo NFKC
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def _end_items(text: str) -> str:
    """Add a full stop before every list number; only counting along distinguishes list numbers from
    measurements.
    """
    begins = LIST_BEGINS.search(text)
    if begins is None:
        return text
    done = text[: begins.end()]
    rest = text[begins.end() :]
    done = re.sub(r"(?<=[a-z])\s+(?=\(?1[.)]\s*$)", ". ", done)
    for number in range(2, 30):
        ended = re.search(rf"(?<=[.;:!?])\s+\(?{number}[.)]", rest)
        item = ended or re.search(rf"(?<=[\w)])\s+\(?{number}[.)],?\s+(?=[A-Z])", rest)
        if item is None:
            break
        done += rest[: item.start()] + ("" if ended else ".") + rest[item.start() : item.end()]
        rest = rest[item.end() :]
    return done + rest
