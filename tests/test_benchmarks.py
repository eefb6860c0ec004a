"""Every script in benchmarks/ runs, here at a tiny size."""

import importlib.util
import io
import itertools
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy
import torch
import yaml
from PIL import Image
from transformers import PreTrainedTokenizerFast

from tests.data.pictures import encoded, picture
from tests.data.test_reports import XML, archive
from tests.evaluation import test_rating_runs
from tests.miniature.fixtures import write_models
from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.projects import ROOT
from tests.studies import tiny_study
from trueneg.config.reading import read_configuration
from trueneg.data import image_loading
from trueneg.data.images.sources import digits
from trueneg.data.pairs.pair_source import distinct_texts, write_pairs
from trueneg.data.reports import open_i
from trueneg.data.stored_features import write_features
from trueneg.specs import encoders
from trueneg.store.rows import to_table

AUDIT = " ".join((ROOT / "docs/audit.md").read_text(encoding="utf-8").split())


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs a script with some arguments and other values of its constants,
    and returns what it prints.
    """

    def run(name, *arguments, **constants):
        monkeypatch.syspath_prepend(ROOT / "benchmarks")  # processes that it starts import it again
        spec = importlib.util.spec_from_file_location(name, ROOT / f"benchmarks/{name}.py")
        module = importlib.util.module_from_spec(spec)
        # worker processes unpickle its functions
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        for constant, value in constants.items():
            monkeypatch.setattr(module, constant, value)
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        threads = torch.get_num_threads()
        try:
            with torch.compiler.set_stance("force_eager"):  # compiling takes a minute
                module.main()
        finally:
            torch.set_num_threads(threads)
        return capsys.readouterr().out

    return run


def cells(printed):
    """Return the cells of the Markdown tables in a text, row by row, without headings."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in printed.splitlines()
        if line.startswith("| ")
    ]
    return [
        row for row in rows if any(cell[:1].isdigit() or cell[1:2].isdigit() for cell in row[1:])
    ]


def test_mining(run):
    rows = cells(run("mining", "--texts", 40, 60))
    assert [row[0] for row in rows] == ["40", "60"]
    assert all(float(value) >= 0 for row in rows for value in row[1:])


def test_audit(run):
    tiny = ["--audits", 40, "--further", 2]
    rows = cells(run("audit", "drawn", *tiny, ANCHORS=150, DEPTH=30, RATES=(0, 0.5), PAIRS=20))
    assert [row[1].partition(" ")[0] for row in rows[:4]] == ["all", "1–5", "6–10", "11–30"]
    assert [row[2] for row in rows if row[1] == "all (20 pairs)"] == ["0.00%", "50.00%"]
    assert len(rows) == 2 * 4 + 2 + 2 * 5


def test_audit_of_texts(run, tmp_path, monkeypatch):
    texts = pd.DataFrame({"text": [f"text {number}" for number in range(80)]})
    texts.assign(category=np.arange(80) % 4).to_csv(tmp_path / "texts.csv", index=False)
    vectors = np.random.default_rng(0).normal(size=(80, 5))
    monkeypatch.setattr(np, "load", lambda path: vectors)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    arguments = ["banking77", tmp_path / "texts.csv", "--audits", 30, "--further", 1]
    rows = cells(run("audit", *arguments, DEPTH=30, PAIRS=40))
    assert rows[0][:2] == ["banking77", "all (40 pairs)"]
    assert 15 < float(rows[0][2].rstrip("%")) < 35


def test_augment(run):
    assert len(cells(run("augment", "--batches", 2, "--rounds", 1, BATCH=4))) == 4


def test_check_rows(run):
    printed = run("check_rows", "--rows", 200, "--images")
    assert "200 images of 1 × 64 × 64 pixels" in printed
    assert re.search(r"^200 rows: [\d.]+ s, [\d.]+ s of a core; exit code 0", printed, re.MULTILINE)


def test_check_rows_with_hard_negatives(run, tmp_path):
    model = str(folder_of("bert", tmp_path / "bert"))
    printed = run("check_rows", "--rows", 200, "--hard-negatives", 3, MODEL=model)
    assert "read 200 rows; used: query (an id); pos (lists); neg (lists)" in printed
    assert re.search(r"^200 rows: [\d.]+ s, [\d.]+ s of a core; exit code 0", printed, re.MULTILINE)


