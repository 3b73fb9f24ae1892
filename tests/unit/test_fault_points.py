"""Fault points: nothing while nothing is armed; armed, exactly what was asked for, where and when it was."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tables import each_row
from wakegate_schema import fault_points
from wakegate_schema.fault_points import TEST_FAULT, TEST_FAULT_TRACE, Fault, FaultMalformed, InjectedFault
from wakegate_schema.store.verbs import notifications


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """Leave nothing armed."""
    yield
    fault_points.arm({}, lambda *_, **__: None)


class Warnings:
    """What a process was warned of."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def __call__(self, event: str, **fields: object) -> None:
        self.lines.append({"event": event, **fields})


@each_row(
    ("text", "fault"),
    [
        ("store.commit:attempts.start=kill", Fault("store.commit:attempts.start", "kill")),
        ("http_out.send:wake=raise@3", Fault("http_out.send:wake", "raise", hit=3)),
        ("http_in.answer:request.resolved=delay:2.5", Fault("http_in.answer:request.resolved", "delay", 2.5)),
        ("file.draft:wakegate.db-turn=delay:0@10", Fault("file.draft:wakegate.db-turn", "delay", 0.0, 10)),
    ],
)
def test_an_arming_is_read(text: str, fault: Fault) -> None:
    assert fault_points.parse(text) == fault


@each_row(
    "text",
    [
        "", "kill", "store.begin:record", "store.begin:record=", "store.begin:record=die", "store.begin=kill",
        "store.begin:record=kill@0", "store.begin:record=kill@", "store.begin:record=delay",
        "store.begin:record=delay:-1", "store.begin:record=delay:nan", "store.begin:record=kill ", "=kill",
        "store.begin:record=kill:1", "store.begin:record=kill\n",
    ],
)  # fmt: skip
def test_a_malformed_arming_is_refused(text: str) -> None:
    with pytest.raises(FaultMalformed, match=TEST_FAULT) as caught:
        fault_points.arm({TEST_FAULT: text}, Warnings())
    assert caught.value.reason == "fault_malformed"


async def test_nothing_happens_while_nothing_is_armed() -> None:
    warned = Warnings()
    fault_points.arm({"PATH": "/bin"}, warned)
    fault_points.reach("store.begin", "x")
    await fault_points.passing("http_out.send", "wake")
    assert warned.lines == []


def test_what_is_armed_is_warned_of() -> None:
    warned = Warnings()
    fault_points.arm({TEST_FAULT: "store.begin:x=raise@2"}, warned)
    (line,) = warned.lines
    assert (line["action"], line["point"], line["fault"], line["hit"]) == ("arm_fault", "store.begin:x", "raise", 2)


async def test_a_point_raises_at_its_hit_and_only_then() -> None:
    fault_points.arm({TEST_FAULT: "store.begin:x=raise@2"}, Warnings())
    fault_points.reach("store.begin", "x")
    fault_points.reach("store.commit", "x")
    fault_points.reach("store.begin", "y")
    with pytest.raises(InjectedFault, match=r"store\.begin:x"):
        await fault_points.passing("store.begin", "x")
    fault_points.reach("store.begin", "x")


def test_a_function_is_named_by_its_module_and_itself() -> None:
    fault_points.arm({TEST_FAULT: "store.begin:notifications.record=raise"}, Warnings())
    with pytest.raises(OSError, match=r"notifications\.record"):
        fault_points.reach("store.begin", notifications.record)


async def test_a_delay_in_an_event_loop_holds_up_nobody_else() -> None:
    fault_points.arm({TEST_FAULT: "http_out.send:wake=delay:0.3"}, Warnings())
    began = time.monotonic()
    delayed = asyncio.ensure_future(fault_points.passing("http_out.send", "wake"))
    await asyncio.sleep(0.01)
    assert not delayed.done()
    await delayed
    assert time.monotonic() - began >= 0.3


def test_a_delay_in_a_thread_makes_it_wait() -> None:
    fault_points.arm({TEST_FAULT: "store.begin:x=delay:0.2"}, Warnings())
    began = time.monotonic()
    fault_points.reach("store.begin", "x")
    assert time.monotonic() - began >= 0.2


def test_a_trace_names_each_point_once(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("before\n")
    fault_points.arm({TEST_FAULT_TRACE: str(trace)}, Warnings())
    for caller in ("x", "y", "x", notifications.record):
        fault_points.reach("store.begin", caller)
    assert trace.read_text() == "before\nstore.begin:x\nstore.begin:y\nstore.begin:notifications.record\n"
