"""Words in any script.

Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without spaces between words; there, each character counts as a word,
so words of several characters cannot be told apart from the same characters elsewhere.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import chain

# Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, kana, Chinese.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Signs within words that \w does not match: accents, points of Hebrew and Arabic, vowel signs of Indic scripts, (non-)joiners.
_SIGNS = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
_SIGNS += "\u06df-\u06ed\u0900-\u0963\u0971-\u0dff\u200c\u200d"
_CHARACTER = rf"(?:[{UNSPACED}][\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u3099\u309a]*)"
_LETTER = rf"(?:(?![{UNSPACED}])\w|[{_SIGNS}])"
TERM = re.compile(rf"{_CHARACTER}|{_LETTER}{{2,}}")  # words of at least two letters or digits, as scikit-learn's, or a character
WORD_OR_MARK = re.compile(rf"{_CHARACTER}|{_LETTER}+|[^\w\s]")


def is_mostly_latin(texts: Iterable[str]) -> bool:
    """Return whether at least half of all letters are Latin.

    Example:
        >>> is_mostly_latin(["No effusion."]), is_mostly_latin(["Выпота нет.", "CT"])
        (True, False)
    """
    counts = {letter: count for letter, count in Counter(chain.from_iterable(texts)).items() if letter.isalpha()}
    latin = sum(count for letter, count in counts.items() if unicodedata.name(letter, "").startswith("LATIN"))
    return 2 * latin >= sum(counts.values())
