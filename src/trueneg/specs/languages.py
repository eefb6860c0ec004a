"""The languages of pySBD's sentence splitter."""

import difflib
from typing import Annotated

from pydantic import AfterValidator, Field

NO_LANGUAGE = "none"  # each paragraph is one sentence
LANGUAGES = {
    "am": "Amharic", "ar": "Arabic", "hy": "Armenian", "bg": "Bulgarian", "my": "Burmese", "zh": "Chinese",
    "da": "Danish", "nl": "Dutch", "en": "English", "fr": "French", "de": "German", "el": "Greek", "hi": "Hindi", "it": "Italian",
    "ja": "Japanese", "kk": "Kazakh", "mr": "Marathi", "fa": "Persian", "pl": "Polish", "ru": "Russian", "sk": "Slovak",
    "es": "Spanish", "ur": "Urdu",
}  # fmt: skip


def known_language(language: str) -> str:
    """Return the code of a language that can be split, or ``none``.

    Raises:
        ValueError: if it is another one; the message suggests the closest.
    """
    if language in LANGUAGES or language == NO_LANGUAGE:
        return language
    names = {name.lower(): code for code, name in LANGUAGES.items()} | {code: code for code in LANGUAGES}
    close = difflib.get_close_matches(language.lower().replace("_", "-").split("-")[0], names, n=1)
    hint = f"did you mean {names[close[0]]} ({LANGUAGES[names[close[0]]]})? " if close else ""
    raise ValueError(f" is {language!r}; {hint}expected {', '.join(LANGUAGES)}, or none (each paragraph is one sentence)")


Language = Annotated[str, AfterValidator(known_language), Field(json_schema_extra={"enum": [*LANGUAGES, NO_LANGUAGE]})]
