"""The catalogue: every fault point that a program can reach, derived from the code that reaches it."""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn, get_args

from faults import tools
from faults.grounds import HOME, Database, Ground
from wakegate_adapter import control_http
from wakegate_receiver import messages
from wakegate_receiver.control.routes import ROUTES
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store
from wakegate_schema.wake_targets import Kind
from wakegate_worker import outbound
from wakegate_worker.owed import Owed
from wakegate_worker.tool_modules import load_tools

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {
    "worker": ("wakegate_worker",),
    "receiver": ("wakegate_receiver", "wakegate_schema.calls"),
    "harness": ("wakegate_adapter", "wakegate_schema.calls"),
    "client": ("wakegate_adapter",),
}
"""The packages that use the schema's wrappers in each program; a client is a harness over the control API."""
STORELESS: Final = ("client",)
"""The programs that open no store, and make no file."""


def points(program: str, ground: Ground = HOME) -> set[str]:
    """Return the name of every point that the program can reach on this ground.

    Raises LookupError for a place in the code whose callers nobody derives here.
    """
    found: set[str] = set()
    for place in places(program):
        if place not in CALLERS:
            raise LookupError(f"nothing says who reaches {place}; add its callers")
        found |= {f"{place}:{caller}" for caller in CALLERS[place](program)}
    if ground.database == "postgresql":
        found = {point for point in found if not _SQLITES_OWN.search(point)}
        if program not in STORELESS:
            found -= {f"store.read:{verb}" for verb in _opening("sqlite")}
            found |= {f"store.read:{verb}" for verb in _opening("postgresql")}
        found |= {"store.read:doorbell.snapshot"} if _waits_for_changes(program, ground) else set()
    if ground.queue == "redis" and program == "receiver":
        found |= {"store.read:workers.living_pools"}  # a ringer asks whom to ring
    return found


_SQLITES_OWN: Final = re.compile(r":migrations\.migrate$|^store\.read:wal\.|^file\.\w+:wakegate\.db")
"""What happens to a file only: services make and migrate it, and there is a WAL to look after."""


def _waits_for_changes(program: str, ground: Ground) -> bool:
    """Whether the program asks PostgreSQL what has changed: a worker does not where hints come to it."""
    return program not in STORELESS and not (program == "worker" and ground.queue == "redis")


@functools.cache
def places(program: str) -> set[str]:
    """Return the places in the wrappers that the program goes through, as the calls in the code name them."""
    return {
        argument
        for tree in (*(() if program in STORELESS else _trees("wakegate_schema")), *_trees(*PACKAGES[program]))
        for call in _calls(tree)
        if ast.unparse(call.func) in ("fault_points.reach", "fault_points.passing", "_reach")
        for argument in [ast.literal_eval(call.args[0]) if isinstance(call.args[0], ast.Constant) else None]
        if argument is not None
    }


def writes(program: str) -> set[str]:
    """Return the verbs that change the store and that the program uses, and the migration where it migrates."""
    return _verbs(program, "_writer") | ({"migrations.migrate"} if _migrates(program) else set())


def reads(program: str) -> set[str]:
    """Return the verbs that read the store and that the program uses, those of the opening included."""
    return _verbs(program, "_reader") | _opening("sqlite")


@functools.cache
def _opening(database: Database) -> set[str]:
    """Return what is read when a store is opened."""
    opens = f"async def open_{database}"
    (opening,) = (tree for tree in _trees("wakegate_schema.store") if opens in ast.unparse(tree))
    read = [ast.unparse(call.args[0]) for call in _calls(opening) if ast.unparse(call.func) == "reader.read"]
    return {verb if "." in verb else f"opening.{verb}" for verb in read}


@functools.cache
def files(program: str) -> set[str]:
    """Return the names of the files that the program makes: the store's, where it makes one, and its own."""
    settings = Settings.model_validate({"database": f"sqlite:///{ROOT}/wakegate.db"})
    source = "".join(ast.unparse(tree) for tree in _trees(*PACKAGES[program]))
    used = set(re.findall(r"\w+_path", source))
    used |= {f"{service}_key_path" for service in re.findall(r"ServiceKey\.(\w+)", source)}
    made = _store_files(settings.database_path.name) if _migrates(program) else set()
    for name, value in vars(Settings).items():
        if isinstance(value, property) and name.endswith("_path") and name != "database_path":
            made |= {getattr(settings, name).name} if name in used else set()
    return made


def _store_files(database: str) -> set[str]:
    """The database and the files beside it, named `DATABASE-something`, that are made by the same hand."""
    suffixes = {
        node.right.value
        for tree in _trees("wakegate_schema.store")
        if any(ast.unparse(call.func) == "make_file" for call in _calls(tree))
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, str)
        and node.right.value.startswith("-")
        and ast.unparse(node.left).endswith(".name")
    }
    return {database} | {f"{database}{suffix}" for suffix in suffixes}


