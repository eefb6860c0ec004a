"""Train a WordPiece tokenizer on sentences."""

from collections.abc import Sequence
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(sentences: Sequence[str], vocabulary: int, longest: int) -> Any:
    """Train a lower-case WordPiece tokenizer like BERT's; the same sentences always give the same vocabulary.

    The vocabulary contains every printable ASCII character, so no English word is unknown.

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

    learner: Any = BertWordPieceTokenizer()
    normalize = learner.normalizer.normalize_str
    seen = {character for sentence in sentences for character in normalize(sentence) if not character.isspace()}
    characters = sorted(seen | {chr(code) for code in range(33, 127) if not chr(code).isupper()})
    # A letter that continues a word is a different token from one that begins it. The trainer numbers the continuing letters that
    # it sees in an order that varies between runs, and breaks ties by number; listing them beforehand fixes their numbers.
    special = [*SPECIAL, *(f"##{character}" for character in characters if character.isalnum())]
    least = len(special) + len(characters)
    if vocabulary < least:
        raise ValueError(f"vocabulary is {vocabulary}; expected at least {least} (the special tokens and all characters).")
    # Keep every character and every pair, however rare.
    limits = {"min_frequency": 0, "limit_alphabet": vocabulary, "initial_alphabet": characters}
    learner.train_from_iterator(sentences, vocabulary, **limits, special_tokens=special, show_progress=False)
    tokenizer = BertWordPieceTokenizer(learner.get_vocab())
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(tokenizer.to_str()), model_max_length=longest, **names)
