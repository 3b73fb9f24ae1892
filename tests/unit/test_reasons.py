"""docs/reasons.md and the code name the same words."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from wakegate_worker import aap, aap_answers, decisions, outbound, waking
from wakegate_worker.boundary import TIME_AHEAD, Ending, Refusal
from wakegate_worker.clocks import ClockVerdict

DOCUMENT = Path(__file__).parents[2] / "docs" / "reasons.md"


def documented(section: str) -> set[str]:
    sections = re.split(r"^## ", DOCUMENT.read_text(), flags=re.MULTILINE)
    (text,) = [part for part in sections if part.startswith(section + "\n")]
    return set(re.findall(r"^\| `([A-Za-z_]+)` \|", text, flags=re.MULTILINE))


def given_reasons(*modules: ModuleType) -> set[str]:
    """Return every word that stands as a reason in the modules' source."""
    source = "".join(inspect.getsource(module) for module in modules)
    return set(re.findall(r'(?:\breason ?= ?|Undelivered\()"(\w+)"', source))


SUBMISSION = {
    "submission_rejected",
    "idempotency_key_malformed",
    "payload_erased",
    "digest_differs",
    "payload_unreadable",
}
CODE = {
    "Refused at the boundary": {refusal.value for refusal in Refusal},
    "Rejected at the submission": SUBMISSION | set(aap_answers.KNOWN_REJECTIONS),
    "Decided without a start": {ending.value for ending in Ending},
    "Problems of asking a provider": {
        *outbound.PROBLEMS,
        "redirect",
        "not_found",
        "http_NNN",
        "invalid_answer",
        "request_id_malformed",
        "credential_refused",
    },
    "Problems of time": {
        TIME_AHEAD,
        *(verdict.value for verdict in ClockVerdict if verdict not in {ClockVerdict.IN_TIME, ClockVerdict.LAPSED}),
    },
    "Problems of waking": {"unknown_target", "resolution_not_json"},
}


@pytest.mark.parametrize("section", CODE)
def test_the_table_names_exactly_the_words_of_the_code(section: str) -> None:
    assert documented(section) == CODE[section]


def test_no_word_in_the_code_is_missing_from_the_tables() -> None:
    families = {"no_decision", "unreachable"}  # never raised themselves
    words = given_reasons(aap, aap_answers, decisions, outbound, waking)
    assert words - families <= set().union(*CODE.values())
    assert words >= SUBMISSION
