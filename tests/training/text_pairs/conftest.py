"""Questions with drawn or given answers and hard negatives."""

import pytest

from tests.questions import question_source
from tests.text.models import saved
from tests.training.text_pairs.batches import KINDS


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    model = saved(tmp_path_factory.mktemp("model"))
    return {
        name: question_source(**arguments, language_model=model)
        for name, arguments in KINDS.items()
    }
