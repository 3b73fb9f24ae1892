"""The machine words that the source puts on record, found by following each writer's argument back to its literals."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

from wakegate_schema.errors import WakegateError

_NUMBERED = ("http_", "exit_", "signal_")
"""How words begin that end with a number."""
WORD = re.compile(r"[a-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Argument:
    """Where a function takes the word: by position (without `self`), or by keyword."""

    position: int | None
    keyword: str


Sinks = dict[str, Argument]


def modules_of(*packages: str) -> list[ModuleType]:
    """Every module of the packages."""
    found = []
    for package in packages:
        parent = importlib.import_module(package)
        names = [info.name for info in pkgutil.walk_packages(parent.__path__, f"{package}.")]
        found += [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return found


def words_given(modules: list[ModuleType], sinks: Sinks, column: str = "") -> set[str]:
    """Every literal that reaches one of the functions, through constants, variables, parameters and returned values.

    The same for what is given to a query as its parameter `column`, in a dict.
    A parameter makes its function a sink too: in every module, or in its own when the name begins with `_`.
    """
    sources = [_Source(module) for module in modules]
    shared, found = dict(sinks), set[str]()
    private: dict[str, Sinks] = {source.name: {} for source in sources}
    known = -1
    while known != (known := len(shared) + sum(map(len, private.values()))):
        for source in sources:
            words, more = source.given(shared | private[source.name], column)
            found |= words
            for name, argument in more.items():
                (private[source.name] if name.startswith("_") else shared).setdefault(name, argument)
    return found


def words_returned(modules: list[ModuleType], function: str) -> set[str]:
    """Every literal that functions of this name return; for those that are handed on and called elsewhere."""
    found = set[str]()
    for source in map(_Source, modules):
        found |= source.returned(function)
    return found


def reasons_raised(
    modules: list[ModuleType], family: type[WakegateError], *, but: tuple[type[WakegateError], ...] = ()
) -> set[str]:
    """Every reason under which an exception of the family is made in the modules."""
    found = set[str]()
    for source in map(_Source, modules):
        found |= source.raised(family, but)
    return found


def sql_literals(column: str) -> set[str]:
    """Every literal that the store's own SQL writes into the column."""
    return set(re.findall(rf"\b{column} = '(\w+)'", _sql()))


def sql_writers(column: str) -> set[str]:
    """The named queries that take the column's value from Python."""
    blocks = re.split(r"^-- name: (\w+)$", _sql(), flags=re.MULTILINE)
    pairs = zip(blocks[1::2], blocks[2::2], strict=True)
    return {name for name, text in pairs if re.search(rf"\b{column} = (?:item\.|:)|:{column}\b", text)}


def _sql() -> str:
    """Every block of SQL: what both databases share, and each one's own."""
    shared = resources.files("wakegate_schema").joinpath("sql")
    folders = (shared, shared.joinpath("sqlite"), shared.joinpath("postgresql"))
    return "\n".join(file.read_text() for folder in folders for file in folder.iterdir() if file.name.endswith(".sql"))


class _Source:
    """One module's source."""

    def __init__(self, module: ModuleType) -> None:
        self.name = module.__name__
        self._names = vars(module)
        self._tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        self._functions = {node.name: node for node in ast.walk(self._tree) if isinstance(node, _FUNCTIONS)}

    def given(self, sinks: Sinks, column: str) -> tuple[set[str], Sinks]:
        words, more = set[str](), Sinks()
        for call, inside in _calls(self._tree, ()):
            argument = sinks.get(_called(call))
            nodes = [] if argument is None else [_argument(call, argument)]
            nodes += [_member(value, column) for value in call.args if isinstance(value, ast.Dict)]
            for node in nodes:
                words |= set() if node is None else self._values(node, inside, more)
        return words, more

    def returned(self, name: str) -> set[str]:
        return self._returned(name, (), {})

    def raised(self, family: type[WakegateError], but: tuple[type[WakegateError], ...]) -> set[str]:
        words = set[str]()
        for call, inside in _calls(self._tree, ()):
            made = self._evaluated(call.func)
            if not isinstance(made, type) or not issubclass(made, family) or issubclass(made, but):
                continue
            node = _argument(call, Argument(None, "reason"))
            words |= set[str]() if node is None else self._values(node, inside, {})
            if node is None or any(isinstance(part, ast.Constant) and part.value is None for part in ast.walk(node)):
                words.add(made.reason)
        return words

    def _values(self, node: ast.AST, inside: "tuple[_Function, ...]", more: Sinks) -> set[str]:
        """What an expression may be; nothing for what only passes a recorded word on, such as `error.reason`."""
        match node:
            case ast.Constant(value=str(text)):
                return {text} if WORD.fullmatch(text) else set()
            case ast.IfExp(body=one, orelse=other):
                return self._values(one, inside, more) | self._values(other, inside, more)
            case ast.BoolOp(values=values):
                return set().union(*(self._values(value, inside, more) for value in values))
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), ast.FormattedValue()]) if text in _NUMBERED:
                return {f"{text}NNN"}
            case ast.Await(value=value):
                return self._values(value, inside, more)
            case ast.Tuple(elts=[first, *_]):
                return self._values(first, inside, more)
            case ast.Call(func=ast.Name(id="str"), args=[value]):
                return self._values(value, inside, more)
            case ast.Call():
                return self._returned(_called(node), inside, more)
            case ast.Name(id=name) if inside and name not in self._names:
                return self._variable(name, inside, more)
        value = self._evaluated(node)
        return {str(value)} if isinstance(value, str) else set()

    def _returned(self, name: str, inside: "tuple[_Function, ...]", more: Sinks) -> set[str]:
        function = self._functions.get(name)
        if function is None or function in inside:
            return set()
        returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
        return set().union(*(self._values(value, (*inside, function), {}) for value in returns))

    def _variable(self, name: str, inside: "tuple[_Function, ...]", more: Sinks) -> set[str]:
        found = set[str]()
        for function in reversed(inside):
            parameters = [parameter.arg for parameter in function.args.args if parameter.arg != "self"]
            if name in parameters or name in [parameter.arg for parameter in function.args.kwonlyargs]:
                position = parameters.index(name) if name in parameters else None
                more.setdefault(function.name, Argument(position, name))
                return found
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and any(_names(target, name) for target in node.targets):
                    found |= self._values(node.value, inside, more)
        return found

    def _evaluated(self, node: ast.AST) -> Any:
        match node:
            case ast.Name(id=name):
                return self._names.get(name)
            case ast.Attribute(value=owner, attr=name):
                found = self._evaluated(owner)
                return getattr(found, name, None) if isinstance(found, type | ModuleType) else None
        return None


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _calls(node: ast.AST, inside: tuple[_Function, ...]) -> Iterator[tuple[ast.Call, tuple[_Function, ...]]]:
    """Every call below a node, each with the functions it stands in, the innermost last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, inside
        yield from _calls(child, (*inside, child) if isinstance(child, _FUNCTIONS) else inside)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _argument(call: ast.Call, argument: Argument) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == argument.keyword:
            return keyword.value
    if argument.position is None or len(call.args) <= argument.position:
        return None
    return call.args[argument.position]


def _member(members: ast.Dict, name: str) -> ast.expr | None:
    for key, value in zip(members.keys, members.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == name:
            return value
    return None


def _names(target: ast.expr, name: str) -> bool:
    """Whether an assignment gives the variable its value; of several at once, only the first counts."""
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return isinstance(first, ast.Name) and first.id == name
