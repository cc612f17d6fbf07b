"""Kinds of option values that click does not have, and options that reach a command as one object."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class WholeNumbers(click.ParamType):
    """Whole numbers from `least` on, as one value with commas between them."""

    name = "list"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers, or wrong usage."""
        try:
            numbers = tuple(int(word) for word in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < self.least:
            self.fail(
                f"{value!r} is not a list of whole numbers from {self.least}, such as 16,32", param, ctx
            )
        return numbers


def flat(ctx: click.Context, param: click.Parameter, values: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Callback of repeatable WholeNumbers: all numbers given, each once, in rising order."""
    return tuple(sorted({number for numbers in values for number in numbers}))


def distinct(
    ctx: click.Context, param: click.Parameter, values: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """Callback of repeatable WholeNumbers: all numbers given, in rising order; wrong usage where one comes twice."""
    numbers = sorted(number for given in values for number in given)
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise click.BadParameter(f"{twice[0]} is there twice; give each once", ctx, param)
    return tuple(numbers)


def once(ctx: click.Context, param: click.Parameter, values: Sequence[Any]) -> Any:
    """Callback of a repeatable option of which one is taken: that one or None; wrong usage for several that differ."""
    if len(set(values)) > 1:
        raise click.BadParameter(
            "given more than once, and one is taken; put it all into one file", ctx, param
        )
    return values[0] if values else None


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Callback of numbers: neither infinite nor NaN."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter("give a finite number", ctx, param)
    return value


def refuse_unheeded(names: Sequence[str], why: str) -> None:
    """UsageError where one of these options of the command under way was typed, as it would do nothing."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')}: {why}")


def gathered(name: str, make: Callable[..., Any], options: Sequence[Decorator]) -> Decorator:
    """A decorator that adds `options`, and hands their values to the command as `name`, made by `make`."""

    def decorate(command: Command) -> Command:
        def call(**values: Any) -> Any:
            own = {key: values.pop(key) for key in keys}
            return command(**values, **{name: make(**own)})

        called: Command = functools.wraps(command)(call)
        before = len(getattr(called, "__click_params__", []))
        for option in reversed(options):
            called = option(called)
        params: list[click.Parameter] = getattr(called, "__click_params__", [])
        keys = [str(param.name) for param in params[before:]]
        return called

    return decorate
