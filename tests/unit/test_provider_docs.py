"""docs/provider.md and the provider name the same codes, limits and policy keys."""

import inspect
import re
import tomllib
from pathlib import Path

from wakegate_provider import (
    app,
    instances,
    policy,
    problems,
    requests,
    server,
    submissions,
    updates,
    verification,
    waiting,
)
from wakegate_schema.store.errors import StoreUnavailable

DOCUMENT = (Path(__file__).parents[2] / "docs" / "provider.md").read_text(encoding="utf-8")
MODULES = (app, instances, problems, requests, server, submissions, updates, verification, waiting)


def raised() -> set[tuple[str, str]]:
    """Return the code and status of every `Problem` that stands in the source."""
    source = "".join(inspect.getsource(module) for module in MODULES)
    found = {(code, status) for status, code in re.findall(r'Problem\(\s*(\d{3}),\s*"(\w+)"', source)}
    named = {(code, "400") for code in re.findall(r'\): "(\w+)",', inspect.getsource(app))}
    return found | named | {(StoreUnavailable.reason, "503")}


def test_every_error_code_is_documented_and_none_besides() -> None:
    assert set(re.findall(r"^\| `(\w+)` \| (\d{3}) \|", DOCUMENT, flags=re.MULTILINE)) == raised()


def test_the_policy_in_the_document_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert len(policy.parse_policy(text, "document").rules) == 1
    (rule,) = tomllib.loads(text)["rule"]
    assert set(rule) == {"tool", "decision", "note", "approval_ttl", "delay"}


def test_the_limits_in_the_document_are_the_code_s() -> None:
    for number in (instances.MAX_INSTANCES, requests.MAX_PENDING, waiting.MAX_WAITING):
        assert f"| {number:,}" in DOCUMENT
    assert f"| {submissions.MAX_AT_ONCE} |" in DOCUMENT
    assert f"{app.MAX_NAME} characters, {app.MAX_KEY} visible" in DOCUMENT
