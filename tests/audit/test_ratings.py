"""The sample to be rated, and what is refused about its ratings."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trueneg.audit import rates
from trueneg.cli.main import main

VECTORS = "{name: vectors, path: vectors.npy}"
STRANGE = [
    "<b>bold</b> <script>alert(1)</script>",
    "مرحبا \u202eabc\u202c",
    "👩‍👩‍👧 ok",
    "x" * 5000,
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_pairs(rows=60, steps=(1, 2, 3, 5)):
    """A file of pairs with hard negatives, and vectors of its texts."""
    generator = np.random.default_rng(0)
    answers = [f"answer number {number}" for number in range(rows)]
    answers[: len(STRANGE)] = STRANGE
    lines = [
        {
            "query": f"question number {number}",
            "pos": [answer],
            "neg": [answers[(number + step) % rows] for step in steps],
        }
        for number, answer in enumerate(answers)
    ]
    with open("pairs.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    np.save("vectors.npy", generator.normal(size=(2 * rows, 5)).astype(np.float32) + 0.7)


def audited():
    """The audit of such a file: its sample, in which nothing is rated."""
    write_pairs()
    assert main(["audit", "pairs.jsonl", "--encoder", VECTORS, "--pairs", "40"]) == 0
    return pd.read_csv("pairs_audit/sample.csv", keep_default_na=False)


def refusal(capsys, *names):
    assert main(["audit", "pairs.jsonl", "--ratings", *names]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_sample_has_one_pair_per_anchor_and_the_texts_as_they_are():
    sample = audited()
    assert len(sample) == 40
    assert sample["anchor"].is_unique
    rows = [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]
    given = {(row["query"], row["pos"][0], text) for row in rows for text in row["neg"]}
    assert set(sample[["anchor", "positive", "negative"]].itertuples(index=False)) <= given
    page = Path("pairs_audit/rate.html").read_text(encoding="utf-8")
    assert page.count("<article") == 40
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize("header", ["false", "FALSE"])
def test_ratings_give_the_rate_of_all_pairs(capsys, header):
    sample = audited()
    sample["false"] = ["y", "N", "n", "u", "n"] * 8
    sample.rename(columns={"false": header}).to_csv("rated.csv", index=False)
    capsys.readouterr()
    assert main(["audit", "pairs.jsonl", "--ratings", "rated.csv"]) == 0
    printed = capsys.readouterr().out
    verdicts = sample["false"].str.lower().map({"y": 1.0, "n": 0.0, "u": np.nan}).to_numpy()
    # all ranks are in the first range
    expected = rates.rate(verdicts, np.zeros(40, int), np.array([240]))
    assert f"{100 * expected.share:.3g} % ({100 * expected.low:.3g} to" in printed
    assert "240 given hard negatives" in printed
    assert "8 unsure" in printed
    by_rank = pd.read_csv("pairs_audit/rated/by_rank.csv")
    assert by_rank[["low", "high"]].iloc[0].tolist() == [expected.low, expected.high]
    assert len(pd.read_csv("pairs_audit/rated/thresholds.csv")) == 5


def test_the_part_of_the_pairs_in_ranks_without_ratings_is_printed(capsys):
    write_pairs(steps=range(1, 7))
    assert main(["audit", "pairs.jsonl", "--encoder", VECTORS, "--pairs", "1"]) == 0
    pd.read_csv("pairs_audit/sample.csv").assign(false="y").to_csv("rated.csv", index=False)
    assert main(["audit", "pairs.jsonl", "--ratings", "rated.csv"]) == 0
    # of six ranks, the last is in a range without ratings
    assert re.search(r"100 % \(.* 16.7 % of them in ranks without", capsys.readouterr().out)


def test_what_does_not_belong_together_is_named_and_nothing_is_computed(capsys):
    sample = audited()
    pairs = sample["pair"].tolist()
    sample["false"] = "n"
    capsys.readouterr()
    changed = {
        "half": sample.assign(false=["n"] * 39 + [""]),
        "word": sample.assign(false=["maybe"] + ["n"] * 39),
        "lacking": sample.iloc[:-2],
        "unknown": sample.assign(pair=[*pairs[:-1], 10_000]),
        "twice": pd.concat([sample, sample.iloc[:1]]),
        "other": sample.assign(sample="0123456789ab"),
        "second": sample.assign(false=["y", *["n"] * 39]),
        "first": sample,
    }
    for name, table in changed.items():
        table.to_csv(f"{name}.csv", index=False)
    named = {
        "half": ["1 of 40", str(pairs[-1])],
        "word": ["line 2", "'maybe'"],
        "lacking": ["2 of 40", str(min(pairs[-2:]))],
        "unknown": ["10000"],
        "twice": ["line 42"],
        "other": ["0123456789ab"],
    }
    for name, facts in named.items():
        line = refusal(capsys, f"{name}.csv")
        assert f"{name}.csv" in line
        assert all(fact in line for fact in facts), line
    assert f"pair {pairs[0]})" in refusal(capsys, "first.csv", "second.csv")
    assert not Path("pairs_audit/rated").exists()
    with open("pairs.jsonl", "a") as file:
        file.write('{"query": "one more", "pos": ["its answer"], "neg": []}\n')
    assert "pairs.jsonl has changed" in refusal(capsys, "first.csv")
    Path("pairs.jsonl").unlink()
    assert "pairs.jsonl" in refusal(capsys, "first.csv")
    assert "none_audit" in refusal(capsys, "first.csv", "--out", "none_audit")


JUDGE = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    numbers = [int(pair[end].split()[-1]) for end in ("anchor", "negative")]
    print(json.dumps({"pair": pair["pair"], "false": numbers[1] - numbers[0] == 1}))
"""


