"""Attributes of an environment by their path: read, set, and set right what was computed from them."""

import ast
import inspect
import operator
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

PATH = re.compile(r"(?P<names>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:\[(?P<index>[-\d:,\s]+)\])?")
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class Attribute:
    """A number or an array of numbers within an environment.

    Args:
        env: where the path begins; its first name may also be one of an environment that it wraps.
        path: names with dots, and for a part of an array an index as in numpy: "unwrapped.model.opt.gravity[2]".

    Raises:
        ValueError: if there is no such attribute, or it is not made of numbers.
    """

    def __init__(self, env: gymnasium.Env, path: str):
        match = PATH.fullmatch(path) if isinstance(path, str) else None
        if match is None:
            raise ValueError(
                "Not a path to an attribute. Accepted: names with dots and an index at the end, such as "
                f"'unwrapped.length' or 'unwrapped.model.opt.gravity[2]'. Received: {path!r}"
            )
        self.env, self.path = env, path
        names = match["names"].split(".")
        self.holders, self.name = names[:-1], names[-1]
        self.index = None if match["index"] is None else _index(match["index"], path)
        self._own_array()
        self.shape = np.shape(self.get())

    @property
    def owner(self) -> Any:
        """What has the attribute."""
        found: Any = _holder(self.env, (self.holders or [self.name])[0])
        for name in self.holders:
            if not hasattr(found, name):
                raise self._unknown(found, name)
            found = getattr(found, name)
        if not hasattr(found, self.name):
            raise self._unknown(found, self.name)
        return found

    def get(self) -> Any:
        """A copy of the value.

        Raises:
            ValueError: if it is not made of numbers.
        """
        value = getattr(self.owner, self.name)
        if not _numeric(value):
            raise ValueError(
                f"`{self.path}` is not a number nor an array of numbers. {_listed(self.owner)} "
                f"Received: {type(value).__name__}"
            )
        if self.index is None:
            return value.copy() if isinstance(value, np.ndarray) else value
        try:
            return np.array(value[self.index])
        except (IndexError, TypeError) as error:
            raise ValueError(
                f"`{self.path}` has an index that does not fit. Accepted are those of the shape {np.shape(value)}. "
                f"Received: {error}"
            ) from error

    def set(self, value: Any) -> None:
        """Set it: an array in place, so that whoever holds it sees the change."""
        owner = self.owner
        if isinstance(getattr(owner, self.name), np.ndarray):
            getattr(owner, self.name)[... if self.index is None else self.index] = value
        else:
            setattr(owner, self.name, float(value))
        if not np.allclose(self.get(), value, rtol=1e-6, atol=0.0):
            raise ValueError(
                f"`{self.path}` cannot be set: it stays {self.get()}. An attribute that is not computed from others is "
                f"accepted. Received: {value}"
            )

    def _own_array(self) -> None:
        """An array of the class, shared by all environments of it, becomes one of this environment."""
        owner = self.owner
        if isinstance(inspect.getattr_static(type(owner), self.name, None), np.ndarray):
            setattr(owner, self.name, getattr(owner, self.name).copy())

    def _unknown(self, owner: Any, name: str) -> ValueError:
        return ValueError(f"There is no attribute {name!r} on the path. {_listed(owner)} Received: {self.path!r}")


def _index(text: str, path: str) -> tuple[int | slice, ...]:
    try:
        parts = [[int(n) if n.strip() else None for n in part.split(":")] for part in text.split(",")]
        return tuple(slice(*part) if len(part) > 1 else operator.index(part[0]) for part in parts)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Not an index. Integers and slices with commas are accepted, such as [:, 0]. Received: {path!r}"
        ) from error


def _holder(env: Any, name: str) -> Any:
    """The outermost of the wrapped environments that has the attribute, else the innermost."""
    layer = env
    while not hasattr(layer, name) and isinstance(layer, gymnasium.Wrapper):
        layer = layer.env
    return layer


def _numeric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.size > 0 and (
            np.issubdtype(value.dtype, np.floating) or np.issubdtype(value.dtype, np.signedinteger)
        )
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _listed(owner: Any) -> str:
    """The numbers that an object has, in words."""
    names = []
    for name in dir(owner):
        try:
            if not name.startswith("_") and _numeric(getattr(owner, name, None)):
                names.append(name)
        except Exception:
            continue
    return f"Numbers of {type(owner).__name__}: {', '.join(names) or 'none'}."


# What follows from attributes


