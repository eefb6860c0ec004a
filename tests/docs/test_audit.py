"""docs/audit.md: its file is audited, rated, cleaned and made a study, as the page says."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from tests.docs.pages import ROOT, blocks
from trueneg.cli.main import main
from trueneg.config.reading import read_configuration

PAGE = "docs/audit.md"
VECTORS = ["--encoder", "{name: vectors, path: vectors.npy}"]
COMMANDS = re.findall(
    r"^(?:    )?trueneg (.*pairs\.jsonl.*|init .*)$", (ROOT / PAGE).read_text(), re.M
)


def test_the_file_of_the_page_is_audited_cleaned_and_made_a_study(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = next(block for block in blocks(ROOT / PAGE) if block.title == "make_pairs.py")
    exec(compile(program.text, PAGE, "exec"), {})
    texts = pd.read_json("pairs.jsonl", lines=True)
    negatives = texts["neg"].explode()
    different = len({*texts["query"], *texts["pos"].explode(), *negatives})
    generator = np.random.default_rng(0)
    np.save("vectors.npy", generator.normal(size=(different, 4)).astype(np.float32) + 1)
    audit, rated, clean, init = (command.split() for command in COMMANDS)
    assert main([*audit, *VECTORS]) == 0
    sample = pd.read_csv("pairs_audit/sample.csv", keep_default_na=False)
    # the first negative of each row is the answer in other words
    false = dict(zip(texts["query"], texts["neg"].str[0], strict=True))
    is_false = sample["negative"] == sample["anchor"].map(false)
    sample.assign(false=is_false.map({True: "y", False: "n"})).to_csv("rated.csv", index=False)
    assert main(rated) == 0
    by_rank = pd.read_csv("pairs_audit/rated/by_rank.csv")
    assert by_rank["low"][0] < 0.25 < by_rank["high"][0]  # one of four
    without_filter = clean[: clean.index("--filter")]
    assert main(without_filter) == 0
    removed = pd.read_csv("cleaned.jsonl.removed.csv")
    assert removed["reason"].eq("judged false").sum() == is_false.sum()
    capsys.readouterr()
    assert main(init) == 0
    assert "trueneg audit cleaned.jsonl" in capsys.readouterr().out
    (study,) = read_configuration([Path("my_study.yaml")]).studies.values()
    assert study.dataset.negative_columns == ["neg"]
