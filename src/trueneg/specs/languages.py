"""The languages of pySBD's sentence splitter."""

import difflib
import re
from typing import Annotated

from pydantic import AfterValidator, Field

NO_LANGUAGE = "none"  # each paragraph is one sentence
NAMES = (
    "am Amharic, ar Arabic, bg Bulgarian, da Danish, de German, el Greek, en English, es Spanish, fa Persian, fr French, "
    "hi Hindi, hy Armenian, it Italian, ja Japanese, kk Kazakh, mr Marathi, my Burmese, nl Dutch, pl Polish, ru Russian, "
    "sk Slovak, ur Urdu, zh Chinese"
)
LANGUAGES = dict(pair.split() for pair in NAMES.split(", "))


def known_language(language: str) -> str:
    """Return the code of a language that can be split, or ``none``.

    Raises:
        ValueError: if it is another one; the message suggests the closest.
    """
    if language in LANGUAGES or language == NO_LANGUAGE:
        return language
    names = {name.lower(): code for code, name in LANGUAGES.items() for name in (code, name)}
    close = difflib.get_close_matches(re.split("[-_]", language.lower())[0], names, n=1)
    hint = f"did you mean {names[close[0]]}? Expected" if close else "expected"
    raise ValueError(f" is {language!r}; {hint} none (each paragraph is one sentence) or one of {NAMES}")


Language = Annotated[str, AfterValidator(known_language), Field(json_schema_extra={"enum": [*LANGUAGES, NO_LANGUAGE]})]
