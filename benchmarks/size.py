"""Count lines of code by package, without docstrings, imports, blank lines and comments.

python benchmarks/size.py              # of src/trueneg
python benchmarks/size.py OTHER/src/trueneg
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    """Count the lines that contain code; a statement that spans three lines counts as three.

    Args:
        text: source of a Python module.

    Example:
        >>> code_lines('import os\\n\\n\\ndef f():\\n    "Doc."\\n    return 1  # one\\n')
        2
    """
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines -= set(range(node.lineno, node.end_lineno + 1))
        elif (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node) is not None
        ):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "src/trueneg")
    packages, modules = Counter(), Counter()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        package = parts[0] if len(parts) > 1 else "(top level)"
        packages[package] += code_lines(path.read_text(encoding="utf-8"))
        modules[package] += 1
    for package, lines in packages.most_common():
        print(f"{package:14} {lines:7,} lines {modules[package]:4} modules")
    print(f"{'all':14} {packages.total():7,} lines {modules.total():4} modules")


if __name__ == "__main__":
    main()