def test_dag(run):
    assert re.search(r"^20 jobs asked for: [1-9]\d planned in", run("dag", "--jobs", 20))


@pytest.mark.long
def test_demo(run, tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": tiny_study(seeds=1)}))
    printed = run("demo", "--config", tmp_path / "study.yaml", "--cores", "1")
    assert re.search(r"^[1-9]\d* jobs in \d+ s on \d+ cores, [1-9]\d* s of processor time", printed)
    assert {rule for rule, *_ in cells(printed)} >= {"train", "evaluate", "page"}
    assert "tiny: " in printed


def test_decoding(run, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(encoded(picture(number)))
    printed = run("decoding", tmp_path, "--resolution", 8, "--rounds", 1)
    assert printed.startswith("3 images")
    assert len(cells(printed)) == 1


def test_default_step(run):
    assert [row[0] for row in cells(run("default_step", "--epochs", 1, "--objectives", "CL"))] == [
        "CL"
    ]


def test_encoder(run):
    assert len(cells(run("encoder", "--rounds", 1, "--threads", 1, SIDE=32, VIEWS=(2, 4, 8)))) == 6


@pytest.mark.long
def test_engine(run, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # for the processes side by side
    printed = run(
        "engine",
        "--device",
        "cpu",
        "--rounds",
        1,
        "--runs",
        2,
        "--images",
        60,
        "--batch-size",
        8,
        SIDE=64,
    )
    assert [row[0] for row in cells(printed)] == ["plain", "compiled", "lightly, float32", "2"]


def test_gpu_hours(run):
    ((file, study, runs, _),) = cells(
        run("gpu_hours", ROOT / "config/studies/cifar10.yaml", ROOT / "config/config.yaml")
    )
    assert file.endswith("cifar10.yaml")
    assert study == "cifar10"
    assert int(runs) > 0


def test_gpu_hours_count_the_features_of_a_frozen_tower_once(run, tmp_path):
    tower = {"name": "timm", "model": "vit_base_patch16_224", "train": "none", "views": 999}
    hours = []
    for seeds in (1, 3):
        training = tiny_study()["training"] | {"device": "cuda"}
        study = tiny_study(
            encoder=tower, training=training, seeds=seeds, dataset={"source": "cifar10"}
        )
        (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": study}))
        hours += [int(row[-1]) for row in cells(run("gpu_hours", tmp_path / "study.yaml"))]
    assert hours == [round(50_000 * 1000 * 17.6e9 / 1e14 / 3600)] * 2


def test_image_cache(run, monkeypatch, tmp_path):
    monkeypatch.setattr(image_loading, "RESIDENT_BYTES", 1000)
    tiny = {
        "IMAGES": 200,
        "SIDE": 16,
        "BATCH_SIZE": 2,
        "NETWORKS": {"small": (encoders.SmallEncoderSettings(name="small"), 1)},
    }
    assert len(cells(run("image_cache", "--rounds", 1, "--folder", tmp_path, **tiny))) == 5


def test_losses(run, tmp_path):
    tiny = {"BATCHES": (16, 32), "SMALL_BATCHES": (16,), "PEER_BATCHES": (16,), "PEAK_BATCH": 32}
    printed = run(
        "losses", "--threads", 1, "--seconds", 0, "--table", tmp_path / "table.md", **tiny
    )
    names = {row[0] for row in cells(printed)}
    assert {
        "lightly NTXentLoss",
        "OpenCLIP ClipLoss",
        "ReCo",
        "CL in chunks of 1024",
        "quantile, 1 %",
        "Sigmoid",
        "SupCon",
        "256",
    } <= names
    assert (tmp_path / "table.md").read_text() in printed


def test_near_duplicates(run, tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(encoded(picture(number, 64, 64)))
    found = {
        change: float(share) for change, share in cells(run("near_duplicates", "images", tmp_path))
    }
    assert found["darker by 30 %"] == found["half the size"] == 100
    assert found["none: another one of 4"] == 0
    texts = ["Where is my card?", "Where is my card", "How do I top up?", "When does it arrive?"]
    table = pd.DataFrame({"text": texts, "label": list("abcc")})
    table.to_csv(tmp_path / "texts.csv", index=False)
    printed = run("near_duplicates", "texts", tmp_path / "texts.csv", "text", "label")
    found = {change: float(share) for change, share in cells(printed)}
    assert found["other punctuation and case"] == 100
    assert found["none: another one of 4"] == found["none: another one with another label"] == 50
    assert len(cells(run("near_duplicates", "time", "--samples", 50))) == 2


def test_power(run):
    printed = run(
        "power", ROOT / "evidence/tuned_baseline_small.tar.xz", "--pilot", 100, 101, "--seeds", 12
    )
    assert printed.count(" points") == 3


# Scores each token with a forward pass of its own, in the interface of minicons.
PEER = """
import torch
import yaml

class MaskedLMScorer:
    def __init__(self, model, device, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    @torch.no_grad()
    def sequence_score(self, texts, reduction, PLL_metric):
        encoded = (torch.tensor(self.tokenizer(text)["input_ids"]) for text in texts)
        return [reduction(torch.stack(list(self.log_probabilities(ids)))) for ids in encoded]

    def log_probabilities(self, ids):
        return (self.log_probability(ids, place) for place in range(1, len(ids) - 1))

    def log_probability(self, ids, place):
        masked = ids.clone()
        masked[place] = self.tokenizer.mask_token_id
        return self.model(masked[None]).logits[0, place].log_softmax(0)[ids[place]]
"""


@pytest.mark.long
def test_pseudo_likelihood(run, monkeypatch, tmp_path):
    for name, text in {
        "minicons/scorer.py": PEER,
        "minicons-0.dist-info/METADATA": "Name: minicons\nVersion: 0\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    # the script sets it
    monkeypatch.setattr(PreTrainedTokenizerFast, "batch_encode_plus", None, raising=False)
    parts = enumerate(("heart", "lung", "aorta", "spine"))
    reports = [
        XML.format(number=number, findings=f"The {part} is normal.", impression="", codes="")
        for number, part in parts
    ]
    archive(tmp_path / open_i.ARCHIVE, dict(enumerate(reports)))
    (tmp_path / "table.md").write_text("before\n<!-- measured -->\n<!-- measured -->\nafter\n")
    arguments = (
        "--archive",
        tmp_path,
        "--threads",
        1,
        "--turns",
        1,
        "--table",
        tmp_path / "table.md",
    )
    printed = run(
        "pseudo_likelihood",
        *arguments,
        WIDTH=8,
        WORDS=200,
        PRODUCT_SECONDS=0.01,
        MEMORY_COUNTS=(3, 5),
    )
    assert len(cells(printed)) == 5
    assert float(re.search(r"largest difference to minicons (\S+) nats", printed)[1]) < 1e-4
    assert (
        tmp_path / "table.md"
    ).read_text() == f"before\n<!-- measured -->\n{printed}<!-- measured -->\nafter\n"


def test_setting(run, tmp_path):
    """Each objective has its temperature selected on the validation split, though the other one is
    better on the test split.
    """
    folder = tmp_path / "pilot/artefacts"
    folder.mkdir(parents=True)
    study = read_configuration([str(ROOT / "config/studies/digits_pilot.yaml")]).studies[
        "digits_pilot"
    ]
    (folder / "study.yaml").write_text(study.model_dump_json())
    (folder / "runs.json").write_text(json.dumps([{"seconds": 30}, {"seconds": 42}]))
    rows = []
    for objective, selected, gains in (("CL", 0.1, (0, 0, 0)), ("Oracle", 0.5, (0.1, 0.12, 0.14))):
        for (seed, gain), temperature in itertools.product(enumerate(gains), (0.1, 0.5)):
            run_of = {
                "objective": objective,
                "seed": seed,
                "condition": json.dumps({"temperature": temperature}),
            }
            values = {
                "validation": 0.5 + 0.1 * (temperature == selected),
                "test": 0.7 - 0.2 * (temperature == selected) + gain,
            }
            rows += [{**run_of, "split": split, "value": value} for split, value in values.items()]
    common = {
        "study": "pilot",
        "dataset": "digits",
        "run": "0",
        "variant": "{}",
        **study.primary.measurement._asdict(),
    }
    to_table(pd.DataFrame(rows).assign(**common)).to_parquet(folder / "rows.parquet")
    printed = run("setting", tmp_path / "pilot", "--seeds", 4)
    assert "| pilot | 36 | +12.00 | 1.15 |" in printed
    assert "| Oracle | 50.0 | **60.0** |" in printed


def test_size(run, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package/module.py").write_text(
        '"""Text."""\n\nimport os\n\n# Why.\nx = [\n    f"{1}",\n]\n\n\ndef f():\n    "Text."\n'
    )
    # x = [ f"{1}" ] and def f ( ) :
    assert re.search(r"^package +10 tokens +4 lines +2.5 per line$", run("size", tmp_path), re.M)


def test_caption_mask(run, tmp_path):
    """Raters call pairs true that show the same thing at the same place: similarity 1; 0 if they
    share neither.
    """
    source, vectors = test_rating_runs.SOURCE, tmp_path / "vectors.npz"
    write_pairs(source, tmp_path / "pairs.npz")
    halves = ["test", "train"] * 29 + ["validation"] * 2
    pd.DataFrame({"report": source.reports, "split": halves}).to_parquet(
        tmp_path / "pairs-splits.parquet"
    )
    test_rating_runs.rated().to_parquet(tmp_path / "pairs-ratings.parquet")
    each = test_rating_runs.EACH
    shown = zip(
        test_rating_runs.THING.repeat(each), 4 + test_rating_runs.PLACE.repeat(each), strict=True
    )
    coded_as = {
        text: np.eye(7)[list(both)].sum(0)
        for text, both in zip(source.sentences["sentence"], shown, strict=True)
    }
    coded = np.array([coded_as[text] for text in distinct_texts(source)])
    made_of = {"tower": {}, "weights": "", "data": source.checksum}
    write_features(
        vectors,
        tmp_path / "cache",
        made_of,
        len(coded),
        lambda chosen: coded[chosen, None, :, None],
        grid=None,
        at_once=100,
        restricted=False,
    )
    table = {row[0]: row[1:] for row in cells(run("caption_mask", tmp_path / "pairs.npz", vectors))}
    assert table["0 to 0.1"][2] == "0.0%"
    assert table["0.6 or more"][2] == "100.0%"
    shares = [float(row[0].strip("%")) for row in table.values()]
    assert sum(shares) == pytest.approx(100, abs=0.05)


def test_text_setting(run, tmp_path):
    """The headroom is larger with 100 updates, but there a tuned CL is below the untrained
    tower.
    """
    folder = tmp_path / "pilot/artefacts"
    folder.mkdir(parents=True)
    study = read_configuration([str(ROOT / "config/studies/banking77_setting.yaml")]).studies[
        "banking77_setting_12"
    ]
    (folder / "study.yaml").write_text(study.model_dump_json())
    rows = []
    for seed, updates in itertools.product(range(3), (100, 300)):
        cl, headroom = (0.75, 0.1) if updates == 100 else (0.85, 0.03)
        values = {
            ("CL", 5): cl - 0.02,
            ("CL", 10): cl,
            ("Oracle", 10): cl - 0.01,
            ("Oracle", 5): cl + headroom + 0.01 * seed,
        }
        place = {"condition": json.dumps({"updates": updates}), "seed": seed, "split": "validation"}
        rows.append(place | {"objective": "untrained", "variant": "{}", "value": 0.8})
        for (objective, scale), value in values.items():
            rows.append(
                place
                | {
                    "objective": objective,
                    "variant": json.dumps({"logit_scale": scale}),
                    "value": value,
                }
            )
    rows += [row | {"split": "test", "value": 1 - row["value"]} for row in rows]
    common = {
        "study": "pilot",
        "dataset": "texts",
        "run": "0",
        **study.primary.measurement._asdict(),
    }
    to_table(pd.DataFrame(rows).assign(**common)).to_parquet(folder / "rows.parquet")
    printed = run("text_setting", tmp_path / "pilot")
    # Standard deviations of Oracle − CL over the seeds: 0.01 at a scale of 5, 0 at 10.
    assert "| pilot | updates 100 | -5.00 | 10 | 5 | +11.00 | 0.41 | 26.9 |" in printed
    assert (
        "| **pilot** | **updates 300** | **+5.00** | **10** | **5** | **+4.00** | **0.41** |"
        " **9.8** |" in printed
    )


def test_every_script_has_a_test():
    assert {f"test_{path.stem}" for path in (ROOT / "benchmarks").glob("*.py")} <= globals().keys()


def test_other_tasks(run):
    study = "banking77_finetune"
    printed = run("other_tasks", ROOT / f"evidence/{study}.tar.xz").splitlines()
    committed = (ROOT / "docs/results/other_tasks.csv").read_text(encoding="utf-8").splitlines()
    assert printed == [committed[0], *(line for line in committed if line.startswith(study))]


def test_label_cells(run, tmp_path):
    run("label_cells", tmp_path / "map")
    with Image.open(tmp_path / "map.png") as image:
        described = image.text["Description"]
    table = pd.read_csv(ROOT / "docs/results/few_labels_48_contrasts.csv")
    of_task = table[(table["task"] == "knn") & table["group"].isna()]
    for contrast in ("Oracle − CL", "Oracle − CL-as-Oracle", "Guided-EMA − CL-as-Guided"):
        (row,) = of_task[of_task["contrast"] == contrast].to_dict("records")
        ends = 100 * row["difference low"], 100 * row["difference high"]
        shown = "{:.4g} [{:.4g}, {:.4g}] at 48 labels".format(100 * row["difference"], *ends)
        assert shown in described


def test_hard_negatives(run, tmp_path):
    printed = run("hard_negatives", tmp_path)
    *_, (_, similar, others, constant) = map(str.split, printed.splitlines())
    assert f"loses {similar} points of MAP on average" in AUDIT
    assert f"no less than a relative margin everywhere ({constant})" in AUDIT
    assert float(similar) >= float(constant) < float(others)
    with Image.open(tmp_path / "hard_negatives_gains.png") as image:
        described = image.text["Description"]
    table = pd.read_csv(ROOT / "docs/results/hard_negatives_contrasts.csv")
    of_task = table[(table["metric"] == "MAP") & table["group"].isna()]
    for contrast in ("Unfiltered − CL", "Oracle − CL-as-Oracle"):
        (row,) = of_task[of_task["contrast"] == contrast].to_dict("records")
        ends = 100 * row["difference low"], 100 * row["difference high"]
        shown = "{:.4g} [{:.4g}, {:.4g}]".format(100 * row["difference"], *ends)
        assert shown in described
    assert (tmp_path / "hard_negatives_ranks.svg").exists()


def test_cleaned_files(run, tmp_path):
    write_models(tmp_path)
    for name in ("banking77", "medquad"):
        (tmp_path / name).mkdir()
    labels = ["one", "two", "three"]
    for split in ("train", "test"):
        texts = [
            (f"{split} question {number} of {name}", name) for name in labels for number in "45"
        ]
        table = pd.DataFrame(texts, columns=["text", "category"])
        table.to_csv(tmp_path / f"banking77/{split}.csv", index=False)
    pairs = {
        "question": [f"What is {number}?" for number in range(20)],
        "answer": [f"{number} is a number" for number in range(20)],
        "concept": [f"concept {number // 2}" for number in range(20)],
        "right_answers": range(20),
    }
    pd.DataFrame(pairs).to_csv(tmp_path / "medquad/pairs.csv", index=False)
    model = f"{{name: sentence_transformers, model: {tmp_path}/bert}}"
    folders = tmp_path / "banking77", tmp_path / "medquad"
    run("cleaned_files", "write", *folders, MODEL=model, CONCEPTS=10)
    for folder, count in zip(folders, (6, 16), strict=True):
        rows = pd.read_json(folder / "mined.jsonl", lines=True)
        training = rows[rows["split"] == "train"]
        assert len(training) == count
        candidates = {text for (text,) in training["pos"]}
        for row in training.itertuples():
            assert len(row.neg) == len(set(row.neg)) == 4
            assert set(row.neg) <= candidates - {row.query, *row.pos}
        tested = rows[rows["split"] == "test"]
        assert not tested["neg"].map(len).any()
        assert not set(tested["group"]) & set(training["group"]) - {""}
    assert (pd.read_json(folders[0] / "mined.jsonl", lines=True)["label"].nunique()) == 3


def test_cleaned_files_compares_files_of_equal_seeds(run, tmp_path):
    rows = to_table(
        [
            {
                "study": f"cleaned_banking77_{file}",
                "objective": objective,
                "seed": seed,
                "split": "test",
                "task": "retrieval",
                "metric": metric,
                "labels": "seen by label",
                "k": k,
                "value": value + 0.01 * seed,
            }
            for file, objective, value in (
                ("raw", "CL", 0.5), ("raw", "untrained", 0.4), ("filtered", "CL", 0.75)
            )
            for seed in (1, 2, 3)
            for metric, k in (("MAP", None), ("nDCG", 10))
        ]
    )  # fmt: skip
    rows.to_csv(tmp_path / "rows.csv", index=False)
    printed = run("cleaned_files", "compare", ROWS=tmp_path / "rows.csv")
    table = pd.read_csv(io.StringIO(printed)).set_index(["file", "baseline", "measured"])
    assert table.loc[("filtered", "raw", "MAP"), "difference"] == pytest.approx(0.25)
    assert table.loc[("raw", "untrained", "MAP"), "difference"] == pytest.approx(0.1)


def test_fine_tuning(run, tmp_path):
    gains = {"fine_tuning": [0.02, 0.05, 0.02], "fine_tuning_head": [0.01, 0.03, 0.02]}
    rows = to_table(
        [
            {
                "study": trained,
                "objective": objective,
                "seed": seed,
                "split": "test",
                **measured,
                "labels": "seen",
                "value": 0.5 + (gain if not objective.startswith("CL") else 0),
            }
            for trained, by_seed in gains.items()
            for seed, gain in enumerate(by_seed)
            for method in ("Hardness", "Guided-MiniLM", "Guided-EMA", "Oracle")
            for objective in (method, f"CL-as-{method}")
            for measured in (
                {"task": "knn", "metric": "accuracy"},
                {"task": "linear probe", "metric": "accuracy"},
                {"task": "retrieval", "metric": "nDCG", "k": 10},
            )
        ]
    )
    for study, part in rows.groupby("study"):
        part.to_csv(tmp_path / f"{study}.csv", index=False)
        part = part[part["objective"].str.startswith("CL")]
        contrasts = part.assign(baseline=part["objective"], difference=0.01)
        contrasts["objective"] = contrasts["objective"].str.removeprefix("CL-as-")
        ends = {"difference low": 0.0, "difference high": 0.02}
        contrasts = contrasts[contrasts["seed"] == 0].assign(**ends)
        contrasts.to_csv(tmp_path / f"{study}_contrasts.csv", index=False)
    printed = run("fine_tuning", tmp_path, RESULTS=tmp_path)
    table = pd.read_csv(io.StringIO(printed))
    assert len(table) == 12
    with Image.open(tmp_path / "fine_tuning.png") as image:
        assert image.width > 1000
    differences = [0.01, 0.02, 0.0]
    expected = scipy.stats.ttest_1samp(differences, 0)
    low, high = expected.confidence_interval(0.95)
    for row in table.to_dict("records"):
        assert row["gain with all layers"] == pytest.approx(0.03)
        assert row["gain with a head"] == pytest.approx(0.02)
        assert row["difference"] == pytest.approx(0.01)
        assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-4)
        assert row["p"] == pytest.approx(expected.pvalue, rel=1e-4)
        assert row["p Holm"] == pytest.approx(4 * expected.pvalue, rel=1e-4)
        assert row["outcome"] == "undecided"


def test_lemma_2(run):
    printed = run("lemma_2", "unread", load=lambda path: digits.load(), PER_CLASS=30)
    parts = printed.split("r = ")[1:]
    assert [part.partition(",")[0] for part in parts] == ["0.1", "0.5", "1.0"]
    for part in parts:
        values = {"asymptotic": [], "mean": [], "best": []}
        for line in part.splitlines():
            *words, promised, value, _ = line.split() or [""] * 3
            if words and words[0] in values and promised == "True" and "pairs" not in words:
                values[words[0]].append(float(value))
        assert values["best"][0] <= values["mean"][0] <= min(values["asymptotic"])
