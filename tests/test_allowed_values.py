from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, Struct, field

from rightful.allowed_values import explained


class Round(Struct, tag_field="form", tag="round"):
    """A member of a tagged union."""

    colour: Literal["red", "green"] | None = None


class Square(Struct, tag_field="form", tag="square"):
    """The other one."""

    sides: Annotated[int, Meta(ge=1)] = 1


class Box(Struct):
    """What holds them."""

    one: Round | Square | None = None
    many: tuple[Round | Square, ...] = ()
    named: dict[str, Round] = field(default_factory=dict)
    as_: Literal["a", "b"] = field(name="as", default="a")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"as": "c"}, "Invalid enum value 'c'; there are `a`, `b` - at `$.as`"),
        ({"one": {"form": "oval"}}, "Invalid value 'oval'; there are `round`, `square` - at `$.one.form`"),
        (
            {"many": [{"form": "round", "colour": "blue"}]},
            "Invalid enum value 'blue'; there are `green`, `red` - at `$.many[0].colour`",
        ),
        (
            {"named": {"x": {"form": "round", "colour": "blue"}}},
            "Invalid enum value 'blue'; there are `green`, `red` - at `$.named[...].colour`",
        ),
        (
            {"one": {"form": "square", "sides": 0}},
            "Expected `int` >= 1 - at `$.one.sides`",
        ),
    ],
)
def test_what_is_none_of_the_allowed_values_is_told_them(value: Any, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Box)

    assert explained(str(caught.value), Box) == said


def test_what_cannot_be_found_in_the_type_stays_unchanged() -> None:
    assert explained("Invalid enum value 'x' - at `$.nowhere`", Box) == "Invalid enum value 'x' - at `$.nowhere`"
