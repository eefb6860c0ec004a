"""Count tokens of code by package, without docstrings, imports and comments.

Lines reward packing; tokens do not. Adjacent string literals count as one token, and a comma before
a closing bracket as none, so that a formatter does not change the count.

python benchmarks/size.py              # of src/trueneg
python benchmarks/size.py OTHER/src/trueneg
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import NamedTuple

NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)
# Python 3.12 splits an f-string into parts; earlier versions have no such tokens.
F_STRING_START, F_STRING_END = (
    getattr(tokenize, f"FSTRING_{end}", None) for end in ("START", "END")
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Size(NamedTuple):
    """Tokens of code, and the lines that contain them."""

    tokens: int
    lines: int

    def __str__(self) -> str:
        per_line = self.tokens / max(self.lines, 1)
        return f"{self.tokens:8,} tokens {self.lines:7,} lines {per_line:5.1f} per line"


def size_of(text: str) -> Size:
    """Count the tokens of code and the lines that contain them.

    Args:
        text: source of a Python module.

    Example:
        >>> size_of('import os\\n\\ndef f(\\n    a,\\n):\\n    "Doc."\\n    return "b" "c"  # d\\n')
        Size(tokens=8, lines=4)
    """
    no_code = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            no_code |= set(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            no_code |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    counted, lines = [], set()
    depth = 0  # of nested f-strings, each of which counts as one string
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NO_CODE or token.start[0] in no_code:
            continue
        lines |= set(range(token.start[0], token.end[0] + 1))
        depth -= token.type == F_STRING_END
        is_string = token.type in (tokenize.STRING, F_STRING_END)
        depth += token.type == F_STRING_START
        if depth or token.type == F_STRING_START:
            continue
        if is_string and counted[-1:] == ["string"]:
            continue
        if token.string in ")]}" and counted[-1:] == [","]:
            counted.pop()
        counted.append("string" if is_string else token.string)
    return Size(len(counted), len(lines))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src/trueneg")
    tokens, lines = Counter(), Counter()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        package = parts[0] if len(parts) > 1 else "(top level)"
        size = size_of(path.read_text(encoding="utf-8"))
        tokens[package] += size.tokens
        lines[package] += size.lines
    for package, count in tokens.most_common():
        print(f"{package:14} {Size(count, lines[package])}")
    print(f"{'all':14} {Size(tokens.total(), lines.total())}")


if __name__ == "__main__":
    main()
