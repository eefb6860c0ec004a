"""The languages of pySBD's sentence splitter, by their ISO 639-1 codes."""

from typing import Literal

NO_LANGUAGE = "none"  # each paragraph is one sentence
European = Literal["en", "bg", "da", "de", "el", "es", "fr", "it", "nl", "pl", "ru", "sk"]
Other = Literal["am", "ar", "fa", "hi", "hy", "ja", "kk", "mr", "my", "ur", "zh"]
Language = Literal[European, Other, "none"]
