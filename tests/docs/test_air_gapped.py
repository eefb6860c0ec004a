"""docs/air-gapped.md: without a network, the check names what is missing, and a study that needs no
download runs.
"""

import re

import pytest

from tests.docs.followed import run_in
from tests.docs.pages import ROOT, commands
from tests.projects import new_project
from tests.studies import tiny_study

NO_NETWORK = """
import socket

class Refusing(socket.socket):
    def connect(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(101, "Network is unreachable")
        return super().connect(address)

    connect_ex = connect

def unreachable(host, *arguments, **options):
    if host in (None, "", "127.0.0.1", "::1", "localhost"):
        return known(host, *arguments, **options)
    open("asked", "a").write(f"{host}\\n")
    raise socket.gaierror(-3, "Temporary failure in name resolution")

known, socket.socket, socket.getaddrinfo = socket.getaddrinfo, Refusing, unreachable
"""


@pytest.fixture
def project(tmp_path):
    """A project on a machine without a network, which records the hosts that were asked for."""
    made = new_project(tmp_path / "project")
    (made.path / "src/sitecustomize.py").write_text(NO_NETWORK)
    return made


def test_the_check_names_what_is_missing(project):
    (check,) = {
        command
        for _, command in commands(ROOT / "docs/air-gapped.md")
        if command.startswith("trueneg check")
    }
    assert re.search(
        r"MISSING data/cifar10: .*expected .*cifar-10-batches-bin", run_in(project, check.split())
    )
    assert not (project.path / "asked").exists()


def test_the_network_is_gone(project):
    script = "import urllib.request; urllib.request.urlopen('http://example.org')"
    with pytest.raises(AssertionError, match="name resolution"):
        run_in(project, ["python", "-c", script])
    assert (project.path / "asked").read_text() == "example.org\n"


@pytest.mark.long
def test_a_study_runs_to_its_page_without_asking_for_a_host(project):
    project.configure(tiny=tiny_study())
    project.run()
    assert (project.path / "results/index.html").is_file()
    assert not (project.path / "asked").exists()
