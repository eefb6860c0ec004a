"""A class name has one meaning in the whole package, and no parameter of the losses, the training,
the statistics or the run store takes just anything.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import ROOT

PACKAGE = ROOT / "src/trueneg"
TYPED = ("losses", "training", "stats", "store")
# Parameters that may be anything, as `arbitrary_parameters` lists them.
ARBITRARY = {
    "losses/contrastive.py:SupConLoss.__init__(options)",
    "losses/execution.py:_on_cpu(world)",
    "losses/log_space.py:MaskedLogSumExp.backward(ctx)",
    "losses/ranking.py:FactsCollator.__init__(collator)",
    "losses/ranking.py:RankingLoss.forward(labels)",
    "losses/sentences.py:GuideVectors.__init__(model)",
    "losses/sentences.py:_of_column(features)",
    "losses/sentences.py:_vocabulary(model)",
    "losses/sentences.py:decoder_of(guide)",
    "losses/sentences.py:decoder_of(model)",
    "losses/sentences.py:tokeniser_of(model)",
    "store/data_input.py:digest(value)",
    "store/identity.py:_nested(value)",
    "store/records.py:_read(model)",
    "store/records.py:read_json(model)",
    "store/records.py:require_valid(content)",
    "store/records.py:require_valid(model)",
    "training/engine.py:TrainingJob._train_owned(device)",
    "training/engine.py:train_runs(runs)",
    "training/export.py:_flat(encoder)",
    "training/export.py:_input_of(augmentation)",
    "training/export.py:_input_of(network)",
    "training/export.py:head_layers(head)",
    "training/export.py:write_encoder(augmentation)",
    "training/export.py:write_encoder(network)",
    "training/frozen.py:image_vectors(views)",
    "training/frozen.py:vectors_of_file(source)",
    "training/guides/ema.py:EmaGuide.__init__.averaged(count)",
    "training/loop.py:TrainingRun.__init__(source)",
    "training/loop.py:TrainingRun.__init__(subset)",
    "training/loop.py:TrainingRun.backward(batch)",
    "training/loop.py:TrainingRun.initial_weights(source)",
    "training/loop.py:TrainingRun.set_up(source)",
    "training/loop.py:TrainingRun.set_up(subset)",
    "training/masked_words.py:MaskedWordHead.forward(bert)",
    "training/monitors.py:marks_negatives(loss)",
    "training/pair_training.py:PairTraining._rated_by(network)",
    "training/pair_training.py:PairTraining.read_data(source)",
    "training/pair_training.py:PairTraining.set_up(source)",
    "training/pair_training.py:PairTraining.initial_weights(source)",
    "training/sides/base.py:Side.embed(inputs)",
    "training/sides/text.py:SentenceTokens.__init__(maximum_tokens)",
    "training/sides/text.py:SentenceTokens.__init__(tokenizer)",
    "training/simclr.py:compiled_embedding.embed(arguments)",
}


def classes_of(tree: ast.AST) -> list[str]:
    """Return the names of all classes in a module."""
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """Return all parameters of a function."""
    arguments = function.args
    several = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]


def arbitrary_parameters(tree: ast.AST, place: str) -> Iterator[str]:
    """Yield parameters with the annotation ``Any``, as ``place:class.function(parameter)``."""
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        named = isinstance(node, ast.ClassDef) or is_function
        inner = f"{place}{'.' if place[-1] != ':' else ''}{node.name}" if named else place
        for parameter in parameters_of(node) if is_function else ():
            if parameter.annotation is not None and ast.unparse(parameter.annotation) == "Any":
                yield f"{inner}({parameter.arg})"
        yield from arbitrary_parameters(node, inner)


def parsed(folder: Path) -> dict[str, ast.Module]:
    """Return the modules of a folder by their path in the package."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


def test_a_class_name_has_one_meaning():
    times = Counter(name for tree in parsed(PACKAGE).values() for name in classes_of(tree))
    repeated = {name for name, count in times.items() if count > 1}
    assert repeated == set(), "rename one of the classes with each of these names"


def test_parameters_have_types():
    found = {
        line
        for package in TYPED
        for path, tree in parsed(PACKAGE / package).items()
        for line in arbitrary_parameters(tree, f"{path}:")
    }
    new = sorted(found - ARBITRARY)
    lines = "\n".join(f'    "{line}",' for line in new)
    assert not new, f"give these parameters a type, or add them to ARBITRARY:\n{lines}"


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("def f(a: Any, b: int, *c: Any, d: Any = None, **e: Any): ...", list("acde")),
        ("def f(a: list[Any], b: 'str', c): ...", []),
    ],
)
def test_all_kinds_of_parameters_are_found(signature, expected):
    found = arbitrary_parameters(ast.parse(signature), "m.py:")
    assert sorted(found) == [f"m.py:f({name})" for name in expected]


def test_parameters_of_methods_and_inner_functions_are_found():
    text = "class C:\n    def m(self, a: Any):\n        def inner(b: Any): ...\n"
    assert list(arbitrary_parameters(ast.parse(text), "m.py:")) == [
        "m.py:C.m(a)",
        "m.py:C.m.inner(b)",
    ]
