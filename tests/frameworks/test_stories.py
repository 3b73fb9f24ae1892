"""Real frameworks: what wakegate makes of every story, and the SDK's receiver of the same."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworks import table
from frameworks.support.harness import HARNESSES
from frameworks.support.sdk_waker import SdkReceiver
from frameworks.support.stories import Story, of, tell
from frameworks.support.wakegate_waker import Wakegate
from support.rooms import room


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty one, whose name leaves room for that of a socket."""
    with tempfile.TemporaryDirectory(prefix="wg", dir=room() or "/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("framework", HARNESSES)
async def test_with_wakegate_every_run_ends_and_no_call_runs_twice(framework: str, folder: Path) -> None:
    seen = await tell(framework, Wakegate, folder, _usual(framework))
    assert {story.name: str(came) for story, came in seen.items()} == {
        story.name: str(story.wanted) for story in _usual(framework)
    }
    assert all(story.wanted.ended for story in seen)


@pytest.mark.parametrize("framework", HARNESSES)
async def test_with_the_sdk_s_receiver_comes_what_the_page_says_and_no_call_runs_twice(
    framework: str, folder: Path
) -> None:
    seen = await tell(framework, SdkReceiver, folder, _usual(framework))
    told = {happens: came for happens, _, came in table.rows(_part(framework))}
    assert {story.happens: str(came) for story, came in seen.items()} == {
        story.happens: told[story.happens] for story in seen
    }
    assert all(count == 1 for came in seen.values() for count in came.effects.values())


@pytest.mark.parametrize("framework", HARNESSES)
def test_the_page_tells_every_story_of_every_framework_and_with_wakegate_what_must_come_of_it(framework: str) -> None:
    told = [(happens, came) for happens, came, _ in table.rows(_part(framework))]
    assert told == [(story.happens, str(story.wanted)) for story in of(framework)]
    first, *_ = _part(framework).splitlines()
    assert [word for word in first.split() if not word[0].isdigit()] == [
        word for word in table.versions(framework).split() if not word[0].isdigit()
    ]


def test_writing_a_part_of_the_page_anew_leaves_the_rest_as_it_is() -> None:
    text = table.PAGE.read_text(encoding="utf-8")
    for framework in HARNESSES:
        assert table.put(text, framework, table.part(text, framework)) == text
        assert table.part(table.put(text, framework, "new"), framework) == "new"


def _usual(framework: str) -> list[Story]:
    return [story for story in of(framework) if not story.by_command]


def _part(framework: str) -> str:
    return table.part(table.PAGE.read_text(encoding="utf-8"), framework)
