"""Every example in Python that the documentation shows runs."""

import re

import pytest

from tests.docs.pages import PAGES, blocks
from tests.text.models import bert, tokenizer

NAMED_MODEL = "path/or/name-on-the-hub"
# Their examples belong to files that this page has its reader write; test_extend.py follows it.
FOLLOWED = {"docs/extend.md"}
BLOCKS = [
    block
    for page in PAGES
    for block in blocks(page)
    if block.language == "python" and not block.title and block.page not in FOLLOWED
]


def stand_where_a_reader_might(block, folder):
    """Put what an example says is there into a folder: a language model."""
    if NAMED_MODEL in block.text:
        words = tokenizer()
        bert(len(words)).save_pretrained(folder / NAMED_MODEL)
        words.save_pretrained(folder / NAMED_MODEL)


def requirement(block):
    """The library that an example is about, where it is not one of this project's own."""
    found = re.search(r"requires=(\w+)", block.options)
    return found[1] if found else None


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_the_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand_where_a_reader_might(block, tmp_path)
    if requirement(block):
        pytest.importorskip(requirement(block), reason=f"the example shows how to use the losses with {requirement(block)}")
    exec(compile(block.text, str(block), "exec"), {"__name__": "example"})


def test_there_are_examples_on_the_pages_that_need_them():
    shown = {block.page for block in BLOCKS}
    assert {"README.md", "docs/index.md", "docs/losses.md", "docs/theory.md", "docs/likelihoods.md", "docs/phantom.md"} <= shown
