"""REDIS_URL in all its forms, as Kombu wants it."""

import ssl

import pytest

from eagle3gen.errors import ConfigurationError
from workers.address import broker_settings, place
from workers.app import connect


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("redis://:pw@host:6380/2", "redis://:pw@host:6380/2"),
        ("redis://:p%40w@host", "redis://:p%40w@host"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=0"),
        ("unix://:pw@/run/valkey.sock?db=3", "redis+socket://:pw@/run/valkey.sock?virtual_host=3"),
        ("rediss://host:6380/0", "rediss://host:6380/0?ssl_cert_reqs=required"),
        ("rediss://host?ssl_cert_reqs=none", "rediss://host?ssl_cert_reqs=none"),
        ("sentinel://a:1;sentinel://b:2/1?master_name=books", "sentinel://a:1;sentinel://b:2/1"),
    ],
)
def test_every_form_becomes_the_one_kombu_reads(given, made) -> None:
    assert broker_settings(given, {})["broker_url"] == made


def test_tls_verifies_the_certificate_unless_told_otherwise() -> None:
    """Kombu alone would encrypt to whoever answers."""
    assert connect("rediss://host").connection_for_write().ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    loose = connect("rediss://host?ssl_cert_reqs=none").connection_for_write()
    assert loose.ssl == {"ssl_cert_reqs": ssl.CERT_NONE}


@pytest.mark.parametrize(("url", "name"), [("sentinel://a:1", "mymaster"), ("sentinel://a:1?master_name=b", "b")])
def test_sentinel_is_asked_for_a_master_by_name(url, name) -> None:
    assert broker_settings(url, {"x": 1})["broker_transport_options"] == {"x": 1, "master_name": name}


def test_without_an_address_there_is_no_broker() -> None:
    assert broker_settings(None, {})["broker_url"] is None


def test_a_port_that_is_no_number_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="REDIS_URL is not an address"):
        connect("redis://host:port/0")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:hunter2@host:6380/2", "host:6380"),
        ("redis://host", "host:6379"),
        ("redis+socket://:hunter2@/run/valkey.sock", "/run/valkey.sock"),
        ("sentinel://:hunter2@a:1;sentinel://b:2", "a:1"),
        (None, "localhost:6379"),
    ],
)
def test_a_place_is_named_without_its_password(url, shown) -> None:
    assert place(url) == shown
