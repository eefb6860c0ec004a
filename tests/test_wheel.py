"""The wheel has every file of the package: templates, styles and scripts, too."""

import shutil
import subprocess
import sys
import zipfile

from tests.projects import ROOT


def test_the_wheel_has_every_committed_file_of_the_package(tmp_path):
    checkout = tmp_path / "checkout"  # a build leaves files behind
    shutil.copytree(ROOT / "src", checkout / "src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*command, "-w", tmp_path, checkout], check=True, timeout=300)
    (wheel,) = tmp_path.glob("trueneg-*.whl")
    listed = subprocess.check_output(
        ["git", "ls-files", "src/trueneg"], cwd=ROOT, text=True
    ).splitlines()
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("trueneg/")}
    assert {name.removeprefix("src/") for name in listed} <= packed
