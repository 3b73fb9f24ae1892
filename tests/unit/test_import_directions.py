"""The parties meet only in the schema."""

import ast
from pathlib import Path

from support.tables import each_row

ROOT = Path(__file__).parents[2]
PARTIES = ("schema", "receiver", "worker", "adapter", "provider", "console")


def imported_parties(party: str) -> set[str]:
    """Which parties' packages a party's modules import."""
    found: set[str] = set()
    for file in (ROOT / party / f"wakegate_{party}").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: imports say where they go"
                names = [node.module or ""]
            tops = {name.split(".")[0] for name in names}
            found |= {top.removeprefix("wakegate_") for top in tops if top.startswith("wakegate_")}
    return found


@each_row("party", PARTIES)
def test_a_party_imports_only_the_schema_and_itself(party: str) -> None:
    allowed = set(PARTIES) if party == "console" else {party, "schema"}
    assert imported_parties(party) <= allowed


def test_the_schema_imports_nobody() -> None:
    assert imported_parties("schema") == {"schema"}


def test_sql_lives_in_sql_files_only() -> None:
    """Statements are named blocks; what remains in Python are pragmas, transactions and the ledger."""
    words = ("SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM")
    for party in PARTIES:
        for file in (ROOT / party).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not node.value.lstrip().startswith(words), f"{file}:{node.lineno}"