@pytest.fixture
def judged():
    """A sample of which a judge can be asked, all of whose pairs are rated as the judge does but
    two, and the command.
    """
    write_pairs()
    lines = [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]
    plain = [f"answer number {number}" for number in range(len(lines))]
    for number, line in enumerate(lines):
        line |= {"pos": plain[number : number + 1]}
        line["neg"] = [plain[(number + step) % len(lines)] for step in (1, 2, 3, 5)]
    Path("pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["--encoder", VECTORS, "--pairs", "40", "--judged", "100"]
    assert main(["audit", "pairs.jsonl", *arguments]) == 0
    Path("judge.py").write_text(JUDGE)
    sample = pd.read_csv("pairs_audit/sample.csv")
    ends = (sample[end].str.split().str[-1].astype(int) for end in ("anchor", "negative"))
    sample["opinion"] = np.subtract(*reversed([*ends])) == 1
    is_false = sample["opinion"] ^ sample.index.isin([3, 30])
    sample["false"] = is_false.map({True: "y", False: "n"})
    sample.to_csv("rated.csv", index=False)
    return sample, ["--judge", f"{sys.executable} judge.py"]


def test_ratings_correct_the_opinions_of_a_judge(judged, capsys):
    sample, judge = judged
    capsys.readouterr()
    assert main(["audit", "pairs.jsonl", *judge]) == 0
    printed = capsys.readouterr().out
    opinions = pd.read_csv("pairs_audit/opinions.csv", index_col="pair")["false"]
    chosen = json.loads(Path("pairs_audit/sample.json").read_text())["judged"]
    of_judge = opinions[chosen].mean()
    assert len(set(chosen)) == 100
    assert f"{100 * of_judge:.3g} % of 100 " in printed
    assert "judge's opinion" in printed
    assert not Path("pairs_audit/rated").exists()

    assert main(["audit", "pairs.jsonl", *judge, "--ratings", "rated.csv"]) == 0
    printed = capsys.readouterr().out
    verdicts = (sample["false"] == "y").to_numpy(float)
    # all ranks are in the first range
    counts = np.array([[round(100 * (1 - of_judge)), round(100 * of_judge)]])
    parts = sample["opinion"].to_numpy(), np.zeros(40, int), np.array([240])
    expected = rates.rate_with_judge(verdicts, *parts, counts)
    assert f"{100 * expected.share:.3g} % ({100 * expected.low:.3g} to" in printed
    assert "38 of 40 " in printed

    sample["false"] = "u"
    sample.to_csv("unsure.csv", index=False)
    assert main(["audit", "pairs.jsonl", *judge, "--ratings", "unsure.csv"]) == 0
    printed = capsys.readouterr().out
    assert "0 of 0 " in printed
    assert "nan" not in printed


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("print('hello')", "'hello'"),
        ("print(json.dumps({'pair': 10**6, 'false': True}))", "1000000"),
        ("print(json.dumps({'pair': 0, 'false': 'yes'}))", "yes"),
        ("print(json.dumps({'pair': pair['pair'], 'false': True}))", "line "),
        ("sys.stdin = []", " lacks "),
    ],
)
def test_wrong_answers_of_a_judge_are_named_and_nothing_is_computed(judged, capfd, change, named):
    _, judge = judged
    repeated = "print(json.dumps({'pair': pair['pair']" in change
    first = "" if repeated else f"{change}\n"
    Path("judge.py").write_text(f"import json, sys\n{first}{JUDGE}{change * repeated}")
    capfd.readouterr()
    assert main(["audit", "pairs.jsonl", *judge, "--ratings", "rated.csv"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert named in line
    assert "judge.py" in line
    assert not Path("pairs_audit/rated").exists()


@pytest.mark.parametrize("command", ["./nothing", "judge 'half"])
def test_a_judge_that_cannot_be_run_is_named(judged, capsys, command):
    capsys.readouterr()
    assert main(["audit", "pairs.jsonl", "--judge", command]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert command in line
