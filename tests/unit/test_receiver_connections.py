"""Whose connection is closed to make room, and whose never is."""

import asyncio

import pytest

from wakegate_receiver.connections import Connections


class Peer:
    """A connection that remembers how it was closed."""

    def __init__(self, remote: str) -> None:
        self.remote: str | None = remote
        self.closed = ""

    def cut(self) -> None:
        self.closed = "cut"

    def hang_up(self) -> None:
        self.closed = "hung up"


class Book(Connections):
    """A book of three places, and what it told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None]] = []
        super().__init__(3, lambda reason, peer: self.told.append((reason, peer.remote)))

    def arriving(self, name: str, at: float) -> Peer:
        peer = Peer(name)
        self.opened(peer, at)
        return peer

    def reading(self, name: str, at: float) -> Peer:
        peer = self.arriving(name, at)
        self.headers_came(peer, at)
        return peer

    def proving(self, name: str, at: float) -> Peer:
        peer = self.reading(name, at)
        self.body_came(peer)
        return peer

    def refused(self, name: str, at: float) -> Peer:
        peer = self.proving(name, at)
        assert self.held(peer, at)
        return peer

    def answering(self, name: str, at: float) -> Peer:
        peer = self.proving(name, at)
        self.proved(peer)
        return peer

    def resting(self, name: str, at: float) -> Peer:
        peer = self.answering(name, at)
        self.answered(peer, at)
        return peer


@pytest.fixture
def book() -> Book:
    return Book()


def test_nobody_is_closed_while_there_is_room(book: Book) -> None:
    peers = [book.arriving("a", 0), book.resting("b", 0)]
    assert book.make_room(100)
    assert [peer.closed for peer in peers] == ["", ""]


def test_the_slowest_request_makes_room_first(book: Book) -> None:
    slow, idle, recent = book.reading("slow", 1), book.resting("idle", 0), book.arriving("recent", 9.5)
    assert book.make_room(10)
    assert (slow.closed, idle.closed, recent.closed) == ("cut", "", "")
    assert book.told == [("evicted", "slow")]


def test_an_idle_connection_makes_room_before_one_that_has_just_come(book: Book) -> None:
    recent, idle, later = book.arriving("recent", 9.5), book.resting("idle", 9.6), book.resting("later", 9.7)
    assert book.make_room(10)
    assert (recent.closed, idle.closed, later.closed) == ("", "hung up", "")


def test_one_that_has_just_come_makes_room_when_there_is_no_other(book: Book) -> None:
    first, _, busy = book.arriving("first", 9.5), book.reading("second", 9.6), book.answering("busy", 0)
    assert book.make_room(10)
    assert (first.closed, busy.closed) == ("cut", "")


def test_a_refusal_that_is_kept_back_makes_room_before_an_idle_connection(book: Book) -> None:
    idle, held, busy = book.resting("idle", 9.1), book.refused("held", 9.9), book.answering("busy", 0)
    assert book.make_room(10)
    assert (idle.closed, held.closed, busy.closed) == ("", "cut", "")


def test_what_is_not_proved_makes_room_before_one_that_has_just_come(book: Book) -> None:
    new, proving, idle = book.arriving("new", 9.5), book.proving("proving", 9.6), book.resting("idle", 9.7)
    assert book.make_room(10)
    assert book.make_room(10)
    assert (new.closed, proving.closed, idle.closed) == ("", "", "hung up")
    book.answering("busy", 10)
    assert book.make_room(10)
    assert (new.closed, proving.closed) == ("", "cut")


async def test_what_was_closed_before_it_was_proved_is_not_waited_for(book: Book) -> None:
    peers = [book.proving(name, 0) for name in "abc"]
    assert book.busy == 3
    assert book.make_room(10)
    assert [peer.closed for peer in peers] == ["cut", "", ""]
    for peer in peers:
        book.proved(peer)
        book.answered(peer, 11)
    await book.quiet()
    assert len(book) == 2


def test_a_refusal_is_not_kept_back_from_one_who_has_left(book: Book) -> None:
    peer = book.proving("a", 0)
    book.closed(peer)
    assert not book.held(peer, 1)
    book.answered(peer, 2)
    assert len(book) == 0


async def test_the_end_of_the_last_whole_request_is_told(book: Book) -> None:
    peer = book.answering("a", 0)
    waiting = asyncio.create_task(book.quiet())
    await asyncio.sleep(0)
    assert not waiting.done()
    book.answered(peer, 1)
    await waiting


def test_a_genuine_request_is_never_closed_for_another(book: Book) -> None:
    peers = [book.answering(name, 0) for name in "abc"]
    assert not book.make_room(100)
    assert [peer.closed for peer in peers] == ["", "", ""]


def test_a_place_is_free_again_as_soon_as_somebody_was_closed_for_it(book: Book) -> None:
    for name in "abc":
        book.arriving(name, 0)
    assert book.make_room(10)
    assert len(book) == 2


def test_what_sends_no_headers_in_time_is_cut(book: Book) -> None:
    early, late, reading = book.arriving("early", 1), book.arriving("late", 5), book.reading("reading", 0)
    book.cut_silent(4)
    assert (early.closed, late.closed, reading.closed) == ("cut", "", "")
    assert book.told == [("silent", "early")]


def test_the_clock_of_a_kept_connections_request_starts_with_its_first_byte(book: Book) -> None:
    peer = book.resting("a", 0)
    book.cut_silent(50)
    assert not peer.closed
    book.bytes_came(peer, 60)
    book.bytes_came(peer, 61)
    assert book.headers_came(peer, 62) == 60


def test_a_request_that_came_in_one_piece_began_when_it_came(book: Book) -> None:
    peer = book.resting("a", 0)
    assert book.headers_came(peer, 7) == 7


async def test_a_request_is_waited_for_although_its_sender_has_left(book: Book) -> None:
    peer = book.answering("a", 0)
    book.closed(peer)
    assert book.busy == 1
    book.answered(peer, 1)
    await book.quiet()
    assert len(book) == 0


async def test_a_request_whose_connection_ended_before_it_was_looked_at_is_forgotten(book: Book) -> None:
    peer = book.arriving("a", 0)
    book.closed(peer)
    book.headers_came(peer, 1)
    book.body_came(peer)
    assert book.busy == 1
    book.answered(peer, 2)
    assert len(book) == 0
    assert not book.evict(3)


def test_at_the_end_everything_but_whole_requests_is_closed(book: Book) -> None:
    peers = [
        book.arriving("a", 0),
        book.reading("b", 0),
        book.refused("c", 0),
        book.resting("d", 0),
        book.proving("e", 0),
        book.answering("f", 0),
    ]
    book.cut_waiting()
    assert [peer.closed for peer in peers] == ["cut", "cut", "cut", "hung up", "", ""]
    assert not book.told


def test_what_accepted_a_connection_gives_it_its_place(book: Book) -> None:
    arrival = book.arriving("a", 0)
    book.handed_over(arrival, Peer("a"), 1)
    book.closed(arrival)
    assert len(book) == 1
