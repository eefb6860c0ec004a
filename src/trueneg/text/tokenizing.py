"""Train a WordPiece tokenizer on sentences, and measure what a tokenizer cannot express."""

import unicodedata
from collections.abc import Sequence
from typing import Any

from trueneg.text.words import is_mostly_latin

# a special token's name in a text, such as [SEP], is text; and no warning about long texts
LITERALLY = {"split_special_tokens": True, "verbose": False}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(sentences: Sequence[str], vocabulary: int, longest: int) -> Any:
    """Train a lower-case WordPiece tokenizer like BERT's; the same sentences always give the same
    vocabulary.

    The vocabulary contains every printable ASCII character, so no English word is unknown. Accents
    are stripped as in BERT, unless most letters are not Latin: Indic and Thai vowels and the marks
    of й and が would vanish with them. A Chinese character is always a word of its own.

    Args:
        sentences: training sentences, with repetitions.
        vocabulary: maximum vocabulary size, including special tokens.
        longest: maximum sequence length of the model, including special tokens.

    Returns:
        A fast tokenizer from the transformers library.

    Raises:
        ValueError: if the vocabulary is too small for the characters.
    """
    from tokenizers import Tokenizer
    from tokenizers.implementations import BertWordPieceTokenizer
    from transformers import PreTrainedTokenizerFast

    latin = is_mostly_latin(sentences)
    learner: Any = BertWordPieceTokenizer(strip_accents=None if latin else False)
    normalize = learner.normalizer.normalize_str
    seen = {
        character
        for sentence in sentences
        for character in normalize(sentence)
        if not character.isspace()
    }
    characters = sorted(seen | {chr(code) for code in range(33, 127) if not chr(code).isupper()})
    # A letter that continues a word is a different token from one that begins it. The trainer
    # numbers the continuing letters that it sees in an order that varies between runs, and breaks
    # ties by number; listing them beforehand fixes their numbers.
    special = [
        *SPECIAL,
        *(f"##{character}" for character in characters if _continues_words(character, latin)),
    ]
    least = len(special) + len(characters)
    if vocabulary < least:
        raise ValueError(
            f"vocabulary is {vocabulary}; expected at least {least} for the {len(characters)}"
            " characters. Raise it."
        )
    # Keep every character and every pair, however rare.
    learner.train_from_iterator(
        sentences,
        vocabulary,
        min_frequency=0,
        limit_alphabet=vocabulary,
        initial_alphabet=characters,
        special_tokens=special,
        show_progress=False,
    )
    tokenizer: Any = BertWordPieceTokenizer(
        learner.get_vocab(), strip_accents=None if latin else False
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True
        )
    )
    fast = Tokenizer.from_str(tokenizer.to_str())
    if not latin:  # Thai has no spaces, and longer words are unknown
        fast.model.max_input_chars_per_word = 10_000
    return PreTrainedTokenizerFast(tokenizer_object=fast, model_max_length=longest, **names)


def _continues_words(character: str, latin: bool) -> bool:
    """Return whether a character occurs within words: letters, digits, vowel signs and emoji, but
    not Chinese characters.
    """
    if latin or character.isascii():
        return character.isalnum()
    return unicodedata.category(character)[0] in "LNMS" and not unicodedata.name(
        character, ""
    ).startswith("CJK ")


def too_long(texts: Sequence[str], tokenizer: Any, longest: int) -> list[str]:
    """Return the texts with more tokens than `longest`, special ones included."""
    encoded = tokenizer(list(texts), add_special_tokens=False, **LITERALLY)["input_ids"]
    room = longest - tokenizer.num_special_tokens_to_add()
    return [text for text, ids in zip(texts, encoded, strict=True) if len(ids) > room]


def unexpressed(texts: Sequence[str], tokenizer: Any, longest: int) -> str:
    """Describe what a tokenizer cannot express in texts, without quoting them.

    Args:
        texts: any texts.
        tokenizer: a tokenizer of the transformers library.
        longest: maximum number of tokens, including special tokens.

    Returns:
        The share of the tokens that are unknown to its vocabulary, and the number of texts that are
            longer, in a sentence; empty if there are none.
    """
    # Without special tokens, because some byte-level vocabularies, which know everything, name one
    # of them as the unknown one.
    encoded = tokenizer(list(texts), add_special_tokens=False, **LITERALLY)["input_ids"]
    missing = sum(ids.count(tokenizer.unk_token_id) for ids in encoded)
    long = sum(len(ids) + tokenizer.num_special_tokens_to_add() > longest for ids in encoded)
    parts = [f"{long:,} of {len(texts):,} texts have more than {longest:,} tokens"] if long else []
    if missing:
        parts.append(
            f"{missing / sum(map(len, encoded)):.2%} of the tokens are unknown to the vocabulary"
        )
    return " and ".join(parts)
