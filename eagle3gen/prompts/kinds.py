"""Kinds of files that hold no JSON text, told by their first bytes and not by their name."""

from pathlib import Path

from eagle3gen.errors import InputError

KINDS = {
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it first",
    b"BZh": "is compressed with bzip2; unpack it first",
    b"\xfd7zXZ\x00": "is compressed with xz; unpack it first",
    b"PK\x03\x04": "is a zip archive; unpack it first",
    b"PAR1": "is a Parquet file; write it as .jsonl first",
    b"ARROW1": "is an Arrow file; write it as .jsonl first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
}
"""Signatures as their formats publish them (RFC 1952, RFC 8878, the bzip2, xz, ZIP, Parquet and Arrow documents)."""

SIGNATURE_BYTES = max(map(len, KINDS))


def refuse_foreign(path: Path, start: bytes) -> None:
    """Raises InputError if the first bytes of a file are those of another kind."""
    for signature, sentence in KINDS.items():
        if start.startswith(signature):
            raise InputError(f"{path} {sentence}")
