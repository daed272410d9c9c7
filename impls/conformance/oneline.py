"""A frozen dataclass as one line of text, ``name=value`` for whatever is not the default, and back."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

from impls.problem import one_of

T = TypeVar("T")


def as_line(value: Any) -> str:
    """Fields as words: lengths joined by ``x``, names by ``+``, flags as ``True`` and ``False``."""
    words = []
    for field in fields(value):
        if (x := getattr(value, field.name)) != field.default:
            join = "x" if "int" in str(field.type) else "+"
            words.append(f"{field.name}={join.join(map(str, x)) if isinstance(x, tuple) else x}")
    return " ".join(words)


def from_line(cls: type[T], text: str) -> T:
    """The ``cls`` that ``as_line`` wrote. Raises ValueError for a field that it does not have, or a value it cannot."""
    values: dict[str, Any] = {}
    types = {field.name: str(field.type) for field in fields(cls)}  # type: ignore[arg-type]
    for word in text.split():
        name, _, value = word.partition("=")
        kind = types[one_of("field of a case", name, tuple(types))]
        if kind.startswith("tuple[int"):
            values[name] = tuple(int(n) for n in value.split("x") if n)
        elif kind.startswith("tuple[str"):
            values[name] = tuple(value.split("+"))
        elif kind == "bool":
            values[name] = one_of(name, value, ("True", "False")) == "True"
        else:
            values[name] = int(value) if kind.startswith("int") else value
    needed = [field.name for field in fields(cls) if field.default is MISSING]  # type: ignore[arg-type]
    if missing := [name for name in needed if name not in values]:
        raise ValueError(f"a case needs {', '.join(missing)} as well: {text!r}")
    return cls(**values)
