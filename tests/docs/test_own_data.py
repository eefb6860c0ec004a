"""docs/own-data.md: its section on images with labels works as it stands there."""

import pytest

from tests.data.pictures import write_picture
from tests.docs.followed import follow, run_in, write_files
from tests.docs.pages import ROOT, blocks
from tests.projects import new_project

PAGE, SECTION = "docs/own-data.md", "Images with labels"


@pytest.fixture
def project(tmp_path):
    """A copy of the project with small images of two classes where the page has its reader put them."""
    made = new_project(tmp_path / "project")
    for number, name in enumerate(("cat", "dog") * 20):
        write_picture(made.path / f"data/my_images/train/{name}/{number}.jpg", number)
    for number, name in enumerate(("cat", "dog") * 6):
        write_picture(made.path / f"data/my_images/test/{name}/{number}.png", 100 + number)
    return made


def commands() -> list[str]:
    return [line for block in blocks(ROOT / PAGE, SECTION) if block.language == "bash" for line in block.text.splitlines()]


def test_the_check_counts_the_images_and_names_what_is_wrong(project):
    write_files(PAGE, project, SECTION)
    (check,) = [line for line in commands() if line.startswith("trueneg check")]
    said = run_in(project, check.split())
    assert "training 32 of 32 images, validation 8, test 12" in said
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
