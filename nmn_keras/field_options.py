"""Options of the command line made of dataclasses: one for each field, with the sentence under it as help."""

import argparse
import ast
import dataclasses
import inspect
import itertools
import shlex
import textwrap
import types
import typing


def add_fields(parser, title, kind, default, skip=()):
    """Add a group with an option for each field of a dataclass; without the option the namespace lacks the field.

    Args:
        parser: what to add to. A field that has an option there already, from another dataclass, is only mentioned.
        title: of the group.
        kind: the dataclass.
        default: function of a field that gives the words for its default.
        skip: fields that have an option of their own.
    """
    group = parser.add_argument_group(title)
    sentences = _sentences(kind)
    for field in dataclasses.fields(kind):
        option = _option(field.name)
        if field.name in skip:
            continue
        text = f"{sentences[field.name]} Default: {default(field)}".replace("%", "%%")
        if option in parser._option_string_actions:
            group.description = f"{group.description or ''} {option} (default: {default(field)});"
            continue
        reading: dict[str, typing.Any] = {"action": argparse.BooleanOptionalAction}
        if field.type is not bool:
            reading = {"type": reader(field.type), "metavar": _metavar(field.type)}
        group.add_argument(option, default=argparse.SUPPRESS, help=text, **reading)


def given(arguments, *kinds):
    """The fields of dataclasses that were given as options, with their values."""
    names = dict.fromkeys(field.name for kind in kinds for field in dataclasses.fields(kind))
    return {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}


def words(fields):
    """The options that have to be typed for fields to have these values, quoted for a shell."""
    return [_word(name, value) for name, value in fields.items()]


def _word(name, value):
    option = _option(name)
    if isinstance(value, bool):
        return option if value else f"--no-{option[2:]}"
    text = shlex.quote(written(value))
    return f"{option}={text}" if text.startswith("-") else f"{option} {text}"


def written(value):
    """A value as it is typed: a tuple's with commas between them, "none" for None."""
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return ",".join(map(written, value)) or "()"
    return str(value)


def reader(kind):
    """A function from text to a value of a field's type, for argparse.

    Args:
        kind: a number, str, tuple[number, ...], or one of these or None, where "none" is accepted.

    Raises:
        TypeError: for another type.
    """
    kinds = _kinds(kind)
    optional, several = type(None) in kinds, [k for k in kinds if k is not type(None)]
    main = float if {*several} == {int, float} else several[0] if len(several) == 1 else None
    if typing.get_origin(main) is tuple:
        element = reader(typing.get_args(main)[0])

        def read_main(text):
            return () if text.strip() in ("", "()") else tuple(element(part.strip()) for part in text.split(","))

        name = f"{element.__name__}s with commas between them"
    elif main in (int, float, str):
        read_main, name = main, main.__name__
    else:
        raise TypeError(f"A field needs a type that an option can be made of. Received: {kind}")

    def read(text):
        return None if optional and text.lower() == "none" else read_main(text)

    read.__name__ = name  # argparse's errors name it
    return read


def _kinds(kind):
    """The members of a union, or the type itself; a literal counts as the type of its values."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return tuple(itertools.chain.from_iterable(map(_kinds, typing.get_args(kind))))
    if typing.get_origin(kind) is typing.Literal:
        return tuple(dict.fromkeys(map(type, typing.get_args(kind))))
    return (kind,)


def _metavar(kind):
    return "X,..." if any(typing.get_origin(one) is tuple for one in _kinds(kind)) else "X"


def _option(name):
    return f"--{name.replace('_', '-')}"


def _sentences(kind):
    """`{field: the string under it}` of a dataclass."""
    tree: ast.Module = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return {
        ast.unparse(field.target): " ".join(str(ast.literal_eval(text.value)).split())
        for field, text in itertools.pairwise(getattr(tree.body[0], "body"))  # noqa: B009
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