class Follower:
    """An attribute that is computed from others by a formula.

    Args:
        env: see `Attribute`.
        path: of the attribute.
        formula: arithmetic (+, -, *, /, **) of numbers and paths.
    """

    def __init__(self, env: gymnasium.Env, path: str, formula: str):
        self.attribute, self.formula = Attribute(env, path), formula
        try:
            self.tree: ast.expr = ast.parse(formula, mode="eval").body
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                "A formula of `derived` is arithmetic of numbers and paths, such as 'unwrapped.masspole * "
                f"unwrapped.length'. Received for {path!r}: {formula!r}"
            ) from error
        self.compute()

    def compute(self) -> Any:
        """The value that the formula gives now."""
        env = self.attribute.env
        try:
            return evaluate(self.tree, lambda path: Attribute(env, path).get())
        except TypeError as error:
            raise ValueError(
                f"A formula of `derived` is arithmetic of numbers and paths. Received for {self.attribute.path!r}: "
                f"{self.formula!r}"
            ) from error

    def apply(self) -> None:
        """Set the attribute."""
        self.attribute.set(self.compute())


def evaluate(tree: ast.expr, value_of: Callable[[str], Any]) -> Any:
    """Compute an arithmetic expression.

    Raises:
        TypeError: if it is more than numbers, paths, +, -, *, / and **.
    """
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return tree.value
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
        return _OPERATIONS[type(tree.op)](evaluate(tree.left, value_of), evaluate(tree.right, value_of))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -evaluate(tree.operand, value_of)
    if isinstance(tree, ast.Name | ast.Attribute | ast.Subscript) and PATH.fullmatch(ast.unparse(tree)):
        return value_of(ast.unparse(tree))
    raise TypeError(ast.unparse(tree))


def followers(attribute: Attribute) -> Mapping[str, str | None]:
    """Find the attributes that the constructor of an attribute's owner computes from it.

    Args:
        attribute: of an object whose class is written in Python; of others nothing is found.

    Returns:
        their paths with a formula each, None where it is no arithmetic of attributes; without those that `reset`
        sets anew.
    """
    owner, before = attribute.owner, ".".join(attribute.holders)
    prefix = before + "." if before else ""
    found: dict[str, str | None] = {}
    for name, tree in _computed(type(owner), attribute.name).items():
        if not hasattr(owner, name):
            continue
        formula = None if tree is None else re.sub(r"\bself\.", prefix, ast.unparse(tree))
        found[prefix + name] = formula if formula and _holds(attribute.env, prefix + name, formula) else None
    return found


def _holds(env: gymnasium.Env, path: str, formula: str) -> bool:
    """Whether a formula gives the value that the attribute has."""
    try:
        follower = Follower(env, path, formula)
        return bool(np.allclose(follower.compute(), follower.attribute.get(), rtol=1e-9, atol=0.0))
    except (ValueError, ArithmeticError):
        return False


def _computed(owner: type, name: str) -> dict[str, ast.expr | None]:
    """Attributes that `__init__` computes from `self.name`, in order, with the expression where it is arithmetic."""
    aliases: dict[str, str] = {}
    touched, found = {name}, dict[str, ast.expr | None]()
    locals_touched: set[str] = set()
    for target, value in _assignments(owner, "__init__"):
        mine = _attribute_of_self(target)
        if mine and isinstance(value, ast.Name):
            aliases[value.id] = mine
        if mine == name:
            continue
        mentions = any(
            _attribute_of_self(node) in touched
            or (isinstance(node, ast.Name) and (node.id in locals_touched or aliases.get(node.id) in touched))
            for node in ast.walk(value)
        )
        if mentions and mine:
            touched.add(mine)
            found[mine] = _in_attributes(value, aliases)
        elif mentions and isinstance(target, ast.Name):
            locals_touched.add(target.id)
    renewed = {_attribute_of_self(target) for target, _ in _assignments(owner, "reset")}
    return {mine: tree for mine, tree in found.items() if mine not in renewed}


def _assignments(owner: type, method: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and values in the order of the source, base classes first."""
    for base in reversed(owner.__mro__):
        if method not in vars(base) or base is object:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(vars(base)[method])))
        except (OSError, TypeError, SyntaxError):
            continue
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign))
        for node in sorted(nodes, key=lambda node: node.lineno):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if node.value is not None:
                    yield target, node.value


def _attribute_of_self(node: ast.AST) -> str | None:
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return node.attr if is_own else None  # type: ignore[attr-defined]


def _in_attributes(value: ast.expr, aliases: Mapping[str, str]) -> ast.expr | None:
    """The expression with attributes in place of the arguments they were set to, None if more is left."""

    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            if node.id not in aliases:
                return node
            return ast.Attribute(ast.Name("self", ast.Load()), aliases[node.id], ast.Load())

    renamed = Rename().visit(ast.parse(ast.unparse(value), mode="eval").body)
    try:
        evaluate(renamed, lambda path: 1.0)
    except (TypeError, ArithmeticError):
        return None
    return renamed
