"""Building blocks of configuration sections: strict models, number types that accept text, and
sweeps.
"""

import os
import re
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic.fields import FieldInfo

Value = TypeVar("Value")


def format_value(value: Any) -> str:
    """Format a sweep value for labels, with numbers in their shortest form; a mapping like the
    settings that it came from.

    Example:
        >>> format_value(0.50), format_value({"true_share": 0.5})
        ('0.5', 'true_share=0.5')
    """
    if isinstance(value, dict):
        return " ".join(f"{key}={part!r}" for key, part in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def label_of(value: Any) -> str:
    """Format a sweep value for labels that name files, which ``/`` would end.

    Example:
        >>> label_of("BAAI/bge-small-en-v1.5")
        'BAAI_bge-small-en-v1.5'
    """
    return format_value(value).replace("/", "_")


def _each_once(values: list[Value]) -> list[Value]:
    if len(set(map(label_of, values))) != len(values):
        raise ValueError(f" is {values}; expected distinct values")
    return values


EachOnce = AfterValidator(_each_once)
NonEmpty = Annotated[list[Value], Field(min_length=1)]
# A value, or a list of values to sweep over. The discriminator limits error messages to the
# intended branch.
Sweepable = Annotated[
    Annotated[Value, Tag("value")] | Annotated[NonEmpty[Value], EachOnce, Tag("sweep")],
    Discriminator(lambda setting: "sweep" if isinstance(setting, list) else "value"),
]


def _from_text(value: Any) -> Any:
    """Parse numbers and booleans given as text: ``--config`` passes all values as text, and YAML
    1.1 reads 1e-3 as text.
    """
    if not isinstance(value, str):
        return value
    if len(value) < 100 and re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", value):
        return int(value) if value.lstrip("+-").isdigit() else float(value)
    return {"true": True, "false": False}.get(value.lower(), value)


Boolean = Annotated[bool, BeforeValidator(_from_text)]
Integer = Annotated[int, BeforeValidator(_from_text)]
Real = Annotated[float, BeforeValidator(_from_text)]
Positive = Annotated[Real, Field(gt=0)]
NonNegative = Annotated[Real, Field(ge=0)]
Fraction = Annotated[Real, Field(gt=0, le=1)]
OpenFraction = Annotated[Real, Field(gt=0, lt=1)]
Probability = Annotated[Real, Field(ge=0, lt=1)]
Share = Probability
Count = Annotated[Integer, Field(ge=1, le=10**9)]  # larger values are mistakes and cause overflows
CountFromZero = Annotated[Integer, Field(ge=0, le=10**9)]
AtLeastTwo = Annotated[Integer, Field(ge=2, le=10**9)]
Seed = Annotated[Integer, Field(ge=0, lt=2**31)]
Leakage = Annotated[
    Literal["allow", "leave_out"] | None,
    Field(
        description=(
            "samples that the data's own splits share (equal content or group): leave_out: of"
            " training, and of validation if test has them; allow: kept, and reported (in"
            " text studies, equal texts are trained on and not measured); none: the study does not"
            " start"
        )
    ),
]
# Whether, how many or which share of unusable rows and images may be left out.
SkipIncomplete = Annotated[
    Annotated[bool, Tag("bool")]
    | Annotated[Count, Tag("int")]
    | Annotated[OpenFraction, Tag("float")],
    Discriminator(lambda setting: type(setting).__name__),
    BeforeValidator(_from_text),
]
SPLIT_COLUMN = (
    "name of a column with splits of your own: train, test and, optionally, validation (without,"
    " `validation` of the training samples); none: splits are drawn"
)
# Names become parts of file paths and labels.
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.+-]*$", max_length=60)]


def _valid_path(path: str) -> str:
    """Reject paths that no file system supports; otherwise, each file operation would fail with a
    different error.
    """
    if (
        any(len(os.fsencode(part)) > 255 for part in path.split("/"))
        or len(os.fsencode(path)) > 4000
        or "\0" in path
    ):
        raise ValueError(" is not a valid path: it is too long or contains a null character")
    return path


PathText = Annotated[str, AfterValidator(_valid_path)]
# A setting that affects only where or how fast a study runs, not the identity of runs.
Technical = Annotated[Value, Field(json_schema_extra={"technical": True})]


def is_sweepable(field: FieldInfo) -> bool:
    """Return whether a list of values of a field is a sweep, and not one value."""
    return "Tag(tag='sweep')" in repr(field.annotation) + repr(field.metadata)


def is_technical(field: FieldInfo) -> bool:
    """Return whether a field is :data:`Technical`."""
    return isinstance(field.json_schema_extra, dict) and bool(
        field.json_schema_extra.get("technical")
    )


class Settings(BaseModel):
    """Base class of all sections: rejects unknown keys and does not coerce types.

    The string below a setting is its description on the reference page.

    Attributes:
        VERSION: raise it when a change to the code behind this section changes results: earlier
            results are then marked stale.
    """

    VERSION: ClassVar[int] = 1

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_from_text(cls, keys: Any) -> Any:
        """Convert the text ``null`` to None, because ``--config`` passes values as text."""
        return (
            {key: None if value == "null" else value for key, value in keys.items()}
            if isinstance(keys, dict)
            else keys
        )


def at_defaults(section: Settings, *kept: str) -> Settings:
    """Reset a section to its defaults, except for required settings, technical settings and those
    in `kept`.

    Args:
        section: any section.
        kept: names of the settings to keep.
    """
    fields = type(section).model_fields.items()
    stated = [
        name for name, field in fields if name in kept or is_technical(field) or field.is_required()
    ]
    return type(section).model_construct(**{name: getattr(section, name) for name in stated})


class Study(Settings):
    """Settings shared by studies of every kind, and what the rest of the package asks of a kind.

    Functions are named as ``module:function``.

    Attributes:
        CHECKED_BY: yields what contradicts itself in a study, given the study and the likelihood
            studies by name; empty: nothing.
        DESCRIBED_BY: lists what exists and what is missing, for ``trueneg check``.
        FOUND_BY: answers the study's question in a sentence, given its artefacts.
        EXPERIMENTS: names of what it computes without training.
        is_scored: whether language models score its sentences.
    """

    CHECKED_BY: ClassVar[str] = ""
    DESCRIBED_BY: ClassVar[str]
    FOUND_BY: ClassVar[str]
    EXPERIMENTS: ClassVar[tuple[str, ...]] = ()
    is_scored: ClassVar[bool] = False

    kind: str
    title: str = Field(min_length=1)
    """heading of the results"""
    question: str = ""
    """the study's research question, in one sentence"""
    note: str = ""
    """printed below every figure, such as a caveat about the data"""


def values_of(setting: Any) -> list[Any]:
    """Return the values of a sweep, or a single value as a list."""
    return setting if isinstance(setting, list) else [setting]


def models_within(annotation: Any) -> list[type[Settings]]:
    """List the models in an annotation, including those nested in unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_within(part)]


def tag_of(model: type[Settings]) -> tuple[str, tuple[str, ...]]:
    """Return the key that selects a model in a union and the key's allowed values; both are empty
    if there is no such key.
    """
    for key in ("name", "source", "schedule", "kind"):
        values = get_args(model.model_fields[key].annotation) if key in model.model_fields else ()
        if values and all(isinstance(value, str) for value in values):
            return key, values
    return "", ()
