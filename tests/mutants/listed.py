"""The committed list of mutations."""

from pathlib import Path
from typing import NamedTuple

import yaml


class Mutant(NamedTuple):
    """One changed line.

    Attributes:
        file: file below src/trueneg.
        line: part of the line to replace, which occurs once in the file.
        becomes: its replacement.
        tests: the tests nearest to it, as arguments of pytest.
        reason: why no test can notice it; empty: one should.
    """

    file: str
    line: str
    becomes: str
    tests: str
    reason: str = ""

    def applied(self, text: str) -> str:
        assert text.count(self.line) == 1, (self.file, self.line, text.count(self.line))
        return text.replace(self.line, self.becomes)


def mutants() -> list[Mutant]:
    content = yaml.safe_load(Path(__file__).with_name("mutants.yaml").read_text(encoding="utf-8"))
    return [
        Mutant(file=file, tests=of_file["tests"], **mutation)
        if "tests" not in mutation
        else Mutant(file=file, **mutation)
        for file, of_file in content.items()
        for mutation in of_file["mutations"]
    ]
