"""Tiny language models with random weights, and a tokenizer that cuts words into pieces."""

import torch

from trueneg.text.loading import weights_checksum
from trueneg.text.tokenizing import train_tokenizer

SENTENCES = (
    "The lungs are clear.",
    "No pneumothorax.",
    "Cardiomegaly, unchanged.",
    "There is a small left pleural effusion, as before.",
    "Hydropneumothorax!",
    "Clear.",
    "No focal consolidation, pleural effusion, or pneumothorax is seen on today's examination.",
)


def tokenizer(longest=96):
    """Train WordPiece with such a small vocabulary that long words have several pieces."""
    return train_tokenizer(SENTENCES[:3], 140, longest)


def _sizes(hidden, layers):
    """Return settings of a small network whose predictions are far from uniform."""
    sizes = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 2 * hidden,
    }
    return sizes | {"initializer_range": 0.5}


def bert(words, longest=96, layers=2, hidden=16):
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(vocab_size=words, max_position_embeddings=longest, **_sizes(hidden, layers))
    return BertForMaskedLM(config).eval()


def saved(folder, model=None, words=None):
    """Write a model and its tokenizer to a folder, and describe it in the format of
    ``PairSource.language_model``.
    """
    words = words or tokenizer()
    (model or bert(len(words))).save_pretrained(folder)
    words.save_pretrained(folder)
    described = {"folder": str(folder), "revision": None}
    return described | {"checksum": weights_checksum(described)}


def roberta(words, longest=96):
    from transformers import RobertaConfig, RobertaForMaskedLM

    torch.manual_seed(1)
    config = RobertaConfig(
        vocab_size=words, max_position_embeddings=longest + 1, pad_token_id=0, **_sizes(16, 2)
    )
    return RobertaForMaskedLM(config).eval()


def gpt(words, longest=96):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=words, n_positions=longest, n_embd=16, n_layer=2, n_head=2, initializer_range=0.5
    )
    return GPT2LMHeadModel(config).eval()
