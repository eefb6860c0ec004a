"""The layers of pyproject.toml also hold for imports by string, which import-linter cannot see, and
no imports form a circle.

A module may name another one, as a spec names its implementation. The import counts for the module
that calls an importing function; it is taken to import every module that its strings can name and
that has the attribute that it uses.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx
import pytest

import trueneg
from tests.projects import ROOT

IMPORTING = {
    "import_module",
    "__import__",
    "find_spec",
    "resolve_name",
    "run_module",
    "walk_packages",
}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
LAYERS, FORBIDDEN = (
    next(each for each in CONTRACTS if each["type"] == kind) for kind in ("layers", "forbidden")
)


def bound_values(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the variables, attributes, keywords and keys of a module with the expressions that they
    are bound to.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield ast.unparse(target).rpartition(".")[2], node.value
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg, node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value


def strings_in(node: ast.AST) -> set[str]:
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def attributes_used(tree: ast.AST) -> dict[ast.AST, set[str]]:
    """Map calls to the attributes that the module uses of the result, directly or through a
    variable.
    """
    attributes, used = (
        [each for each in ast.walk(tree) if isinstance(each, ast.Attribute)],
        defaultdict(set),
    )
    variables = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]
    for each in attributes:
        used[each.value].add(each.attr)
        for variable in variables:
            if isinstance(each.value, ast.Name) and each.value.id == variable.targets[0].id:
                used[variable.value].add(each.attr)
    return used


def pattern_of(part: ast.AST, module: str) -> str:
    """Return a pattern of a part of a formatted string in a module."""
    if isinstance(part, ast.Constant):
        return re.escape(part.value)
    return re.escape(module) if ast.unparse(part.value) == "__name__" else r"[\w.]+"


class Sources:
    """The source of a package's modules, and what their names are bound to."""

    def __init__(self, root: Path) -> None:
        self.package, self.trees, self.bound = root.name, {}, defaultdict(list)
        for path in root.rglob("*.py"):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            self.trees[module] = ast.parse(path.read_text(encoding="utf-8"))
            for name, value in bound_values(self.trees[module]):
                self.bound[name].append((module, value))

    def names_in(self, node: ast.AST, module: str) -> set[str]:
        """Return patterns of the names of the package's modules in the strings of an expression."""
        texts = [each for each in ast.walk(node) if isinstance(each, ast.JoinedStr)]
        found = {"".join(pattern_of(part, module) for part in text.values) for text in texts}
        found |= set(map(re.escape, strings_in(node)))
        found = {name.partition(":")[0] for name in found}  # of a module, or of what it defines
        return {name for name in found if re.match(rf"{self.package}(\\\.\w|$)", name)}

    def passed(self, argument: ast.AST, module: str) -> list[ast.AST]:
        """Return a call's argument or, if it is the first parameter of the function around it, what
        that function is given.
        """
        functions = [
            each
            for each in ast.walk(self.trees[module])
            if isinstance(each, ast.FunctionDef) and each.args.args
        ]
        around = {
            each.name
            for each in functions
            if argument in ast.walk(each) and each.args.args[0].arg == ast.unparse(argument)
        }
        calls = [
            each
            for tree in self.trees.values()
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and each.args
        ]
        return [
            each.args[0] for each in calls if ast.unparse(each.func).rpartition(".")[2] in around
        ] or [argument]

    def top_level_names(self, module: str) -> set[str]:
        """Return the names that a module defines or imports; a package also has ``__path__``."""
        body = self.trees[module].body
        names = {each.name for each in body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        nodes = [
            node
            for each in body
            if not isinstance(each, ast.FunctionDef | ast.ClassDef)
            for node in ast.walk(each)
        ]
        names |= {each.asname or each.name for each in nodes if isinstance(each, ast.alias)}
        names |= {
            each.id
            for each in nodes
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        return names | (
            {"__path__"} if any(each.startswith(f"{module}.") for each in self.trees) else set()
        )

    def imports_by_string(self, graph: grimp.ImportGraph) -> dict[str, set[str]]:
        """Map each module that imports by string to the modules that it may import.

        Raises:
            AssertionError: if it cannot be determined what a call imports.
        """
        imported = defaultdict(set)
        for module, tree in self.trees.items():
            used = attributes_used(tree)
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                if ast.unparse(call.func).rpartition(".")[2] not in IMPORTING:
                    continue
                names = self.names_in(call, module)
                if not names:
                    words = set(re.findall(r"\w+", " ".join(map(ast.unparse, call.args))))
                    bound = [
                        self.names_in(value, place)
                        for word in words
                        for place, value in self.bound[word]
                    ]
                    names = self.names_in(tree, module).union(*bound)
                if any(
                    isinstance(each, ast.Attribute) and each.attr == "__name__"
                    for each in ast.walk(call)
                ):
                    names |= {
                        rf"{re.escape(package)}\.\w+"
                        for package in graph.find_modules_directly_imported_by(module)
                    }
                passed = self.passed(call.args[0], module)
                names = names.union(*(self.names_in(each, module) for each in passed))
                outside = all(isinstance(each, ast.Constant) for each in passed) and not names
                assert names or outside, (
                    f"{module}, line {call.lineno}: cannot tell what {ast.unparse(call)} imports"
                )
                named = {
                    each for each in self.trees if any(re.fullmatch(name, each) for name in names)
                } - {module}
                # Only a module with the attribute that the caller uses can be meant.
                imported[module] |= {
                    each
                    for each in named
                    if call not in used or used[call] & self.top_level_names(each)
                }
        return dict(imported)


def whole_graph(root: Path, **options) -> grimp.ImportGraph:
    """Return the graph of a package's imports, with those by string."""
    graph = grimp.build_graph(root.name, cache_dir=None, **options)
    for importer, modules in Sources(root).imports_by_string(graph).items():
        for module in modules:
            graph.add_import(importer=importer, imported=module)
    return graph


def upward_imports(
    graph: grimp.ImportGraph, package: str, layers: list[str]
) -> set[tuple[str, str]]:
    """Return the imports of a higher layer, as pairs of importer and imported module."""
    levels = [grimp.Layer(*re.split(r" [:|] ", line), independent="|" in line) for line in layers]
    illegal = graph.find_illegal_dependencies_for_layers(levels, containers={package})
    return {
        (head, tail)
        for each in illegal
        for route in each.routes
        for head in route.heads
        for tail in route.tails
    }


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or indirectly."""
    pairs = (
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    )
    return [
        sorted(group)
        for group in networkx.strongly_connected_components(networkx.DiGraph(pairs))
        if len(group) > 1
    ]


@pytest.fixture(scope="module")
def graph():
    return whole_graph(
        ROOT / "src/trueneg", include_external_packages=True, exclude_type_checking_imports=True
    )


def test_no_module_imports_a_higher_layer(graph):
    assert upward_imports(graph, "trueneg", LAYERS["layers"]) == set()


def test_no_import_by_string_leads_to_a_forbidden_module(graph):
    chains = [
        graph.find_shortest_chain(importer, module, as_packages=True)
        for importer in FORBIDDEN["source_modules"]
        for module in FORBIDDEN["forbidden_modules"]
    ]
    assert [chain for chain in chains if chain] == []


def test_no_modules_import_each_other(graph):
    assert circles(graph) == []


PLANTED = {
    "a constant": 'importlib.import_module("planted.high.thing")',
    "the beginning of a name": 'importlib.import_module(f"planted.high.{name}")',
    "the importer by its own name": (
        'from importlib import import_module\nimport_module("planted.high.thing")'
    ),
    "a variable": 'place = f"planted.high.{name}"\nimportlib.import_module(place)',
    "a table": 'TABLE = {"a": "planted.high.thing"}\nimportlib.import_module(TABLE[name])',
    "a module whose function is called": 'importlib.import_module(f"planted.high.{name}").load()',
    "an argument": (
        'def call(place):\n    importlib.import_module(place)\n\ncall("planted.high.thing")'
    ),
    "the attribute of a spec": "importlib.import_module(spec.implementation)",
    "a key of a spec": 'importlib.import_module(spec["implementation"])',
}


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Return a function that writes a package with a caller in its lower layer, and returns the
    graph of its imports.
    """

    def write(caller):
        for layer in ("", "high", "low"):
            (tmp_path / "planted" / layer).mkdir()
            (tmp_path / "planted" / layer / "__init__.py").write_text("")
        (tmp_path / "planted/high/thing.py").write_text(
            "import planted.low.caller\n\n\ndef load(): ...\n"
        )
        (tmp_path / "planted/high/runner.py").write_text(
            "import importlib\nimportlib.import_module(spec.implementation)\n"
        )
        (tmp_path / "planted/low/spec.py").write_text('implementation = "planted.high.thing"\n')
        (tmp_path / "planted/low/caller.py").write_text(f"import importlib\n{caller}\n")
        monkeypatch.syspath_prepend(tmp_path)
        return whole_graph(tmp_path / "planted")

    return write


@pytest.mark.parametrize("call", PLANTED.values(), ids=PLANTED)
def test_an_upward_import_by_string_is_found(planted, call):
    graph = planted(call)
    assert ("planted.low.caller", "planted.high.thing") in upward_imports(
        graph, "planted", ["high", "low"]
    )
    assert any(
        {"planted.high.thing", "planted.low.caller"} <= set(circle) for circle in circles(graph)
    )


def test_a_spec_may_name_its_implementation(planted):
    graph = planted('importlib.import_module("json")')
    assert upward_imports(graph, "planted", ["high", "low"]) == set()
    assert graph.direct_import_exists(importer="planted.high.runner", imported="planted.high.thing")


def test_an_import_of_unknown_modules_is_refused(planted):
    with pytest.raises(AssertionError, match=r"planted\.low\.caller, line 2"):
        planted("importlib.import_module(input())")


def test_tests_and_their_commands_import_this_checkout(tmp_path):
    command = [sys.executable, "-c", "import trueneg; print(trueneg.__file__)"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (
        Path(printed.stdout.strip()) == Path(trueneg.__file__) == ROOT / "src/trueneg/__init__.py"
    )
