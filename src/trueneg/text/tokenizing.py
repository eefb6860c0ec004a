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
    from tokenizers import models, normalizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    normalizer = normalizers.BertNormalizer(lowercase=True)
    seen = {character for sentence in sentences for character in normalizer.normalize_str(sentence) if not character.isspace()}
    characters = sorted(seen | {chr(code) for code in range(33, 127) if not chr(code).isupper()})
    # A letter that continues a word is a different token from one that begins it. The trainer numbers the continuing letters that
    # it sees in an order that varies between runs, and breaks ties by number; listing them beforehand fixes their numbers.
    continuing = [f"##{character}" for character in characters if character.isalnum()]
    least = len(SPECIAL) + len(characters) + len(continuing)
    if vocabulary < least:
        raise ValueError(f"vocabulary is {vocabulary}; expected at least {least} (the special tokens and all characters).")
    learner = _word_pieces(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=[*SPECIAL, *continuing], initial_alphabet=characters, show_progress=False
    )
    learner.train_from_iterator(sentences, trainer)
    tokenizer = _word_pieces(models.WordPiece(learner.get_vocab(), unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=longest, **names)


def _word_pieces(model: Any) -> Any:
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer
