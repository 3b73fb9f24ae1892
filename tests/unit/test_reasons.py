"""docs/reasons.md explains every machine word that the code puts on record, and no other."""

import re
from importlib import resources
from pathlib import Path

from support.machine_words import (
    Argument,
    modules_of,
    reasons_raised,
    sql_literals,
    sql_writers,
    words_given,
    words_returned,
)
from support.tables import each_row
from wakegate_console import views
from wakegate_schema import outcome_texts
from wakegate_schema.calls import refusal
from wakegate_schema.sealing import CannotUnseal
from wakegate_schema.states import OLDER_EPOCH, State
from wakegate_schema.store.copying.copying import COPIED
from wakegate_schema.store.errors import InvariantViolated, NotAllowed, UnstorableValue
from wakegate_schema.store.sqlite.restore import RESTORED
from wakegate_schema.store.verbs import adoptions, epochs
from wakegate_worker import adoption_rules, backoff, outbound, resuming, wake_sender
from wakegate_worker.aap_answers import KNOWN_REJECTIONS
from wakegate_worker.boundary import FUTURE_TOLERANCE, TIME_AHEAD, Ending, Refusal
from wakegate_worker.clocks import ClockVerdict
from wakegate_worker.decisions import CredentialRefused, DecisionError, SubmissionRejected
from wakegate_worker.registry import ArgumentsDoNotFit
from wakegate_worker.sources import INSTANCE_RETIRED
from wakegate_worker.starting import CannotRunHere
from wakegate_worker.threads import NoThread

TEXT = (Path(__file__).parents[2] / "docs" / "reasons.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", TEXT, flags=re.MULTILINE)
WRITERS = modules_of("wakegate_worker", "wakegate_adapter", "wakegate_schema.calls", "wakegate_schema.store")
ADOPTED = "adopted"
EXECUTION_WRITERS = [module for module in WRITERS if module not in (epochs, adoptions, adoption_rules, resuming)]


def explained(kind: str) -> set[str]:
    """The words that stand as this, on the page."""
    return {word for word, places, _ in ROWS if any(place.startswith(kind) for place in places.split("; "))}


def execution_reasons() -> set[str]:
    sinks = {
        "Outcome": Argument(1, "reason"),
        "Closing": Argument(1, "reason"),
        "abandon": Argument(1, "reason"),
    }
    held = {word for word in ("too_late", "clock_behind") if f'"{word}"' in Path(refusal.__file__).read_text()}
    held.add(OLDER_EPOCH)
    return (
        words_given(EXECUTION_WRITERS, sinks, "reason")
        | words_returned(WRITERS, "_unfit")
        | sql_literals("reason") - {ADOPTED, adoption_rules.GIVEN_UP}
        | set(map(str, (*Refusal, *Ending)))
        | reasons_raised(WRITERS, SubmissionRejected)
        | KNOWN_REJECTIONS
        | {NoThread.reason, str(ClockVerdict.CLOCK_BEHIND)}
        | held
    )


def execution_problems() -> set[str]:
    asking = reasons_raised(WRITERS, DecisionError, but=(SubmissionRejected, CredentialRefused)) | set(
        outbound.PROBLEMS
    )
    sealing = reasons_raised(modules_of("wakegate_schema"), CannotUnseal)
    sealing |= {"credential_of_another_provider", "credential_of_another_instance"}
    here = reasons_raised(WRITERS, CannotRunHere) | {ArgumentsDoNotFit.reason}
    clocks = {str(verdict) for verdict in ClockVerdict if verdict not in {ClockVerdict.IN_TIME, ClockVerdict.LAPSED}}
    store = {error.reason for error in (InvariantViolated, NotAllowed, UnstorableValue)}
    sinks = {"release": Argument(2, "problem"), "NotNow": Argument(0, "problem")}
    given = words_given(WRITERS, sinks, "problem")
    return asking | sealing | here | clocks | store | given | {TIME_AHEAD}


def wake_problems() -> set[str]:
    sinks = {
        "Undelivered": Argument(0, "problem"),
        "RetryAt": Argument(1, "problem"),
        "Ended": Argument(0, "problem"),
    }
    senders = [module for module in modules_of("wakegate_worker") if module is not resuming]
    return words_given(senders, sinks) | set(outbound.PROBLEMS)


def adoption_ends() -> set[str]:
    sinks = {"End": Argument(0, "reason"), "_end": Argument(1, "reason"), "adoption_end": Argument(1, "reason")}
    decided = {"denied", "expired", "cancelled", INSTANCE_RETIRED}
    return (
        words_given([adoption_rules, resuming, adoptions], sinks, "reason")
        | words_returned([adoption_rules], "_why_enough")
        | decided
    )


def notification_reasons() -> set[str]:
    discarded = {
        word for word in ("abandoned", "instance_retired") if f'"discarded", "{word}"' in source("notifications")
    }
    states = {str(state) for state in State} - {"saved", "submitting", "waiting"}
    return states | discarded | ({ADOPTED} & sql_literals("reason"))


def anomalies() -> set[str]:
    return words_given(WRITERS, {"note": Argument(None, "kind")})


def source(verbs: str) -> str:
    (module,) = (found for found in WRITERS if found.__name__ == f"wakegate_schema.store.verbs.{verbs}")
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def migration(number: str) -> str:
    folder = resources.files("wakegate_schema").joinpath("sql/sqlite/migrations")
    (script,) = (file for file in folder.iterdir() if file.name.startswith(number))
    return script.read_text(encoding="utf-8")


CODE = {
    "reason of": execution_reasons(),
    "problem": execution_problems(),
    "wake problem": wake_problems(),
    "notification": notification_reasons(),
    "instance `parked`": {CredentialRefused.reason},
    "registration": set(views._MISSING.values()),
    "adoption `ended`": adoption_ends(),
    "adoption problem": words_given([resuming], {"Ended": Argument(0, "problem")}),
    "anomaly": anomalies(),
    "transition": {epochs.RELEASED},
    "epoch": {RESTORED, COPIED, epochs.PROMOTED, *re.findall(r"VALUES \(1, '(\w+)'", migration("0002"))},
}


@each_row("kind", CODE)
def test_the_page_explains_exactly_the_words_of_the_code(kind: str) -> None:
    assert explained(kind) == CODE[kind]


def test_the_words_are_in_the_order_of_the_alphabet_and_each_once() -> None:
    words = [word for word, _, _ in ROWS]
    assert words == sorted(set(words))


def test_nothing_stands_as_anything_else() -> None:
    one = (
        r"(problem|wake problem|transition|epoch|reason of `\w+`(, `\w+`)*"
        r"|adoption `ended`|adoption problem|anomaly of an? \w+|notification `\w+`|instance `\w+`|registration `\w+`)"
    )
    odd = [word for word, places, _ in ROWS if re.fullmatch(f"{one}(; {one})*", places) is None]
    assert odd == []


def test_every_state_has_its_reasons() -> None:
    named = {state for _, places, _ in ROWS for part in re.findall(r"reason of ([^;]+)", places) for state in
             re.findall(r"`(\w+)`", part)}  # fmt: skip
    assert named == {str(state) for state in State} - {"saved", "submitting", "waiting"}


def test_what_the_boundary_finds_is_said_to_be_refused() -> None:
    places = {word: place for word, place, _ in ROWS}
    assert all("reason of `refused`" in places[refusal] for refusal in Refusal)


def test_no_query_takes_a_reason_or_problem_that_is_not_followed() -> None:
    """A new one wants a sink here, so that the words it is given are found."""
    assert sql_writers("reason") == {
        "execution_abandon",
        "close_unstarted",
        "attempt_finish",
        "settle",
        "instance_park",
        "epoch_raise",
        "epoch_note_release",
        "adoption_end",
    }
    assert sql_writers("problem") == {
        "lease_release",
        "wake_failed",
        "adoption_again",
        "epoch_hold_older",
        "epoch_hold_attached",
    }


def test_the_limits_are_the_documented_ones() -> None:
    assert f"{outcome_texts.RESULT_LIMIT:,} bytes" in TEXT
    assert f"{outcome_texts.MESSAGE_LIMIT} characters" in TEXT
    assert f"{backoff.APPROVED_CAP_S:g} seconds apart" in TEXT
    assert f"more than {FUTURE_TOLERANCE // 1_000_000} s ahead" in TEXT
    assert wake_sender.RETRY_FOR == 24 * 3600 * 1_000_000
