"""Towers of drawn configurations of sentence-transformers equal the library's own encode."""

import functools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given, settings
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    LayerNorm,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from tests.models.towers.test_sentence_transformers_tower import CONFIGS, TEXTS, built, vectors
from transformers import AutoModel

from trueneg.text.tokenizing import train_tokenizer

LONG = [*TEXTS, "effusion heart " * 30, "pleural " * 9]
SHORTEST = 38  # tokens that all of CONFIGS take
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")

PLAIN = {
    "kind": "bert",
    "pooling": "mean",
    "prompt": "",
    "include_prompt": True,
    "longest": None,
    "padding_side": "right",
    "truncation_side": "right",
    "dense": False,
    "layer_norm": False,
    "normalize": False,
    "truncate_dim": None,
    "maximum_tokens": None,
}
CONFIGURATIONS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([*CONFIGS, "static"]),
        "pooling": st.sampled_from(MODES) | st.tuples(*[st.sampled_from(MODES)] * 2),
        "prompt": st.sampled_from(["", "heart: ", "the heart is small: "]),
        "include_prompt": st.booleans(),
        "longest": st.sampled_from([None, 7, 12, 20]),
        "padding_side": st.sampled_from(["left", "right"]),
        "truncation_side": st.sampled_from(["left", "right"]),
        "dense": st.booleans(),
        "layer_norm": st.booleans(),
        "normalize": st.booleans(),
        "truncate_dim": st.sampled_from([None, 6, 100]),
        "maximum_tokens": st.sampled_from([None, 6]),
    }
)


@functools.cache
def network(kind, root):
    """Write a tiny network with a tokenizer, once for all examples."""
    tokenizer = train_tokenizer(TEXTS, 200, SHORTEST)
    if kind == "static":
        return tokenizer
    AutoModel.from_config(CONFIGS[kind]).save_pretrained(root / kind)
    tokenizer.save_pretrained(root / kind)
    return tokenizer


def modules_of(drawn, root):
    tokenizer = network(drawn["kind"], root)
    tokenizer.padding_side = drawn["padding_side"]
    tokenizer.truncation_side = drawn["truncation_side"]
    if drawn["kind"] == "static":
        tokenizer = train_tokenizer(TEXTS, 200, SHORTEST)
        first = StaticEmbedding(tokenizer, embedding_dim=16)
        if drawn["longest"]:
            first.tokenizer.enable_truncation(
                drawn["longest"], direction=drawn["truncation_side"], stride=2
            )
        modules = [first]
        width = 16
    else:
        tokenizer.save_pretrained(root / drawn["kind"])
        first = Transformer(str(root / drawn["kind"]), max_seq_length=drawn["longest"])
        pooling = Pooling(16, drawn["pooling"], include_prompt=drawn["include_prompt"])
        modules = [first, pooling]
        width = pooling.get_embedding_dimension()
    if drawn["dense"]:
        modules.append(Dense(width, 8))
        width = 8
    if drawn["layer_norm"]:
        modules.append(LayerNorm(width))
    if drawn["normalize"]:
        modules.append(Normalize())
    return modules


def compare(drawn, root):
    """Save a drawn model, and compare the tower's vectors with those of encode."""
    folder = root / "drawn"
    prompts = (
        {"prompts": {"query": drawn["prompt"]}, "default_prompt_name": "query"}
        if drawn["prompt"]
        else {}
    )
    SentenceTransformer(
        modules=modules_of(drawn, root),
        device="cpu",
        truncate_dim=drawn["truncate_dim"],
        **prompts,
    ).save(str(folder), create_model_card=False)
    model = SentenceTransformer(str(folder), device="cpu")
    tower = built(folder, truncate=True, maximum_tokens=drawn["maximum_tokens"])
    if (longest := drawn["maximum_tokens"]) and drawn["kind"] == "static":
        # a tokenizer that does not truncate has no side
        side = drawn["truncation_side"] if drawn["longest"] else "right"
        model.tokenizer.enable_truncation(longest, direction=side)
        model.tokenizer.no_padding()
    elif longest:
        model.max_seq_length = longest
    expected = model.encode(LONG, convert_to_tensor=True)
    torch.testing.assert_close(vectors(tower, LONG), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert tower.dimensions == expected.shape[1]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("networks")


@settings(deadline=None, max_examples=2)
@given(CONFIGURATIONS)
@example(PLAIN | {"prompt": "heart: ", "include_prompt": False, "padding_side": "left"})
@example(PLAIN | {"kind": "static", "longest": 7, "truncation_side": "left"})
def test_vectors_of_drawn_configurations_equal_encode(root, drawn):
    compare(drawn, root)


@pytest.mark.long
@settings(deadline=None, max_examples=300)
@given(CONFIGURATIONS)
def test_vectors_of_many_drawn_configurations_equal_encode(root, drawn):
    compare(drawn, root)