def _kinds(_program: str) -> set[str]:
    """What comes in: messages of the provider, and what harnesses ask for."""
    return {messages.VERIFICATION, messages.NOTIFICATION} | {f"control.{route.name}" for route in ROUTES}


def _answers(program: str) -> set[str]:
    return _kinds(program) | {"refusal"}


def _exchanges(program: str) -> set[str]:
    """What goes out: a worker's to the provider and to wake targets, a client's to the control API."""
    if program == "client":
        return {f"control.{verb}" for verb in get_args(control_http.Verb)}
    return set(get_args(outbound.Caller)) if program == "worker" else set()


def _programs(_program: str) -> set[str]:
    """The kinds of wake targets that run a program, and the frameworks' resumers."""
    return {*get_args(Kind), "resumer"} - {"http"}


def _work(_program: str) -> set[str]:
    """The streams of work: the name that each pump is given, and the kinds of what is owed."""
    given = {
        ast.unparse(call.args[0])
        for tree in _trees("wakegate_worker")
        for call in _calls(tree)
        if ast.unparse(call.func) == "Pump"
    }
    return {str(ast.literal_eval(name)) for name in given - {"owed.action"}} | {
        kind.action for kind in Owed.__subclasses__()
    }


def _tools(program: str) -> set[str]:
    return {"hold"} if program in ("harness", "client") else set(load_tools([tools.__name__]))


def _ending(program: str) -> set[str]:
    """The tools that return: one declared not to never comes to its end."""
    if program in ("harness", "client"):
        return _tools(program)
    found = load_tools([tools.__name__]).items()
    return {name for name, tool in found if inspect.get_annotations(tool.function)["return"] is not NoReturn}


def _probes(_program: str) -> set[str]:
    return {name for name, tool in load_tools([tools.__name__]).items() if tool.probe is not None}


CALLERS: Final[dict[str, Callable[[str], set[str]]]] = {
    "store.begin": writes,
    "store.commit": writes,
    "store.committed": writes,
    "store.read": reads,
    "file.draft": files,
    "file.named": files,
    "http_in.received": _kinds,
    "http_in.answer": _answers,
    "http_out.send": _exchanges,
    "http_out.answered": _exchanges,
    "work.begin": _work,
    "work.end": _work,
    "tool.begin": _tools,
    "tool.end": _ending,
    "probe.begin": _probes,
    "probe.end": _probes,
    "wake.begin": _programs,
    "wake.end": _programs,
}
"""For each place, on whose behalf a program reaches it."""


@functools.cache
def _verbs(program: str, part: str) -> set[str]:
    """Return the store's verbs that the program uses, of those that go to the writer or to the reader."""
    offered = _offered()
    used = {
        node.attr
        for tree in _trees(*PACKAGES[program])
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in offered and "store" in ast.unparse(node.value)
    }
    return {verb for name in used for way, verb in offered[name] if way == part}


@functools.cache
def _offered() -> dict[str, set[tuple[str, str]]]:
    """For each method of the store: which verbs it takes, and whether to the writer or to the reader."""
    direct: dict[str, set[tuple[str, str]]] = {}
    through: dict[str, set[str]] = {}
    trees = [ast.parse(inspect.getsource(part)) for part in Store.__mro__ if part is not object]
    for method in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)):
        for call in _calls(method):
            target = ast.unparse(call.func)
            if target in ("self._writer.do", "self._reader.read"):
                direct.setdefault(method.name, set()).add((target.split(".")[1], ast.unparse(call.args[0])))
            elif target.startswith("self.") and hasattr(Store, target.removeprefix("self.")):
                through.setdefault(method.name, set()).add(target.removeprefix("self."))
    for name, others in through.items():
        for other in others:
            direct.setdefault(name, set()).update(direct.get(other, set()))
    return direct


@functools.cache
def _migrates(program: str) -> bool:
    """Whether the program opens the store as a service, which makes and migrates it."""
    opened = [
        ast.unparse(call)
        for tree in _trees(*PACKAGES[program])
        for call in _calls(tree)
        if ast.unparse(call.func) == "open_store"
    ]
    return any("mode='service'" in call for call in opened)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _trees(*packages: str) -> tuple[ast.Module, ...]:
    return tuple(tree for package in packages for tree in _read(package))


@functools.cache
def _read(package: str) -> tuple[ast.Module, ...]:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise LookupError(package)
    found = sorted(Path(spec.origin).parent.rglob("*.py"))
    return tuple(ast.parse(path.read_text(encoding="utf-8")) for path in found)
