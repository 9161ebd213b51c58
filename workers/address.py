"""REDIS_URL as Kombu wants it: the forms other Redis clients accept, safe where Kombu's own defaults are not."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

DEFAULT_MASTER = "mymaster"
"""What Sentinel's own documentation calls the monitored server."""


def broker_settings(redis_url: str | None, transport: Mapping[str, Any]) -> dict[str, Any]:
    """Celery's settings for a broker. Raises ValueError for an address that is none.

    `rediss://` verifies the server's certificate unless `?ssl_cert_reqs=` says otherwise (Kombu would not).
    `unix:///path?db=N` is a socket. `sentinel://host:port;sentinel://host:port?master_name=NAME` asks Sentinel.
    """
    options = dict(transport)
    if redis_url is None:
        return {"broker_url": None, "broker_transport_options": options}
    if redis_url.startswith("sentinel://"):
        options["master_name"] = DEFAULT_MASTER
    urls = [_as_kombu(url, options) for url in redis_url.split(";")]
    return {"broker_url": ";".join(urls), "broker_transport_options": options}


def place(broker_url: str | None) -> str:
    """Host and port of a broker, or the path of its socket; never its password."""
    parts = urlsplit((broker_url or "").split(";")[0])
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path or "localhost:6379"


def _as_kombu(url: str, options: dict[str, Any]) -> str:
    parts = urlsplit(url)
    _ = parts.port  # raises ValueError when it is no number
    query = dict(parse_qsl(parts.query))
    scheme = parts.scheme
    if scheme == "unix":
        scheme = "redis+socket"
        query = {"virtual_host": query.pop("db", "0"), **query}
    elif scheme == "rediss":
        query.setdefault("ssl_cert_reqs", "required")
    elif scheme == "sentinel" and "master_name" in query:
        options["master_name"] = query.pop("master_name")
    return f"{scheme}://{parts.netloc}{parts.path}" + (f"?{urlencode(query)}" if query else "")
