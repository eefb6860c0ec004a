"""Words in any script.

Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without spaces between words; there,
each character counts as a word, so a word of several characters counts as these characters,
wherever else they occur.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import regex

# scripts without spaces
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_CHARACTER = rf"[{UNSPACED}]\p{{M}}*"
# with accents, vowel signs, joiners and non-joiners
_LETTER = rf"[\w\p{{N}}\p{{M}}\u200c\u200d--[{UNSPACED}]]"
# words of at least two letters or digits, as scikit-learn's
TERM = regex.compile(rf"(?V1){_CHARACTER}|{_LETTER}{{2,}}")
WORD_OR_MARK = regex.compile(rf"(?V1){_CHARACTER}|{_LETTER}+|[^\w\s]")


def is_mostly_latin(texts: Iterable[str]) -> bool:
    """Return whether at least half of all letters are Latin.

    Example:
        >>> is_mostly_latin(["No effusion."]), is_mostly_latin(["Выпота нет.", "CT"])
        (True, False)
    """
    counts = {
        letter: count
        for letter, count in Counter(chain.from_iterable(texts)).items()
        if letter.isalpha()
    }
    latin = sum(
        count
        for letter, count in counts.items()
        if unicodedata.name(letter, "").startswith("LATIN")
    )
    return 2 * latin >= sum(counts.values())
