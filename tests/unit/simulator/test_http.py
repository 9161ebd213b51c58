"""The small HTTP server: what is written for each way to answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.http import PULSE, Connection, Request


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data, self.closed, self.aborted = b"", False, False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def request_on(wire):
    """A request that came over the wire."""
    seen: list[Request] = []
    connection = Connection(seen.append)
    connection.connection_made(wire)
    connection.data_received(b"POST /a?b=c HTTP/1.1\r\nX-Name: value\r\nContent-Length: 2\r\n\r\nhi")
    return seen[0]


def body(data: bytes) -> bytes:
    """What chunks join to; the end must be there."""
    rest, joined = data.split(b"\r\n\r\n", 1)[1], b""
    while True:
        size, rest = rest.split(b"\r\n", 1)
        if not int(size, 16):
            assert rest == b"\r\n"
            return joined
        joined, rest = joined + rest[: int(size, 16)], rest[int(size, 16) + 2 :]


def test_a_request_is_read(request_on) -> None:
    assert (request_on.method, request_on.path, request_on.query) == ("POST", "/a", "b=c")
    assert (request_on.headers["x-name"], request_on.body) == ("value", b"hi")


def test_a_whole_reply_has_its_length_and_the_name_of_its_generation(wire, request_on) -> None:
    request_on.generation_id = "gen-1"
    request_on.reply(404, b"nothing", {"Retry-After": "3"})
    head, told = wire.data.split(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 404 Not Found",
        b"Content-Type: application/json",
        b"X-Generation-Id: gen-1",
        b"Content-Length: 7",
        b"Retry-After: 3",
    ]
    assert told == b"nothing"


def test_another_kind_of_content_replaces_the_usual_one(wire, request_on) -> None:
    request_on.reply(502, b"<html>", {"Content-Type": "text/html"})
    assert wire.data.count(b"Content-Type") == 1
    assert b"Content-Type: text/html" in wire.data


def test_an_answer_that_was_begun_comes_in_chunks(wire, request_on) -> None:
    request_on.begin()
    request_on.send(PULSE)
    request_on.finish(b"{}")
    assert body(wire.data) == PULSE + PULSE + b"{}"


def test_an_answer_may_end_with_nothing_more(wire, request_on) -> None:
    request_on.begin(b"")
    request_on.finish()
    assert body(wire.data) == b""


@given(st.text("ab é漢🎉", max_size=20))
def test_a_split_joins_to_the_same_and_cuts_inside_of_a_character(text) -> None:
    wire, seen = Wire(), []
    connection = Connection(seen.append)
    connection.connection_made(wire)
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    (request,) = seen
    request.begin(b"x")
    before = len(wire.data)
    data = f"x{text}".encode()
    request.send_split(data)
    sent = wire.data[before:]
    request.finish()
    assert body(wire.data) == b"x" + data
    if not text.isascii():
        size = int(sent.split(b"\r\n")[0], 16)
        with pytest.raises(UnicodeDecodeError):
            data[:size].decode()


def test_who_waits_is_told_once_that_the_client_has_gone(request_on) -> None:
    told = []
    request_on.when_gone(lambda: told.append(1))
    assert request_on.listening
    request_on.connection.connection_lost(None)
    request_on.connection.connection_lost(None)
    assert told == [1]
    assert not request_on.listening


def test_nobody_is_told_after_the_answer(request_on) -> None:
    told = []
    request_on.when_gone(lambda: told.append(1))
    request_on.reply(200, b"{}")
    request_on.connection.connection_lost(None)
    assert told == []


def test_nothing_is_written_to_a_client_that_has_gone(wire, request_on) -> None:
    request_on.connection.connection_lost(None)
    request_on.begin()
    request_on.finish(b"{}")
    request_on.reset()
    assert wire.data == b""
