"""``trueneg check`` on studies with towers: what a job would refuse, what is downloaded, and what
is computed once.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel

from tests.cli.test_check_early import own_pairs
from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.config.order import relative_cost
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs
from trueneg.text.tokenizing import train_tokenizer

HEAVY = {"timm", "open_clip", "sentence_transformers"}
CHECK = "import sys; from trueneg.cli.main import main; code = main(sys.argv[1:]); "
CHECK += f"print({HEAVY} & set(sys.modules), code)"


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def checked_apart(path="", **studies):
    """Check studies in a fresh process that cannot reach the hub, and return its output and
    errors.
    """
    Path("study.yaml").write_text(yaml.safe_dump(studies))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [path, *sys.path])),
        "HF_HOME": "hub",
    }
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK, "check", "study.yaml"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    imported, code = done.stdout.splitlines()[-1].rsplit(" ", 1)
    assert imported == "set()", done.stdout
    return int(code), done.stdout, done.stderr


def bert(folder, longest=40):
    """Write a small BERT, which sentence-transformers loads."""
    tokenizer = train_tokenizer(["no effusion"], 200, longest)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    BertModel(
        BertConfig(vocab_size=len(tokenizer), max_position_embeddings=longest, **shape)
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"name": "sentence_transformers", "model": str(folder), "train": "none"}


def with_vectors(rows, **changes):
    """Return studies on own pairs whose image encoder is a file with this number of vectors."""
    np.save("images.npy", np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32))
    return own_pairs({"encoder": {"name": "vectors", "path": "images.npy"}, **changes})


def images_of(studies, capsys):
    """Return the number of images that a check opens."""
    Path("study.yaml").write_text(yaml.safe_dump(studies))
    assert main(["check", "study.yaml"]) == 0
    return int(re.search(r"of (\d+) images opened", capsys.readouterr().out)[1])


def test_towers_are_built_in_another_process_and_computed_once(tmp_path, capsys):
    count = images_of(own_pairs(), capsys)
    text = bert(tmp_path / "bert")
    guided = {"name": "guided", "guide": {"name": "encoder", "text_encoder": text}}
    objectives = {
        "CL": {"name": "cl"},
        "DCL-LM": {"name": "dcl", "class_probability": "language model"},
        "Guided": guided,
    }
    code, output, error = checked_apart(
        **with_vectors(count, text_encoder=text, objectives=objectives)
    )
    assert code == 0
    assert error == ""
    (line,) = [line for line in output.splitlines() if "frozen tower" in line]
    # a guide and an encoder share it; vectors need no computing
    assert re.search(r"1 frozen tower to compute once, of \d+ texts", line)
    (line,) = [line for line in output.splitlines() if "runs to train" in line]
    assert line.strip().startswith("6 runs")
    assert "measurement" not in line


def test_prompts_that_are_not_applied_are_reported(tmp_path):
    text = bert(tmp_path / "bert")
    prompts = {"query": "find: ", "document": "text: "}
    model = SentenceTransformer(text["model"], device="cpu", prompts=prompts)
    model.save(text["model"], create_model_card=False)
    code, _, error = checked_apart(**own_pairs({"text_encoder": text}))
    assert code == 0
    (line,) = error.splitlines()
    assert "its prompts (query, document) are not applied" in line


def test_long_texts_are_refused_in_the_jobs_words(tmp_path):
    code, _, error = checked_apart(
        **own_pairs({"text_encoder": bert(tmp_path / "bert", longest=4)})
    )
    assert code == 1
    assert re.search(
        r"\d+ of \d+ texts are too long for text_encoder .*bert: .*at most 4\. Set"
        r" text_encoder\.truncate",
        error,
    )


def test_the_download_of_a_guides_tower_is_announced():
    guide = {
        "name": "encoder",
        "text_encoder": {"name": "sentence_transformers", "model": "nobody/no-model"},
    }
    objectives = {"CL": {"name": "cl"}, "DCL-LM": {"name": "guided", "guide": guide}}
    code, output, _ = checked_apart(**own_pairs({"objectives": objectives}))
    assert code == 0
    (line,) = [line for line in output.splitlines() if "DOWNLOAD" in line]
    assert "nobody/no-model" in line


def test_a_missing_extra_is_reported(tmp_path):
    Path("absent").mkdir()
    Path("absent/sentence_transformers.py").write_text(
        "raise ImportError('No module named sentence_transformers')"
    )
    text = {"name": "sentence_transformers", "model": "nobody/no-model"}
    code, _, error = checked_apart(str(tmp_path / "absent"), **own_pairs({"text_encoder": text}))
    assert code == 1
    assert "pip install 'trueneg[towers]'" in error


def checked(capsys, studies):
    Path("study.yaml").write_text(yaml.safe_dump(studies))
    code = main(["check", "study.yaml"])
    return code, capsys.readouterr().err


def test_vectors_with_another_number_of_rows_are_refused(capsys):
    count = images_of(own_pairs(), capsys)
    assert checked(capsys, with_vectors(count)) == (0, "")
    code, error = checked(capsys, with_vectors(count + 1))
    assert code == 1
    assert all(fact in error for fact in ("images.npy", f"({count + 1}, 6)", f"({count}, D)"))


def test_vectors_of_a_guide_are_checked(capsys):
    np.save("vectors.npy", np.zeros((1797, 4), np.float32))
    guide = {"name": "encoder", "encoder": {"name": "vectors", "path": "vectors.npy"}}
    study = tiny_study(
        objectives=tiny_study()["objectives"]
        | {"Guided": {"name": "guided", "margin": 0.1, "guide": guide}}
    )
    code, error = checked(capsys, {"tiny": study})
    assert code == 1
    assert all(fact in error for fact in ("vectors.npy", "1,797 zero vectors"))


def test_vectors_without_regions_are_refused_where_the_similarity_needs_them(capsys):
    count = images_of(own_pairs(), capsys)
    code, error = checked(
        capsys, with_vectors(count, similarity={"aggregation": "lse", "lse_sharpness": 5})
    )
    assert code == 1
    assert all(fact in error for fact in ("images.npy", "regions", "similarity.aggregation"))


def test_training_on_frozen_towers_is_cheap():
    settings = []
    for changes in ({"train": "none", "views": 3}, {"train": "all"}):
        tower = {"name": "timm", "model": "vit_tiny_patch16_224"} | changes
        study = load_configuration({"tiny": tiny_study(encoder=tower)}, "test").studies["tiny"]
        settings.append(all_runs("tiny", study)[0].settings)
    frozen, trained = settings
    assert relative_cost(frozen) < relative_cost(trained) / 1000
