"""Every example in Python that the documentation shows runs."""

import re

import pytest
import torch

from tests.docs.pages import PAGES, blocks
from tests.exported import write_exported
from tests.text.models import bert, tokenizer
from tests.textures import texture_source
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.vector_files import read_vectors

NAMED_MODEL = "path/or/name-on-the-hub"
# Their examples belong to files that this page has its reader write; test_extend.py follows it.
FOLLOWED = {"docs/extend.md"}
BLOCKS = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "python" and not block.title and block.page not in FOLLOWED
]


def write_inputs(block, folder):
    """Write the files that an example reads: a language model, the pairs of a study, and exported
    encoders.
    """
    if NAMED_MODEL in block.text:
        words = tokenizer()
        bert(len(words)).save_pretrained(folder / NAMED_MODEL)
        words.save_pretrained(folder / NAMED_MODEL)
    if "results/pairs" in block.text:
        write_pairs(texture_source(patients=20), folder / "results/pairs/textures.npz")
    if "exported/" in block.text:
        write_exported(folder)


def requirement(block):
    """The library that an example is about, where it is not one of this project's own."""
    found = re.search(r"requires=([\w.]+)", block.options)
    return found[1] if found else None


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_the_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if requirement(block):
        pytest.importorskip(requirement(block), reason=f"the example needs {requirement(block)}")
    write_inputs(block, tmp_path)
    exec(compile(block.text, str(block), "exec"), {"__name__": "example"})


def test_the_vectors_of_a_frozen_encoder_are_those_that_a_guide_reads(tmp_path, monkeypatch):
    (block,) = (block for block in BLOCKS if "features.safetensors" in block.text)
    monkeypatch.chdir(tmp_path)
    write_inputs(block, tmp_path)
    exec(compile(block.text, str(block), "exec"), {"__name__": "example"})
    sentences = texture_source(patients=20).sentences["sentence"]
    features = torch.from_numpy(
        read_vectors("features.safetensors", None, len(sentences), "sentences")
    )
    model, words = bert(len(tokenizer())).bert, tokenizer()
    with torch.inference_mode():
        # without padding
        alone = (
            model(**words([sentences.iloc[3]], return_tensors="pt")).last_hidden_state[0].mean(0)
        )
    torch.testing.assert_close(features[3], alone, rtol=1e-4, atol=1e-5)


def test_there_are_examples_on_the_pages_that_need_them():
    shown = {block.page for block in BLOCKS}
    assert {
        "README.md",
        "docs/index.md",
        "docs/losses.md",
        "docs/theory.md",
        "docs/likelihoods.md",
        "docs/phantom.md",
        "docs/use-an-encoder.md",
    } <= shown
