"""Find the models that the modules of a package define, and join models in a union."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import ModuleType
from typing import Annotated, Any

from pydantic import Discriminator

from trueneg.specs.settings import Settings, tag_of


def by_tag(modules: Iterable[ModuleType], base: type[Settings]) -> dict[str, Any]:
    """Map each tag, such as a name, to the subclass of `base` that one of the modules of a package
    defines for it; classes without a tag are bases of others.
    """
    return {
        tag: model
        for module in modules
        for model in vars(module).values()
        if isinstance(model, type) and model.__module__ == module.__name__
        if issubclass(model, base)
        for tag in tag_of(model)[1]
    }


def union_of(tag: str, *models: Any) -> Any:
    """Return the union of models that are only known at run time, discriminated by a field."""
    return Annotated[reduce(or_, models), Discriminator(tag)]
