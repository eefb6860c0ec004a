"""The examples in docstrings give the documented output; losses/test_documentation.py runs those of
the losses, with PyTorch alone.
"""

import pytest

from tests.losses.test_documentation import MODULES, check_examples, modules_with_examples


@pytest.mark.parametrize("name", sorted({*modules_with_examples("**/*.py")} - {*MODULES}))
def test_examples_of(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRUENEG_LEASES", str(tmp_path))
    check_examples(name)
