"""docs/own-data.md: the steps for images with texts and for images with labels work."""

import re

import pandas as pd
import pytest
import yaml

from tests.data.pictures import write_picture
from tests.docs.followed import follow, run_in, write_files
from tests.docs.pages import ROOT, blocks, indented
from tests.projects import Project, new_project

PAGE, SECTION = "docs/own-data.md", "Images with labels"


@pytest.fixture
def project(tmp_path):
    """A copy of the project with small images of two classes where the page has its reader put
    them.
    """
    made = new_project(tmp_path / "project")
    for number, name in enumerate(("cat", "dog") * 20):
        write_picture(made.path / f"data/my_images/train/{name}/{number}.jpg", number)
    for number, name in enumerate(("cat", "dog") * 6):
        write_picture(made.path / f"data/my_images/test/{name}/{number}.png", 100 + number)
    return made


@pytest.fixture
def with_texts(tmp_path, monkeypatch) -> Project:
    """A copy of the project with a table as the page's example writes it, of 80 rows, its images,
    and the edited template.
    """
    made = new_project(tmp_path / "project")
    monkeypatch.chdir(made.path)
    (example,) = [
        block.text for block in blocks(ROOT / PAGE, "1. The table") if block.language == "python"
    ]
    exec(compile(example, PAGE, "exec"), {})
    two = pd.read_csv("table.csv")
    numbers = [number for number in range(40) for _ in two.index]
    table = pd.concat([two] * 40, ignore_index=True)
    table["image"] = [f"2024/{place:04}.png" for place in table.index]
    table["patient"] += [str(number // 2) for number in numbers]
    table.to_csv("table.csv", index=False)
    for place, name in enumerate(table["image"]):
        write_picture(made.path / "images" / name, place)
    (copy,) = [line for line in indented(ROOT / PAGE) if line.startswith("cp ")]
    run_in(made, copy.split())
    text = (made.path / "my_study.yaml").read_text()
    for key, value in {
        "path": "images",
        "table": "table.csv",
        "label_columns": "[effusion]",
    }.items():
        text = re.sub(rf"^( +{key}:) .* # CHANGE", rf"\1 {value} # CHANGE", text, flags=re.M)
    studies = yaml.safe_load(text)
    (prompts,) = [
        block.text
        for block in blocks(ROOT / PAGE, "2. The configuration")
        if block.language == "yaml"
    ]
    studies["my_study"]["evaluation"] |= yaml.safe_load(prompts)["evaluation"]
    # Small, so that it ends in a minute or two.
    studies["my_text"]["language_models"]["BERT"] |= {
        "epochs": 1,
        "hidden": 16,
        "layers": 1,
        "vocabulary": 300,
    }
    studies["my_study"]["objectives"] = {
        name: studies["my_study"]["objectives"][name] for name in ("CL", "DCL-LM", "DCL-permuted")
    }
    studies["my_study"]["dataset"]["resolution"] = 32
    studies["my_study"]["encoder"]["width"] = 4
    studies["my_study"]["training"] |= {"epochs": 1, "batch_size": 16, "warmup_updates": 1}
    studies["my_study"]["seeds"] = 2
    (made.path / "my_study.yaml").write_text(yaml.safe_dump(studies))
    return made


def of_section_3(program: str) -> list[str]:
    # not that after init
    *_, line = [
        line for line in indented(ROOT / PAGE) if re.match(rf"{program} .*my_study.yaml", line)
    ]
    return line.replace("--cores all", "--cores 2").split()


def test_the_check_reads_the_table_that_the_example_writes(with_texts):
    said = run_in(with_texts, of_section_3("trueneg check"))
    assert "sentences not created yet" in said
    assert "6 runs to train in 3 jobs" in said
    table = pd.read_csv("table.csv")
    table.loc[table["effusion"] == 1, "patient"] = "B"
    table.to_csv("table.csv", index=False)
    with pytest.raises(AssertionError, match=r"table\.csv.*effusion.*patient"):
        run_in(with_texts, of_section_3("trueneg check"))


@pytest.mark.long
def test_a_study_of_images_and_texts_reports_a_missing_image_and_ends_with_its_page(with_texts):
    image = with_texts.path / "images/2024/0003.png"
    image.rename("moved.png")
    with pytest.raises(AssertionError, match=r"2024/0003\.png"):
        run_in(with_texts, of_section_3("snakemake"))
    assert not list((with_texts.path / "results").glob("runs/*"))
    (with_texts.path / "moved.png").rename(image)
    run_in(with_texts, of_section_3("snakemake"))
    rows = pd.read_parquet("results/my_study/artefacts/rows.parquet")
    assert {"retrieval sentence", "linear probe", "zero-shot"} <= set(rows["task"])
    assert {path.suffix for path in (with_texts.path / "results/my_study/tables").iterdir()} >= {
        ".csv",
        ".tex",
    }
    assert (with_texts.path / "results/index.html").is_file()


def commands() -> list[str]:
    return [
        line
        for block in blocks(ROOT / PAGE, SECTION)
        if block.language == "bash"
        for line in block.text.splitlines()
    ]


def test_the_check_counts_the_images_and_names_what_is_wrong(project):
    write_files(PAGE, project, SECTION)
    (check,) = [line for line in commands() if line.startswith("trueneg check")]
    said = run_in(project, check.split())
    assert re.search(r"52 images .*training 32\b.*validation 8\b.*test 12\b", said)
    assert "0 of 3 runs finished" in said
    (project.path / "data/my_images/train/cat/broken.png").touch()
    with pytest.raises(AssertionError, match=r"train/cat/broken.png"):
        run_in(project, check.split())


@pytest.mark.long
def test_the_study_ends_with_its_page(project):
    follow(PAGE, project, SECTION)
    assert "my_images" in (project.path / "results/index.html").read_text()
    assert len(list((project.path / "results/runs").glob("*/model.safetensors"))) == 9
    assert len(list((project.path / "results/sources").glob("image_folder-32px-*.npz"))) == 1
